"""One seed from beginning to end: faults, then none, and then, within a bound, all partitions are served and spread evenly."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import structlog

from baton.controller import large_work
from tests.simulation.seeds.checks import Turn
from tests.simulation.seeds.ending import end, forget, gone
from tests.simulation.seeds.environment import Environment
from tests.simulation.seeds.invariant import InvariantError
from tests.simulation.seeds.life import Event, Life, make
from tests.simulation.seeds.loop import PROCESS
from tests.simulation.seeds.queues import UP
from tests.simulation.seeds.quiescence import bound, totals, unrest, unserved
from tests.simulation.seeds.tenant import Tenant
from tests.simulation.seeds.troubles import Window

if TYPE_CHECKING:
    from tests.simulation.seeds.environment import Environment


# Log lines of operators are lines of the timeline. A logged exception violates an invariant.


_environments: list[Environment] = []


def listen(environment: Environment, level: int = logging.ERROR) -> None:
    """Send log lines to this environment from now on."""
    _environments[:] = [environment]
    structlog.configure(
        processors=[_hear],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.ReturnLoggerFactory(),
        cache_logger_on_first_use=False,
    )


def _hear(logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
    environment, process = _environments[0], PROCESS.get()
    error = event.pop("exc_info", None)
    what = event.pop("event")
    text = f"{process}: {what} {_facts(event)}"
    if error or "task" in what:
        environment.violated(f"{text} {error!r}", error if isinstance(error, BaseException) else None)
    environment.say(text)
    raise structlog.DropEvent


def _facts(event: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value!r}" for name, value in event.items() if name not in ("namespace", "group"))


# The events of a life


def happen(environment: Environment, event: Event) -> None:  # noqa: C901 - one case for each kind of event
    """Apply an event. An event that does not apply, as for a pod that does not exist, does nothing."""
    tenant, arguments = environment.tenants[event.where], event.arguments
    pod = tenant.pods.get(arguments[0]) if arguments and isinstance(arguments[0], str) else None
    match event.what, arguments:
        case "join", (name, facts):
            tenant.join(name, **facts)
        case "leave", _ if pod is not None:
            tenant.remove(pod)
        case "flap", (name, seconds, facts) if pod is not None:
            facts = {**facts, "instance": pod.instance, "subscribed": pod.subscribed}
            tenant.remove(pod)
            environment.later(seconds, lambda: tenant.join(name, **facts))
        case "terminate", (_, grace) if pod is not None:
            tenant.terminate(pod, grace)
        case "replace", (_, name, seconds, facts) if pod is not None:  # a rolling restart with surge
            tenant.join(name, **facts)
            environment.later(seconds, lambda: tenant.terminate(pod, 30))
        case "stop", (_, seconds) if pod is not None:
            tenant.stop(pod, seconds)
        case "restart in place", _ if pod is not None:
            environment.say(f"{pod.name}'s container restarts in place")
            pod.restart_in_place()
        case "subscribe", (_, queues) if pod is not None and len(tenant.servers) > 1:
            environment.say(f"{pod.name} reads {queues}")
            tenant.subscribe(pod, queues)
        case "drain", (_, draining) if pod is not None:
            tenant.drain(pod, draining)
        case "identify", (_, instance) if pod is not None:
            tenant.identify(pod, instance)
        case "resize", (queue, partitions):
            tenant.queue_changed(queue, partitions=partitions)
        case "exclusive", (queue,):
            tenant.queue_changed(queue, accessType="NonExclusive" if tenant.exclusive(queue) else "Exclusive")
        case "queue", (queue, named):
            tenant.name_queues(tenant.named | {queue} if named else tenant.named - {queue})
        case "handoff", (queue, seconds):
            tenant.queue_changed(queue, rebalance={"maxHandoffSeconds": seconds})
        case "spec", (change,):
            tenant.change(**change)
            tenant.checks.moves.fewest &= tenant.spec["assignors"] == ["solace"]
        case "rest", (seconds,):
            tenant.change(paused=True)
            environment.later(seconds, lambda: tenant.change(paused=False))
        case "request", (number,):
            tenant.request(number)
        case "crash", (seconds,):
            if (operator := environment.leader) is not None:
                operator.kill()
                environment.replace(operator, seconds)
        case "another operator", ():
            if len(environment.living) < 3:
                environment.new_operator()
        case "stop the leader", (seconds,):
            if (operator := environment.leader) is not None:
                operator.stop()
                environment.later(seconds, operator.wake)
        case "window", (window, seconds):
            environment.say(f"for {seconds} s: {window}")
            environment.troubles.begin(window)
            environment.later(seconds, environment.troubles.end, window)
        case "drop the watches", (compact,):
            environment.say(f"all watches break{', and the past is forgotten' if compact else ''}")
            if compact:
                environment.server.compact()
            for operator in environment.living:
                operator.drop_watches()
        case "late news", (late, seconds):
            environment.say(f"for {seconds} s what the watches tell is {late} s late")
            environment.troubles.late = late
            environment.later(seconds, setattr, environment.troubles, "late", 0.0)
        case "touch the ledger", ():
            tenant.touch_ledger(str(environment.now))
        case "flicker", (_, seconds) if pod is not None:
            environment.say(f"{pod.name} is not Ready for {seconds} s")
            tenant.ready(pod, False)
            environment.later(seconds, tenant.ready, pod, True)
        case "unreachable", (queue, state, seconds):
            _server_state(tenant, queue, state)
            environment.later(seconds, _server_state, tenant, queue, UP)
        case "restart the server", (queue, forgets):
            environment.say(f"the server of {queue} restarts and forgets {sorted(forgets)}")
            tenant.servers[queue].restart(set(forgets))
        case "lose the ledger", ():
            for one in environment.operators:
                one.kill()
            tenant.delete_ledger()
            environment.later(2.0, environment.new_operator)
        case "lose the queue", (queue, seconds):
            tenant.delete_queue(queue)
            environment.later(seconds, tenant.make_queue, queue)
        case "a rival", ():
            tenant.make_rival()
        case "approve", ():
            tenant.approve()
        case "delete the namespace", ():
            tenant.delete_namespace()
        case "mutate", (number,):
            tenant.neighbour.act(number)
        case "local window", (window,):
            environment.say(f"from now on: {window}")
            environment.troubles.begin(window)
        case "quota", ():
            environment.say(f"{tenant.namespace} has no room for ConfigMaps")
            tenant.limit_config_maps()
        case "hostile queue", (queue, state):
            _server_state(tenant, queue, state)


def _server_state(tenant: Tenant, queue: str, state: str) -> None:
    tenant.environment.say(f"the server of {queue} is {state}")
    tenant.servers[queue].state = state


LASTS = 90.0
"""Seconds of a lasting fault."""
AFTERMATH = 13.0
"""Seconds after which the longest stop and the longest outage are over."""


@dataclass(frozen=True, slots=True)
class Played:
    seed: int
    problem: str | None
    turns: set[Turn] = field(default_factory=set)


def play(seed: int, events: Iterable[Event] | None = None, trace: list[tuple[float, str]] | None = None) -> Played:
    """Play the life of a seed, with these events instead of those drawn from it."""
    life = make(seed)
    return live(life if events is None else life._replace(events=list(events)), trace)


@patch.object(large_work, "MUCH", 0)
def live(life: Life, trace: list[tuple[float, str]] | None = None) -> Played:
    """Play a life to its end. Every group counts as large: its steps go to a thread, where the environment sees them and has
    them take a while."""
    environment, tenants = life.environment, life.tenants
    environment.trace = trace
    listen(environment, logging.ERROR if trace is None else logging.DEBUG)
    problem = None
    try:
        environment.begin(tenants)
        for _ in range(life.operators):
            environment.new_operator()
        for event in life.events:
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
    return Played(environment.seed, problem, {turn for tenant in tenants for turn in tenant.checks.turns})


def _endure(environment: Environment, tenant: Tenant, window: Window) -> None:
    """Remove a pod while the operator cannot see it, or cannot write, for a long time."""
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
    """End all faults except a neighbour's, and check that all partitions are served within the bound."""
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
    """Check that no pending task was garbage-collected, which asyncio reports. Raises InvariantError."""
    gc.collect()
    environment.run(0)


def _rest(tenant: Tenant) -> None:
    """Check that all partitions are served evenly within the bound, and that everything is processed in the end."""
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
                pod.speak()  # no queue fences: without its release a move waits, as it should
    for pod in list(tenant.pods.values()):
        if pod.terminating:
            tenant.remove(pod)
    if tenant.spec.get("paused"):
        tenant.change(paused=False)


def _settle(tenant: Tenant) -> None:
    """Check that all partitions are served evenly within the bound."""
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
    """Return the shortest list of a seed's events that still violates an invariant."""
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
