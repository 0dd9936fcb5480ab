"""A random fleet and its events, drawn from the seed before anything happens."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.simulation.api_server.faults import Fault, Hang, LoseAnswer
from tests.simulation.seeds.ending import ENDINGS
from tests.simulation.seeds.environment import Environment
from tests.simulation.seeds.manifests import IDENTITY_LABEL
from tests.simulation.seeds.queues import DOWN, FULL, HANGS
from tests.simulation.seeds.tenant import Tenant
from tests.simulation.seeds.troubles import PASSING, READS, REFUSALS, WRITES, Troubles, Window


class Event(NamedTuple):
    """An event: its time in seconds, its namespace, its kind and arguments."""

    at: float
    where: str
    what: str
    arguments: tuple[Any, ...]


class Life(NamedTuple):
    """A seed's environment before anything has happened, and its events."""

    environment: Environment
    tenants: list[Tenant]
    operators: int
    """The number of operators at the start."""
    events: list[Event]
    lasting: Window | None
    """A long fault of the first tenant after all events."""
    ending: str | None
    """How the tenants are deleted in the end; None: they are not."""
    remembers: bool
    """After the deletion, check what the operators still remember."""


LENGTH = 30.0
"""Seconds in which events happen."""
NAMES = "abcdefg"
IDENTITIES = ("i0", "i1", "i2")
CALM = 0.35
"""The part of the seeds without faults."""
WORKLOAD = {"mode": "Workload", "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "workers"}}
NEIGHBOUR = 0.3
"""The part of the seeds with a second tenant."""


def make(seed: int) -> Life:
    """Draw a life from this seed."""
    rng = random.Random(seed)
    storm = rng.random()  # the severity of faults
    troubles = Troubles(random.Random(seed + 1_000_000_007))
    if storm > CALM:
        troubles.crash = rng.choice((0.0, 0.002, 0.01, 0.03))
        troubles.refused = rng.choice((0.0, 0.0, 0.05, 0.3))
        troubles.lost = rng.choice((0.0, 0.0, 0.02, 0.1))
        troubles.slow = rng.choice((1.0, 1.0, 3.0, 20.0))
        troubles.repeated = rng.choice((0.0, 0.0, 0.3))
        troubles.thinking = rng.choice((0.0, 0.0, 0.02, 0.5))
    neighbour = rng.random() < NEIGHBOUR
    names = ("shop", "bank") if neighbour else ("shop",)
    watched = names if rng.random() < 0.4 else ()
    environment = Environment(seed, troubles, stormy=storm > CALM, watched=watched)
    if storm > CALM:
        environment.skews = rng.choice(((0.0,), (0.0,), (0.0, 3600.0, -3600.0)))
    tenants = [_tenant(rng, environment, name) for name in names]
    events = [event for tenant in tenants for event in _events(rng, tenant, storm)]
    if neighbour:
        events += [Event(round(rng.random() * LENGTH, 2), "bank", *_bad(rng, tenants[1])) for _ in range(rng.randint(3, 12))]
        if rng.random() < 0.15:
            events.append(Event(round(rng.random() * LENGTH, 2), "bank", "delete the namespace", ()))
    operators = rng.choice((1, 1, 2, 2, 3)) if storm > CALM else 1
    ending = rng.choice((None, None, *ENDINGS))
    remembers = ending is not None and rng.random() < 0.05
    lasting = _lasting(rng) if storm > CALM and rng.random() < 0.06 else None
    return Life(environment, tenants, operators, sorted(events, key=lambda event: event.at), lasting, ending, remembers)


def _tenant(rng: random.Random, environment: Environment, name: str) -> Tenant:
    spec = _spec(rng)
    return Tenant(environment, name, "orders", spec, {one["name"]: _queue(rng) for one in spec["queues"]}, strict=name == "shop")


def _events(rng: random.Random, tenant: Tenant, storm: float) -> list[Event]:
    first, most = (4, 9) if tenant.strict else (3, 4)
    life = [Event(0.0, tenant.namespace, "join", _pod(rng, tenant, name)) for name in NAMES[: rng.randint(1, first)]]
    for _ in range(rng.randint(2, most)):
        at = round(rng.random() * LENGTH, 2)
        life.append(Event(at, tenant.namespace, *_event(rng, tenant, storm)))
        if rng.random() < 0.3:  # another event soon after
            life.append(Event(round(min(LENGTH, at + rng.random()), 2), tenant.namespace, *_event(rng, tenant, storm)))
    return life


def _bad(rng: random.Random, tenant: Tenant) -> tuple[str, tuple[Any, ...]]:
    """Draw an event of a neighbour, or a fault of its namespace only."""
    what = rng.choice(("mutate",) * 6 + ("local window", "quota", "hostile queue"))
    if what == "mutate":
        return what, (rng.getrandbits(32),)
    if what == "quota":
        return what, ()
    if what == "hostile queue":
        return what, (rng.choice(list(tenant.servers)), rng.choice((DOWN, HANGS, FULL)))
    window, _ = _window(rng, rng.choice((*PASSING[:3], Hang(), LoseAnswer(), *REFUSALS)))
    return what, (window._replace(namespace=tenant.namespace),)


def _lasting(rng: random.Random) -> Window:
    verbs, plural = rng.choice((
        (WRITES, "configmaps"), (WRITES, "configmaps"), (READS, "configmaps"), (READS, "pods"), (READS, "leases"),
        (READS, "partitionedqueues"), (READS, "consumergroups"),
    ))  # fmt: skip
    return Window(rng.choice((*PASSING[:3], Hang(), *REFUSALS)), verbs, plural, "shop" if rng.random() < 0.5 else None)


def _spec(rng: random.Random) -> dict[str, Any]:
    static = rng.choice((0, 0, 0, 6))
    scale: dict[str, Any] | None = rng.choice((None, None, None, {"mode": "Spark"}, WORKLOAD))
    return {
        "queues": [{"name": name} for name in ("orders", "pay")[: rng.choice((1, 1, 2))]],
        "assignors": [rng.choice(("solace",) * 6 + ("range", "cooperative-sticky", "round-robin"))],
        "protocol": rng.choice(("Cooperative",) * 4 + ("Eager",)),
        "rebalance": {
            "delaySeconds": rng.choice((0, 1, 3, 5)),
            "resyncSeconds": rng.choice((5, 10, 20)),
            "maxConcurrentHandoffs": rng.choice((0, 0, 0, 1, 2)),
        },
        "membership": {
            "session": rng.choice(("Required", "Optional")),
            **({"identityLabel": IDENTITY_LABEL, "sessionTimeoutSeconds": static} if static else {}),
        },
        **({} if scale is None else {"scale": scale, "replicas": rng.randint(2, 4)}),
        **({"approval": "Manual"} if rng.random() < 0.08 else {}),
    }


def _queue(rng: random.Random) -> dict[str, Any]:
    external = rng.random() < 0.15
    force = rng.random() < 0.3
    source: dict[str, Any] = {"type": "Redis", "redis": {"url": "redis://redis:6379"}}
    if external:
        source = {"type": "External", "external": {"onDeadline": "Force" if force else "Wait"}}
    return {
        "source": source,
        "partitions": rng.randint(1, 7),
        "accessType": "Exclusive" if rng.random() < 0.12 else "NonExclusive",
        "rebalance": {"delaySeconds": 5, "maxHandoffSeconds": rng.choice((0, 1, 2, 3))},
    }


def _pod(rng: random.Random, tenant: Tenant, name: str | None = None) -> tuple[Any, ...]:
    name = name or rng.choice(NAMES)
    instance = rng.choice((None, name, rng.choice(IDENTITIES))) if tenant.session_timeout else None
    needed = any(not queue.fenced for queue in tenant.servers.values())  # only the Lease reports its releases
    leased = needed or (tenant.sessions_required and rng.random() > 0.03)
    return (
        name,
        {
            "instance": instance,
            "subscribed": rng.choice((None,) * 8 + (frozenset({"orders"}),)),
            "pace": rng.choice((0.5, 0.9, 1.5)),
            "work": rng.choice((0.05, 0.3, 1.0, 6.0)),
            "silent": rng.random() < 0.12,
            "lease": rng.choice((6.0, 6.0, 9.0)) if leased else rng.choice((None, 6.0, 9.0)),
        },
    )


def _event(rng: random.Random, tenant: Tenant, storm: float) -> tuple[str, tuple[Any, ...]]:
    queues = list(tenant.servers)
    calm: list[tuple[str, Callable[[], tuple[Any, ...]]]] = [
        ("join", lambda: _pod(rng, tenant)),
        ("join", lambda: _pod(rng, tenant)),
        ("leave", lambda: (rng.choice(NAMES[:4]),)),
        ("leave", lambda: (rng.choice(NAMES[:4]),)),
        ("flap", lambda: (rng.choice(NAMES[:4]), round(rng.random() * 4, 2), _pod(rng, tenant)[1])),
        ("terminate", lambda: (rng.choice(NAMES[:4]), rng.choice((3, 10, 30)))),
        ("terminate", lambda: (rng.choice(NAMES[:4]), rng.choice((3, 10, 30)))),
        ("replace", lambda: (rng.choice(NAMES[:4]), rng.choice(NAMES[3:]), round(rng.random() * 3, 2), _pod(rng, tenant)[1])),
        ("resize", lambda: (rng.choice(queues), rng.randint(1, 9))),
        ("subscribe", lambda: (rng.choice(NAMES[:4]), rng.choice((None, frozenset({"orders"}), frozenset({"pay"}))))),
        *([("identify", lambda: (rng.choice(NAMES[:4]), rng.choice((None, *IDENTITIES))))] if tenant.session_timeout else []),
        ("drain", lambda: (rng.choice(NAMES[:4]), rng.random() < 0.7)),
        *([("approve", tuple)] * 4 if tenant.spec.get("approval") == "Manual" else []),
        ("rest", lambda: (rng.choice((1.0, 4.0, 9.0)),)),
        ("request", lambda: (str(rng.random()),)),
        ("exclusive", lambda: (rng.choice(queues),)),
        ("spec", lambda: (rng.choice((
            {"paused": True}, {"paused": True}, {"paused": False}, {"protocol": rng.choice(("Cooperative", "Eager"))},
            {"rebalance": {"maxConcurrentHandoffs": rng.randint(0, 2)}}, {"rebalance": {"delaySeconds": rng.choice((0, 1, 5))}},
            {"assignors": [rng.choice(("solace", "range"))]},
            {"replicas": rng.randint(1, 5)} if "scale" in tenant.spec else {"rebalance": {"resyncSeconds": 10}},
        )),)),
        ("queue", lambda: (rng.choice(queues), rng.random() < 0.5)),
        ("flicker", lambda: (rng.choice(NAMES[:4]), rng.choice((0.3, 2.0, 9.0)))),
        ("handoff", lambda: (rng.choice(queues), rng.choice((0, 1, 3)))),
    ]  # fmt: skip
    stormy: list[tuple[str, Callable[[], tuple[Any, ...]]]] = [
        ("crash", lambda: (rng.choice((0.1, 1.0, 8.0)),)),
        ("another operator", tuple),
        ("stop the leader", lambda: (rng.choice((1.0, 4.0, 9.0, 12.0)),)),
        ("window", lambda: _window(rng, rng.choice((*PASSING[:3], Hang(), LoseAnswer(), *REFUSALS)))),
        ("window", lambda: _window(rng, rng.choice((*PASSING[:3], Hang(), LoseAnswer(), *REFUSALS)))),
        ("drop the watches", lambda: (rng.random() < 0.5,)),
        ("touch the ledger", tuple),
        ("late news", lambda: (rng.choice((2.0, 5.0)), rng.choice((4.0, 10.0)))),
        ("lose the queue", lambda: (rng.choice(queues), rng.choice((0.5, 4.0, 10.0)))),
        ("a rival", tuple),
        ("stop", lambda: (rng.choice(NAMES[:4]), rng.choice((1.0, 5.0, 12.0)))),
        ("stop", lambda: (rng.choice(NAMES[:4]), rng.choice((1.0, 5.0, 12.0)))),
        ("restart in place", lambda: (rng.choice(NAMES[:4]),)),
        ("unreachable", lambda: (rng.choice(queues), rng.choice((DOWN, HANGS, FULL)), rng.choice((1.0, 5.0, 10.0)))),
        ("restart the server", lambda: (rng.choice(queues), tuple(rng.sample(range(8), rng.randint(0, 4))))),
        ("lose the ledger", tuple),
    ]
    what, arguments = rng.choice(calm + stormy if storm > CALM else calm)
    return what, tuple(arguments())


def _window(rng: random.Random, fault: Fault) -> tuple[Window, float]:
    """Draw requests that have this fault, and its length in seconds."""
    plurals = ("configmaps", "leases", "pods", "consumergroups", "partitionedqueues", "consumergroups/status", "events")
    everything = fault in PASSING or fault == Hang()
    plural = rng.choice((None, *plurals) if everything else plurals)
    return Window(fault, rng.choice((None, READS, WRITES)), plural), rng.choice((1.0, 4.0, 10.0))
