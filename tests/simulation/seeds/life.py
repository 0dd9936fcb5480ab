"""A random fleet and what befalls it: a list of (time, what, arguments), drawn from the seed before anything happens."""

from __future__ import annotations

import random
from typing import Any

from tests.simulation.seeds.queues import Queue
from tests.simulation.seeds.world import Troubles, World

from baton.engine.observation import GroupSpec, Protocol, ScaleMode

Event = tuple[float, str, tuple[Any, ...]]
LENGTH = 45.0
"""Seconds in which things happen to a fleet."""
NAMES = "abcdefg"


def make(seed: int) -> tuple[World, list[Event]]:
    rng = random.Random(seed)
    storm = rng.random()  # how bad it gets
    troubles = Troubles()
    if storm > 0.35:
        troubles = Troubles(
            crash=rng.choice((0.0, 0.005, 0.03, 0.1)),
            conflict=rng.choice((0.0, 0.0, 0.05, 0.3)),
            lost=rng.choice((0.0, 0.0, 0.1, 0.5)),
            reordered=rng.choice((0.0, 0.0, 0.1, 0.5)),
            slow=rng.choice((1.0, 1.0, 3.0, 20.0)),
        )
    spec = GroupSpec(
        assignors=(rng.choice(("solace",) * 6 + ("range", "cooperative-sticky", "round-robin")),),
        protocol=rng.choice((Protocol.COOPERATIVE,) * 4 + (Protocol.EAGER,)),
        delay=rng.choice((0.0, 1.0, 3.0, 5.0)),
        resync=rng.choice((5.0, 10.0, 20.0)),
        max_concurrent_handoffs=rng.choice((0, 0, 0, 1, 2)),
        session_timeout=rng.choice((0.0, 0.0, 0.0, 6.0)),
        scale_mode=(mode := rng.choice((None, None, None, ScaleMode.WORKLOAD, ScaleMode.SPARK))),
        replicas=None if mode is None else rng.randint(2, 4),
    )
    world = World(seed, random.Random(seed + 1_000_000_007), spec, troubles)
    for name in ("orders", "pay")[: rng.choice((1, 1, 2))]:
        world.queues[name] = Queue(
            name,
            world.clock,
            partitions=rng.randint(1, 7),
            fenced=rng.random() > 0.15,
            exclusive=rng.random() < 0.12,
            force=rng.random() < 0.3,
            max_handoff=rng.choice((0.0, 1.0, 2.0, 3.0)),
        )
    life: list[Event] = [(0.0, "join", _pod(rng, spec, name)) for name in NAMES[: rng.randint(1, 4)]]
    for _ in range(rng.randint(2, 9)):
        life.append((round(rng.random() * LENGTH, 2), *_event(rng, spec, storm, list(world.queues))))
        if rng.random() < 0.3:  # things come together
            life.append((round(min(LENGTH, life[-1][0] + rng.random()), 2), *_event(rng, spec, storm, list(world.queues))))
    return world, sorted(life, key=lambda event: event[0])


def _pod(rng: random.Random, spec: GroupSpec, name: str | None = None) -> tuple[Any, ...]:
    name = name or rng.choice(NAMES)
    instance = rng.choice((None, name, f"i{rng.randint(0, 2)}")) if spec.session_timeout else None
    silent = rng.random() < 0.12
    return (
        name,
        {
            "instance": instance,
            "subscribed": rng.choice((None,) * 8 + (frozenset({"orders"}),)),
            "pace": rng.choice((0.5, 0.9, 1.5)),
            "work": rng.choice((0.05, 0.3, 1.0, 6.0)),
            "silent": silent,
        },
    )


