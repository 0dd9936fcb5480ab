"""One seed from beginning to end: trouble, then peace, and then, within a bound, everybody is served and evenly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from tests.simulation.seeds.clock import InvariantError
from tests.simulation.seeds.life import Event, happen, make
from tests.simulation.seeds.world import World

REACTION = 6.0
"""Seconds in which an operator that is told of something has written it, and a consumer that is told of it has seen it: both
several times (a hand-off takes four writes), with what the slowest network here makes of it; and a keeper has looked at its
queue."""


@dataclass(frozen=True, slots=True)
class Played:
    seed: int
    problem: str | None
    world: World


def bound(world: World) -> float:
    """Seconds from the last fault to balance.

    A fact is noticed at the next resync at the latest. Then it waits for the session timeout of a static member, or for a
    holddown, or for both, since what happened in the one may only be put right by the other. Then hand-offs wait for at most
    their longest, once for the plan in force and once for the next; where their number is bounded, in as many turns as there
    are partitions. An External queue waits for the consumer's word.
    """
    spec = world.spec
    handoff = max((queue.max_handoff for queue in world.queues.values()), default=0.0)
    partitions = sum(queue.partitions for queue in world.queues.values())
    turns = -(-partitions // spec.max_concurrent_handoffs) if spec.max_concurrent_handoffs else 1
    slowest = max((pod.work + pod.pace for pod in world.pods.values()), default=0.0) if _waits(world) else 0.0
    return spec.resync + spec.session_timeout + 2 * spec.delay + (1 + turns) * (max(handoff, slowest) + REACTION)


def _waits(world: World) -> bool:
    return any(not queue.fenced and not queue.force for queue in world.queues.values())


def play(seed: int, life: Iterable[Event] | None = None, trace: list[tuple[float, str]] | None = None) -> Played:
    """Without `life`: the seed's own."""
    world, own = make(seed)
    world.trace = trace
    events = list(own if life is None else life)
    try:
        world.new_operator()
        for when, what, arguments in events:
            world.clock.at(when, partial(happen, world, what, arguments))
        world.clock.run(max((when for when, _, _ in events), default=0.0) + 0.01)
        _to_peace(world)
    except InvariantError as violation:
        return Played(seed, f"at {world.clock.now}: {violation}", world)
    except Exception as error:
        return Played(seed, f"at {world.clock.now}: {type(error).__name__}: {error}", world)
    return Played(seed, None, world)


def _to_peace(world: World) -> None:
    """No more faults; what was stopped, unreachable or on its way out comes to its end."""
    world.clock.run(world.clock.now + 13.0)  # the longest stop and the longest outage are over
    world.calm = True
    world.say("from here on nothing goes wrong any more")
    for queue in world.queues.values():
        queue.reachable = True
        if not queue.fenced and not queue.force:
            for pod in world.pods.values():
                pod.speak()  # its word is all there is: without it a move waits, as it should
    for pod in list(world.pods.values()):
        if pod.terminating:
            world.remove(pod)
    if world.spec.paused:
        world.change(paused=False)
    if world.operator is None:
        world.new_operator()
    world.clock.run(world.clock.now + bound(world))
    if (problem := world.checks.balanced()) is not None:
        raise InvariantError(f"{problem}, {bound(world)} s after the last fault")
    for queue in world.queues.values():
        queue.produce_until = world.clock.now
    for pod in world.pods.values():
        pod.work = min(pod.work, 0.3)
    _drain(world)
    world.checks.bounds()


def _drain(world: World) -> None:
    for _ in range(40):
        world.clock.run(world.clock.now + 10.0)
        if world.checks.served() is None:
            return
    raise InvariantError(str(world.checks.served()))


def shrink(seed: int) -> list[Event]:
    """The shortest part of the seed's life in which it still goes wrong in some way."""
    _, life = make(seed)
    smaller = True
    while smaller:
        smaller = False
        for n in range(len(life)):
            part = life[:n] + life[n + 1 :]
            if play(seed, part).problem is not None:
                life, smaller = part, True
                break
    return life


__all__ = ["Played", "bound", "play", "shrink"]
