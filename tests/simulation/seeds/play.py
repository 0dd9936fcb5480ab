"""One seed from beginning to end: trouble, then none, and then, within a bound, everybody is served and evenly."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from unittest.mock import patch

from baton.controller import large_work
from tests.simulation.seeds.checks import Turn
from tests.simulation.seeds.ending import end, forget, gone
from tests.simulation.seeds.environment import Environment
from tests.simulation.seeds.events import happen
from tests.simulation.seeds.invariant import InvariantError
from tests.simulation.seeds.life import Event, make
from tests.simulation.seeds.logs import listen
from tests.simulation.seeds.queues import UP
from tests.simulation.seeds.quiescence import bound, totals, unrest, unserved
from tests.simulation.seeds.tenant import Tenant
from tests.simulation.seeds.troubles import Window

LASTS = 90.0
"""Seconds of trouble that lasts."""
AFTERMATH = 13.0
"""Seconds within which the longest stop and the longest outage are over."""


@dataclass(frozen=True, slots=True)
class Played:
    seed: int
    problem: str | None
    turns: set[Turn] = field(default_factory=set)


@patch.object(large_work, "MUCH", 0)
def play(seed: int, events: Iterable[Event] | None = None, trace: list[tuple[float, str]] | None = None) -> Played:
    """Without `events`: the seed's own. Every group counts as large: its steps go to a thread, where the environment sees them
    and has them take a while."""
    life = make(seed)
    environment, tenants = life.environment, life.tenants
    environment.trace = trace
    listen(environment, logging.ERROR if trace is None else logging.DEBUG)
    problem = None
    try:
        environment.begin(tenants)
        for _ in range(life.operators):
            environment.new_operator()
        for event in life.events if events is None else events:
            environment.run(event.at - environment.now)
            happen(environment, event)
        if life.lasting is not None:
            _endure(environment, tenants[0], life.lasting)
        _to_quiescence(environment, tenants)
        lose_no_task(environment)
        for tenant in tenants:
            if life.ending is not None and not tenant.deleted:
                end(tenant, life.ending)
        if life.remembers:
            forget(environment)
    except InvariantError as violation:
        problem = f"at {environment.now:.3f}: {violation}"
    except Exception as error:
        problem = f"at {environment.now:.3f}: {type(error).__name__}: {error}"
        if trace is not None:
            raise
    finally:
        environment.end()
    return Played(seed, problem, {turn for tenant in tenants for turn in tenant.checks.turns})


def _endure(environment: Environment, tenant: Tenant, window: Window) -> None:
    """Somebody goes, and for long that cannot be seen, or not be written."""
    environment.run(1.0)
    environment.say(f"for {LASTS} s: {window}")
    environment.troubles.begin(window)
    for operator in environment.living:
        operator.drop_watches()
    environment.server.compact()
    for pod in list(tenant.pods.values())[:1]:
        tenant.remove(pod)
    environment.run(LASTS)
    environment.troubles.end(window)


def _to_quiescence(environment: Environment, tenants: list[Tenant]) -> None:
    """No more faults; what was stopped, unreachable or on its way out comes to its end. A neighbour's troubles go on."""
    environment.run(AFTERMATH)
    environment.troubles.calm = True
    environment.say("from here on nothing goes wrong any more, but for a neighbour")
    if not environment.living:
        environment.new_operator()
    good, *bad = tenants
    for tenant in bad:
        tenant.neighbour.go_on()
    _rest(good)
    for tenant in bad:
        environment.say("the neighbour repents")
        hung = bool(environment.troubles.windows)
        environment.troubles.windows.clear()
        if tenant.deleted:
            gone(tenant, f"/api/v1/namespaces/{tenant.namespace}")
            continue
        tenant.lift_the_limit()
        tenant.neighbour.repent()
        if hung:
            environment.run(AFTERMATH)  # requests that hang end, and are made again
            tenant.take_over()  # a server may have been away for too long for a group that was deleted
        _rest(tenant)


def lose_no_task(environment: Environment) -> None:
    """One that waits and that nothing holds is collected as garbage: asyncio tells of that. Raises InvariantError."""
    gc.collect()
    environment.run(0)


def _rest(tenant: Tenant) -> None:
    """Within its bound everybody is served and evenly, and in the end everything is processed."""
    _calm(tenant)
    _settle(tenant)
    for queue in tenant.servers.values():
        queue.produce_until = tenant.environment.now
    for pod in tenant.pods.values():
        pod.work = min(pod.work, 0.3)
    _drain(tenant)
    if tenant.strict:
        totals(tenant)


def _calm(tenant: Tenant) -> None:
    tenant.drop_rival()
    for queue in tenant.servers.values():
        queue.state = UP
        if not queue.fenced and not queue.force:
            for pod in tenant.pods.values():
                pod.speak()  # its word is all there is: without it a move waits, as it should
    for pod in list(tenant.pods.values()):
        if pod.terminating:
            tenant.remove(pod)
    if tenant.spec.get("paused"):
        tenant.change(paused=False)


def _settle(tenant: Tenant) -> None:
    """Within its bound everybody is served and evenly."""
    environment, longest = tenant.environment, bound(tenant)
    until = environment.now + longest
    while (problem := unrest(tenant)) is not None:
        tenant.approve()
        if environment.now >= until:
            raise InvariantError(f"{tenant}: {problem}, {longest} s after the last fault")
        environment.run(min(1.0, until - environment.now))


def _drain(tenant: Tenant) -> None:
    for _ in range(40):
        if unserved(tenant) is None and unrest(tenant) is None:
            return
        tenant.approve()
        tenant.environment.run(5.0)
    raise InvariantError(f"{tenant}: {unserved(tenant) or unrest(tenant)}")


def shrink(seed: int) -> list[Event]:
    """The shortest part of the seed's life in which it still goes wrong in some way."""
    life = make(seed).events
    smaller = True
    while smaller:
        smaller = False
        for n in range(len(life)):
            part = life[:n] + life[n + 1 :]
            if play(seed, part).problem is not None:
                life, smaller = part, True
                break
    return life
