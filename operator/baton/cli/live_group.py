"""A live group: only read, from the objects, the pods and the ledger."""

import asyncio
import time

from baton.api import ConsumerGroupSpec, sessions_required
from baton.cli.group_view import GroupLook, QueueLook, look
from baton.cli.leader import leader_of
from baton.controller.group_observation import QueueFacts, QueueSight, observation
from baton.engine import GroupState
from baton.engine.observation import Observation
from baton.kube import leases, pods
from baton.kube.api import Api, core_path
from baton.kube.errors import FORBIDDEN, ApiError
from baton.kube.leases import leases_path
from baton.kube.ledger_configmap import ledger_of
from baton.kube.members import GroupMembers, membership
from baton.kube.objects import groups_path, queues_path
from baton.kube.pods import PodView
from baton.model.ids import QueueName
from baton.model.names import GROUP_LABEL, ledger_name
from baton.model.times import read_seconds


class UnreadableError(ValueError):
    """It is there, and cannot be read. The message is one line."""


async def look_at(api: Api, namespace: str, name: str) -> GroupLook:
    """What the cluster has of it; of its pods only which are drained. Raises what `Api` raises."""
    group, ledger, queues, there = await asyncio.gather(
        api.get(groups_path(namespace, name)),
        api.find(core_path(namespace, "configmaps", ledger_name(name))),
        api.get(queues_path(namespace)),
        _pods(api, namespace, name),
    )
    ledger = ledger_of(ledger, name)
    leader = await leader_of(api, ledger)
    return look(group, (ledger or {}).get("data") or {}, queues["items"], leader, pods=there, now=time.time())


async def _pods(api: Api, namespace: str, name: str) -> list[PodView]:
    """Those with its label; none where they may not be read."""
    try:
        found = await api.get(core_path(namespace, "pods"), labelSelector=f"{GROUP_LABEL}={name}")
    except ApiError as error:
        if error.status != FORBIDDEN:
            raise
        return []
    return [pod for one in found["items"] if (pod := pods.view(one)) is not None]


async def observe(api: Api, namespace: str, name: str) -> tuple[GroupState, Observation]:
    """What the ledger knows, and what its operator would see. Raises what `Api` raises, and UnreadableError."""
    return await observation_of(api, await look_at(api, namespace, name))


async def observation_of(api: Api, seen: GroupLook) -> tuple[GroupState, Observation]:
    """The same of a group that was looked at."""
    group, spec = seen.group, _spec(seen)
    if seen.ledger_problem:
        raise UnreadableError(f"the ledger of {group.full_name} does not read as one: {seen.ledger_problem}")
    state = seen.state or GroupState.new(group.full_name)
    sights = [_sight(QueueName(one.name), seen.queues[one.name], state) for one in spec.queues]
    _, members = await members_of(api, seen)
    return state, observation(group, spec, sights, members)


async def members_of(api: Api, seen: GroupLook) -> tuple[list[PodView], GroupMembers]:
    """The pods with its label, and who of them takes part. Raises what `Api` raises, and UnreadableError."""
    namespace, name, spec = seen.group.namespace, seen.group.name, _spec(seen)
    selected = {"labelSelector": f"{GROUP_LABEL}={name}"}
    found, sessions = await asyncio.gather(
        api.get(core_path(namespace, "pods"), **selected),
        api.get(leases_path(namespace), **selected),
    )
    views = [view for one in spec.queues if (view := seen.queues[one.name].view) is not None]
    there = [pod for one in found["items"] if (pod := pods.view(one)) is not None]
    return there, membership(
        name,
        there,
        [lease for one in sessions["items"] if (lease := leases.view(one)) is not None],
        lambda lease: lease.holder is not None and read_seconds(lease.renewal, 0.0) + lease.duration < seen.now,
        spec.membership.identity_label,
        sessions_required=sessions_required(spec, [view.spec for view in views if view.spec is not None]),
    )


def _spec(seen: GroupLook) -> ConsumerGroupSpec:
    if seen.group.spec is None:
        raise UnreadableError(f"ConsumerGroup {seen.group.full_name}: {seen.group.problem}")
    return seen.group.spec


def _sight(name: QueueName, seen: QueueLook, state: GroupState) -> QueueSight:
    known, spec = state.queues.get(name), None if seen.view is None else seen.view.spec
    return QueueSight(
        name=name,
        named=True,
        view=seen.view,
        facts=QueueFacts(partitions=seen.status.partitions or (None if spec is None else spec.partitions)),
        recorded=None if known is None else known.partitions,
    )
