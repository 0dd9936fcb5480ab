"""A live group, as its operator would see it: only read, from the objects, the pods and the ledger."""

from datetime import UTC, datetime

from baton.api import sessions_required
from baton.controller.observe import QueueSight, observation
from baton.controller.queue_state import QueueFacts
from baton.engine import GroupState, LedgerError, load
from baton.engine.observation import Observation
from baton.kube import leases, pods
from baton.kube.api import Api, core_path
from baton.kube.leases import leases_path
from baton.kube.members import membership
from baton.kube.objects import group_view, groups_path, queue_view, queues_path
from baton.kube.times import read_seconds
from baton.model.ids import QueueName
from baton.model.names import GROUP_LABEL, ledger_name


class UnreadableError(ValueError):
    """It is there, and cannot be read. The message is one line."""


async def read_group(api: Api, namespace: str, name: str) -> tuple[GroupState, Observation]:
    """What the ledger knows, and what is seen. Raises what `Api` raises, and UnreadableError."""
    group = group_view(await api.get(groups_path(namespace, name)))
    if group.spec is None:
        raise UnreadableError(f"ConsumerGroup {namespace}/{name}: {group.problem}")
    ledger = await api.find(core_path(namespace, "configmaps", ledger_name(name))) or {}
    state = _state(f"{namespace}/{name}", ledger.get("data") or {})
    sights = [await _sight(api, namespace, QueueName(one.name), state) for one in group.spec.queues]
    selected = {"labelSelector": f"{GROUP_LABEL}={name}"}
    found = await api.get(core_path(namespace, "pods"), **selected)
    sessions = await api.get(leases_path(namespace), **selected)
    now = datetime.now(UTC).timestamp()
    seen = membership(
        name,
        [pod for one in found["items"] if (pod := pods.view(one)) is not None],
        [lease for one in sessions["items"] if (lease := leases.view(one)) is not None],
        lambda lease: lease.holder is not None and read_seconds(lease.renewal, 0.0) + lease.duration < now,
        group.spec.membership.identity_label,
        sessions_required=sessions_required(group.spec, [one.spec for one in sights if one.spec is not None]),
    )
    return state, observation(group, group.spec, sights, seen)


def _state(full_name: str, data: dict[str, str]) -> GroupState:
    if not data:
        return GroupState.new(full_name)
    try:
        return load(data)
    except LedgerError as error:
        raise UnreadableError(f"the ledger of {full_name} does not read as one: {error}") from None


async def _sight(api: Api, namespace: str, name: QueueName, state: GroupState) -> QueueSight:
    manifest = await api.find(queues_path(namespace, name))
    view = None if manifest is None else queue_view(manifest)
    known = state.queues.get(name)
    told = None if view is None else view.status.get("partitions") or (view.spec.partitions if view.spec is not None else None)
    return QueueSight(
        name=name,
        named=True,
        view=view,
        facts=QueueFacts(partitions=told),
        recorded=None if known is None else known.partitions,
    )
