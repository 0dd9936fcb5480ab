"""The deletion of a group or its namespace, and what an operator still remembers of it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from baton.controller.operator_replica import Replica
from baton.kube.api import core_path
from baton.kube.namespace_turns import NamespaceTurns
from baton.kube.objects import groups_path, queues_path
from tests.simulation.api_server import MemoryApi
from tests.simulation.api_server.refusals import Refused
from tests.simulation.seeds.invariant import InvariantError
from tests.simulation.seeds.quiescence import REACTION

if TYPE_CHECKING:
    from tests.simulation.seeds.environment import Environment
    from tests.simulation.seeds.tenant import Tenant

GROUP, NAMESPACE, ALONE = "its group", "its namespace", "its namespace, while no operator runs"
ENDINGS = (GROUP, NAMESPACE, ALONE)

LEADS_WITHIN = 20.0
"""Seconds until an operator leads that was started alone."""
SWEPT_WITHIN = 40.0
"""More seconds for the namespace controller, which checks every few seconds."""

LIMITED = ("_sent", "_said", "_objects", "_gone")
"""Fields that may remember a bounded number of objects for a while: what was sent or posted last, and the last deleted
objects."""

FORGOTTEN_AFTER = 650.0
"""Seconds after which an operator remembers nothing about deleted objects. Some events are not repeated for ten minutes."""


def end(tenant: Tenant, what: str) -> None:
    """Delete the tenant's group, and check that it goes and that its queues are free. Raises InvariantError."""
    environment = tenant.environment
    environment.say(f"{tenant.namespace} is deleted: {what}")
    path = groups_path(tenant.namespace, tenant.group)
    if what == ALONE:
        for operator in environment.living:
            operator.kill()
        environment.later(5.0, environment.new_operator)
    if what != GROUP:
        path = f"/api/v1/namespaces/{tenant.namespace}"
    environment.ask("delete", path)
    gone(tenant, path, LEADS_WITHIN if what == ALONE else 0.0)
    # Where a neighbour had called an External queue one of Kafka's, what was claimed there stays: the spec names it no more.
    held = [name for name in tenant.named if tenant.servers[name].fenced and tenant.servers[name].group is not None]
    if held and what == GROUP:  # with its namespace goes what says where its queues are
        raise InvariantError(f"{tenant} is gone, and still has {held}")
    for pod in list(tenant.pods.values()):
        tenant.remove(pod)
    for name in tenant.queue_specs:
        environment.ask("delete", queues_path(tenant.namespace, name))


def gone(tenant: Tenant, path: str, more: float = 0.0) -> None:
    """Check that a resource goes within its bound and some more seconds. Raises InvariantError."""
    environment = tenant.environment
    longest = tenant.max_handoff() + 2 * REACTION + SWEPT_WITHIN + more
    until = environment.now + longest
    while not isinstance(environment.ask("get", path), Refused):
        if environment.now >= until:
            raise InvariantError(f"{path} is still there, {longest:.0f} s after it was deleted")
        environment.run(1.0)


def forget(environment: Environment) -> None:
    """Check that after a while no operator remembers anything about deleted objects. Raises InvariantError."""
    for tenant in environment.tenants.values():
        environment.ask("delete", core_path(None, "namespaces", tenant.namespace))
    environment.run(FORGOTTEN_AFTER)
    names = frozenset(environment.tenants) - frozenset(environment.watched)
    for operator in environment.living:
        assert operator.replica is not None
        if paths := sorted(set(remembered(operator.replica, names))):
            raise InvariantError(f"{operator} remembers what is gone: {'; '.join(paths[:10])}")


def remembered(replica: Replica, names: frozenset[str]) -> Iterator[str]:
    """Find where the replica's objects have one of these words."""
    seen: set[int] = set()
    waiting: deque[tuple[str, Any]] = deque([("replica", replica)])
    while waiting:
        path, thing = waiting.popleft()
        if isinstance(thing, str):
            if thing in names:
                yield f"{path}: {thing}"
            continue
        if id(thing) in seen or isinstance(
            thing, (int, float, bytes, type, MemoryApi, NamespaceTurns, asyncio.AbstractEventLoop)
        ):
            continue
        seen.add(id(thing))
        if isinstance(thing, asyncio.Task):
            yield from _task(path, thing, names)
        elif isinstance(thing, Mapping):
            for key, value in thing.items():
                waiting += [(f"{path} key", key), (f"{path}[{key!r}]", value)]
        elif isinstance(thing, (list, tuple, set, frozenset, deque)):
            waiting += [(f"{path}[]", one) for one in thing]
        elif type(thing).__module__.startswith("baton.") or type(thing).__module__.startswith("prometheus_client"):
            waiting += [(f"{path}.{name}", value) for name, value in _fields(thing) if name not in LIMITED]


def _task(path: str, task: asyncio.Task[Any], names: frozenset[str]) -> Iterator[str]:
    if not task.done() and any(name in task.get_name() for name in names):
        yield f"{path}: the task {task.get_name()}"


def _fields(thing: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(thing, "__dict__", {}).items()
    for kind in type(thing).__mro__:
        slots = getattr(kind, "__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name != "__weakref__" and hasattr(thing, name):
                yield name, getattr(thing, name)