def _event(rng: random.Random, spec: GroupSpec, storm: float, queues: list[str]) -> tuple[str, tuple[Any, ...]]:
    calm = [
        ("join", lambda: _pod(rng, spec)),
        ("join", lambda: _pod(rng, spec)),
        ("leave", lambda: (rng.choice(NAMES[:4]),)),
        ("leave", lambda: (rng.choice(NAMES[:4]),)),
        ("flap", lambda: (rng.choice(NAMES[:4]), round(rng.random() * 4, 2), _pod(rng, spec)[1])),
        ("terminate", lambda: (rng.choice(NAMES[:4]), rng.choice((3.0, 10.0, 30.0)))),
        ("terminate", lambda: (rng.choice(NAMES[:4]), rng.choice((3.0, 10.0, 30.0)))),
        ("replace", lambda: (rng.choice(NAMES[:4]), rng.choice(NAMES[3:]), round(rng.random() * 3, 2), _pod(rng, spec)[1])),
        ("resize", lambda: (rng.choice(queues), rng.randint(0, 9))),
        ("subscribe", lambda: (rng.choice(NAMES[:4]), rng.choice((None, frozenset({"orders"}), frozenset({"pay"}))))),
        ("request", lambda: (str(rng.random()),)),
        ("exclusive", lambda: (rng.choice(queues),)),
        ("spec", lambda: (rng.choice((
            {"paused": True}, {"paused": True}, {"paused": False}, {"protocol": rng.choice(list(Protocol))},
            {"max_concurrent_handoffs": rng.randint(0, 2)}, {"delay": rng.choice((0.0, 1.0, 5.0))},
            {"assignors": (rng.choice(("solace", "range")),)},
            {"replicas": rng.randint(1, 5)} if spec.scale_mode else {"resync": 10.0},
        )),)),
        ("queue", lambda: (rng.choice(queues), rng.choice(({"named": False}, {"named": True}, {"max_handoff": 1.0})))),
    ]  # fmt: skip
    stormy = [
        ("crash", lambda: (rng.choice((0.1, 1.0, 8.0)),)),
        ("second leader", tuple),
        ("stop", lambda: (rng.choice(NAMES[:4]), rng.choice((1.0, 5.0, 12.0)), rng.choice((2.0, 5.0)))),
        ("stop", lambda: (rng.choice(NAMES[:4]), rng.choice((1.0, 5.0, 12.0)), rng.choice((2.0, 5.0)))),
        ("restart in place", lambda: (rng.choice(NAMES[:4]),)),
        ("unreachable", lambda: (rng.choice(queues), rng.choice((1.0, 5.0, 10.0)))),
        ("restart the server", lambda: (rng.choice(queues), frozenset(rng.sample(range(8), rng.randint(0, 4))))),
        ("lose the ledger", tuple),
    ]
    what, arguments = rng.choice(calm + stormy if storm > 0.35 else calm)
    return what, tuple(arguments())


def happen(world: World, what: str, arguments: tuple[Any, ...]) -> None:
    """One event. What does not apply (nobody of that name is there) does nothing."""
    pod = world.pods.get(arguments[0]) if arguments and isinstance(arguments[0], str) else None
    match what, arguments:
        case "join", (name, facts):
            world.join(name, **facts)
        case "leave", _ if pod is not None:
            world.remove(pod)
        case "flap", (name, seconds, facts) if pod is not None:
            facts = {**facts, "instance": pod.instance, "subscribed": pod.subscribed}
            world.remove(pod)
            world.clock.later(seconds, lambda: world.join(name, **facts))
        case "terminate", (_, grace) if pod is not None:
            world.terminate(pod, grace)
        case "replace", (_, name, seconds, facts) if pod is not None:  # a rolling restart with surge
            world.join(name, **facts)
            world.clock.later(seconds, lambda: world.terminate(pod, 30.0))
        case "stop", (_, seconds, session) if pod is not None:
            world.stop(pod, seconds, session)
        case "restart in place", _ if pod is not None:
            world.say(f"{pod.name}'s container restarts in place")
            pod.restart_in_place()
        case "subscribe", (_, queues) if pod is not None and len(world.queues) > 1:
            world.say(f"{pod.name} reads {queues}")
            pod.subscribed = queues
            world.pod_changed(pod.name)
        case "resize", (queue, partitions):
            world.queue_changed(queue, partitions=partitions)
        case "exclusive", (queue,):
            world.queue_changed(queue, exclusive=not world.queues[queue].exclusive)
        case "queue", (queue, facts):
            world.queue_changed(queue, **facts)
        case "spec", (change,):
            world.change(**change)
            world.checks.fewest &= world.spec.assignors == ("solace",)
        case "request", (number,):
            world.request = number
            world.spec_changed()
        case "crash", (seconds,):
            if (operator := world.operator) is not None:
                world.say("the operator dies")
                operator.die()
                world.clock.later(seconds, world.new_operator)
        case "second leader", ():
            if world.operator is not None:
                world.new_operator()  # the first one goes on until its next write
        case "unreachable", (queue, seconds):
            world.queue_changed(queue, reachable=False)
            world.clock.later(seconds, lambda: world.queue_changed(queue, reachable=True))
        case "restart the server", (queue, forgets):
            world.say(f"the server of {queue} restarts and forgets {sorted(forgets)}")
            world.queues[queue].restart(set(forgets))
        case "lose the ledger", ():
            world.lose_ledger()
