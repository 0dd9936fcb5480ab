"""A group as read at one moment: the object, its ledger, its queues, its pods and the leader of its operator."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from baton.api import (
    Condition,
    ConditionStatus,
    ConsumerGroupSpec,
    ConsumerGroupStatus,
    PartitionedQueueStatus,
    sessions_required,
)
from baton.api.group import OF_QUEUES, Approval
from baton.cli.cluster import NoAnswerError
from baton.controller.group_observation import QueueFacts, QueueSight, observation
from baton.engine import GroupState, LedgerError, load
from baton.engine.ledger import write_numbers
from baton.engine.observation import Observation
from baton.engine.state import MemberSlot
from baton.engine.state_machine import PartitionState, partition_states, state_of, why_of
from baton.kube import leases, pods
from baton.kube.api import Api, Json, core_path
from baton.kube.elector import ADDRESS_ANNOTATION
from baton.kube.errors import FORBIDDEN, ApiError, NotFoundError
from baton.kube.leases import leases_path
from baton.kube.ledger_configmap import ledger_of
from baton.kube.members import GroupMembers, membership
from baton.kube.objects import GroupView, QueueView, group_view, groups_path, queue_view, queues_path
from baton.kube.pods import PodView
from baton.kube.releases import release_of
from baton.model.ids import MemberId, Partition, QueueName
from baton.model.lease import holder_of, spec_of
from baton.model.ledger import MemberEntry
from baton.model.names import GROUP_LABEL, LEDGER_GROUP_KEY, ledger_name
from baton.model.ranges import Grants, format_numbers
from baton.model.times import read_seconds, to_text

GIVEN_UP_FOR = 30.0
"""Seconds for which the Lease may have no holder, because the next replica may be taking over."""

NOT_RENEWED_FOR = 180.0
"""Seconds without a renewal after which a leader counts as gone. It renews every second, but this machine's clock may differ from
the operator's by minutes."""


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader of an operator, by its Lease."""

    lease: str
    """namespace/name"""
    readable: bool = True
    """False: the caller may not read the Lease."""
    holder: str | None = None
    """The replica that leads; None: none does."""
    renewed: float | None = None
    """Unix seconds; None: there is no such Lease, or it has no time."""
    port: int | None = None
    """The port of the leader's metrics; None: not in the Lease."""

    def gone(self, now: float) -> bool:
        """Whether no replica leads, and none has for a while."""
        if not self.readable:
            return False
        bound = GIVEN_UP_FOR if self.holder is None else NOT_RENEWED_FOR
        return self.renewed is None or now > self.renewed + bound

    def to_json(self) -> Mapping[str, object]:
        """The leader as a JSON object, for programs."""
        renewed = None if self.renewed is None else to_text(self.renewed)
        return {"lease": self.lease, "readable": self.readable, "holder": self.holder, "renewTime": renewed}


async def leader_of(api: Api, ledger: Mapping[str, object] | None) -> Leader | None:
    """The leader of the operator that wrote this ledger; None: the ledger names no operator."""
    release = None if ledger is None else release_of(ledger)
    if release is None:
        return None
    namespace, _, name = release.partition("/")
    try:
        lease = await api.get(leases_path(namespace, name))
    except NotFoundError:
        return Leader(release)
    except ApiError:
        return Leader(release, readable=False)
    renewed = read_seconds(spec_of(lease).get("renewTime"), None)
    return Leader(release, holder=holder_of(lease) or None, renewed=renewed, port=_port(lease))


def _port(lease: Json) -> int | None:
    """The port in the address that the holder put into its Lease: HOST:PORT."""
    told = str((lease["metadata"].get("annotations") or {}).get(ADDRESS_ANNOTATION) or "")[-6:].rpartition(":")[2]
    return int(told) if told.isascii() and told.isdigit() and 0 < int(told) < 65_536 else None


Manifest = Mapping[str, Any]

UNKNOWN = "Unknown"
"""The state of a group without a running operator; its status may be out of date."""

_OF_ONE = ("owners", "queues", "vacantSlots", "drained", "notReady", "ledgerProblem", "why", "leader")
COUNTS = ("partitions", "unowned", "members", "standbys", "moving", "moves", "lowerBound", "deadlineMisses", "assignor")


@dataclass(frozen=True, slots=True)
class QueueLook:
    """A queue of the group."""

    partitions: int | None
    """Partitions by the ledger or the status; None: the queue has not answered yet."""
    states: Mapping[PartitionState, int]
    """The number of partitions in each state that has any. Empty: the owners are unknown."""
    view: QueueView | None
    """None: there is no such PartitionedQueue."""
    status: PartitionedQueueStatus
    unread: str | None
    """The first mistake in a status that cannot be read."""


@dataclass(frozen=True, slots=True)
class GroupLook:
    """A group, as far as it could be read."""

    group: GroupView
    status: ConsumerGroupStatus
    """With the numbers of members and standbys from the ledger."""
    now: float
    """Unix seconds, like all times here."""
    leader: Leader | None = None
    """The leader of the group's operator, if known."""
    state: GroupState | None = None
    """Read from the ledger; None: the ledger is missing or cannot be read."""
    members: Mapping[MemberId, MemberEntry | LedgerError] = field(default_factory=dict)
    queues: Mapping[str, QueueLook] = field(default_factory=dict)
    ledger_problem: str | None = None
    unread: tuple[str, ...] = ()
    """Mistakes in what could not be read besides the ledger, each with its field."""
    pods: tuple[PodView, ...] | None = None
    """The pods with the group's label; None: not read, or the caller may not."""

    @property
    def drained(self) -> tuple[str, ...]:
        """Pods that get no partitions because they are drained; empty if the pods were not read."""
        return drained(self.pods or ())

    @property
    def not_ready(self) -> Mapping[str, str]:
        """Why pods are not Ready, by name, sorted by cause; empty if the pods were not read."""
        return {name: why for why, name in sorted((pod.hindrance, pod.name) for pod in self.pods or () if pod.hindrance)}

    @property
    def changed_at(self) -> float | None:
        """When the status last changed; None: no operator has looked yet."""
        return read_seconds(self.status.last_change_time, None)

    @property
    def shown_state(self) -> str | None:
        gone = self.changed_at is None or (self.leader is not None and self.leader.gone(self.now))
        return UNKNOWN if gone else self.status.state

    @property
    def spec_seen(self) -> bool:
        """Whether an operator has seen the last change of the spec."""
        return self.status.observed_generation == self.group.generation

    @property
    def approval(self) -> Approval:
        return Approval.AUTOMATIC if self.group.spec is None else self.group.spec.approval

    @property
    def why(self) -> str:
        """Why the group is in its state; empty if the ledger and the status have different states."""
        if self.state is None or self.status.state is None or state_of(self.state).value != self.status.state.value:
            return ""
        return why_of(self.state)

    @property
    def vacant(self) -> list[MemberSlot]:
        """Vacant slots, whose partitions wait."""
        return [slot for slot in self.state.member_slots if slot.vacated] if self.state is not None else []

    @property
    def uncounted(self) -> list[str]:
        """Queues whose number of partitions is unknown."""
        return [name for name, queue in self.queues.items() if queue.partitions is None]

    def count(self, name: str) -> int | None:
        """A number of the status; None: unknown. Partitions and unowned ones are unknown until a queue has answered."""
        if name not in self.status.model_fields_set:
            return None
        if name in OF_QUEUES and not self.status.partitions:
            known = sum(queue.partitions or 0 for queue in self.queues.values())
            return known or None if name == "partitions" else None
        return int(getattr(self.status, name))

    def cells(self, names: Iterable[str]) -> list[object]:
        """The numbers as cells of a table; `?`: unknown, although an operator has looked."""
        return [self.count(name) if self.changed_at is None or self.count(name) is not None else "?" for name in names]

    def condition(self, kind: str) -> Condition | None:
        return next((one for one in self.status.conditions if one.type == kind), None)

    def to_json(self) -> Json:
        """For programs."""
        status, leader = self.status, self.leader
        written = status.model_dump(mode="json", exclude_unset=True, by_alias=True)
        return {
            "namespace": self.group.namespace,
            "group": self.group.name,
            "state": self.shown_state,
            "lastState": status.state,
            "lastChangeTime": None if self.changed_at is None else status.last_change_time,
            "leader": None if leader is None else leader.to_json(),
            "deletedAt": self.group.deleted_at,
            "specSeen": self.spec_seen,
            "why": self.why,
            "holdUntil": status.hold_until,
            **{name: written.get(name) for name in COUNTS},
            **{name: self.count(name) for name in OF_QUEUES},
            "approval": self.approval,
            "proposal": written.get("proposal"),
            "conditions": _conditions(status.conditions),
            "queues": {
                name: {
                    "partitions": queue.partitions,
                    "states": dict(queue.states),
                    "scaleStatus": queue.status.partition_scale_status,
                    "deadLetters": queue.status.dead_letters,
                    "conditions": _conditions(queue.status.conditions),
                }
                for name, queue in self.queues.items()
            },
            "owners": {name: _member(entry) for name, entry in self.members.items()},
            "vacantSlots": [
                {
                    "member": slot.member,
                    "partitions": write_numbers(slot.vacated or ()),
                    "until": None if slot.expires is None else to_text(slot.expires),
                }
                for slot in self.vacant
            ],
            "handoffs": written.get("handoffs") or [],
            "drained": list(self.drained),
            "notReady": dict(self.not_ready),
            "ledgerProblem": self.ledger_problem,
            "unread": list(self.unread),
        }

    def listed(self) -> Json:
        """For programs, in a list of groups whose ledgers were not read."""
        return {name: value for name, value in self.to_json().items() if name not in _OF_ONE}


def look(
    group: Manifest,
    ledger: Mapping[str, str],
    queues: Iterable[Manifest] = (),
    leader: Leader | None = None,
    *,
    pods: Iterable[PodView] | None = None,
    now: float,
) -> GroupLook:
    """Read a group. `ledger`: the ConfigMap's data, empty if there is no ledger. `pods`: the group's, if known."""
    view = group_view(group)
    status, mistake = view.read_status()
    state, ledger_problem = _load(ledger)
    members = {MemberId(key): _entry(text) for key, text in sorted(ledger.items()) if key != LEDGER_GROUP_KEY}
    if members:
        # The status is written a moment after the ledger. Newcomers have no key in the ledger yet; only the status counts them.
        counted = {"members": max(len(members), status.members), "standbys": sum(map(is_idle, members.values()))}
        status = status.model_copy(update=counted)
    named = {one.name for one in view.spec.queues} if view.spec is not None else set()
    seen = _queues(state, named, {one.name: one for one in map(queue_view, queues)}, lost=ledger_problem is not None)
    mistakes = [view.problem, mistake, *(f"queue {name}: {queue.unread}" for name, queue in seen.items() if queue.unread)]
    return GroupLook(
        group=view,
        status=status,
        now=now,
        leader=leader,
        state=state,
        members=members,
        queues=seen,
        ledger_problem=ledger_problem,
        unread=tuple(filter(None, mistakes)),
        pods=None if pods is None else tuple(pods),
    )


def drained(pods: Iterable[PodView]) -> tuple[str, ...]:
    """The sorted names of the drained pods of a group."""
    return tuple(sorted(pod.name for pod in pods if pod.draining and not pod.ended and not pod.terminating))


def is_idle(entry: MemberEntry | LedgerError) -> bool:
    """Whether the member owns and releases nothing."""
    return isinstance(entry, MemberEntry) and not entry.active and not any(entry.revoking.values())


def numbers(queues: Mapping[QueueName, Grants]) -> dict[QueueName, str]:
    """Numbers of partitions by queue: `{"orders": "0-3,7"}`."""
    return {queue: format_numbers(grants) for queue, grants in queues.items() if grants}


class PartitionRow(NamedTuple):
    """A partition: its state, owner and epoch, and its hand-off."""

    queue: str
    partition: int
    state: PartitionState
    owner: MemberId | None
    epoch: int
    to: MemberId | None
    deadline: str | None
    reason: str


def partitions(state: GroupState | None) -> list[PartitionRow]:
    """Every partition of the ledger; `state` None: there is no ledger."""
    return [_partition(state, *one) for one in partition_states(state).items()] if state is not None else []


def _partition(state: GroupState, partition: Partition, doing: PartitionState) -> PartitionRow:
    record, move = state.records[partition], state.moves.get(partition)
    if move is None or move.quiet:
        return PartitionRow(*partition, doing, record.owner, record.epoch, state.waiting.get(partition), None, "")
    deadline = None if move.giver is None else to_text(move.deadline)
    return PartitionRow(*partition, doing, record.owner, record.epoch, move.receiver, deadline, move.why)


def _load(ledger: Mapping[str, str]) -> tuple[GroupState | None, str | None]:
    if not ledger:
        return None, None
    try:
        return load(ledger), None
    except LedgerError as error:
        return None, str(error)


def _entry(text: str) -> MemberEntry | LedgerError:
    try:
        return MemberEntry.from_json(text)
    except LedgerError as error:
        return error


def _member(entry: MemberEntry | LedgerError) -> Json:
    if isinstance(entry, LedgerError):
        return {"problem": str(entry)}
    return {
        "active": entry.active,
        "owned": numbers(entry.owned),
        "revoking": numbers(entry.revoking),
        "count": entry.count,
    }


def _queues(state: GroupState | None, named: set[str], views: Mapping[str, QueueView], *, lost: bool) -> dict[str, QueueLook]:
    """The group's queues by name. `named`: in the spec. `lost`: the ledger cannot be read."""
    counts = Counter((p.queue, one) for p, one in partition_states(state).items()) if state is not None else Counter()
    known = {str(queue) for queue in state.queues} if state is not None else set()
    seen: dict[str, QueueLook] = {}
    for name in sorted(named | known):
        view = views.get(name)
        status, unread = (PartitionedQueueStatus(), None) if view is None else view.read_status()
        of = {one: count for one in PartitionState if (count := counts[name, one])}  # type: ignore[index]
        partitions = sum(of.values()) if name in known else status.partitions
        if name not in known and partitions and not lost and not _away(status):
            of[PartitionState.UNASSIGNED] = partitions  # not in the ledger yet: the group is paused, or the ledger is full
        seen[name] = QueueLook(partitions, of, view, status, unread)
    return seen


def _away(status: PartitionedQueueStatus) -> bool:
    """Whether the queue is not Ready, so that the owners of its partitions are unknown."""
    return any(one.type == "Ready" and one.status is not ConditionStatus.TRUE for one in status.conditions)


def _conditions(those: Iterable[Condition]) -> Json:
    return {one.type: {"status": one.status, "reason": one.reason, "message": one.message} for one in those}


async def look_at_all(api: Api, namespace: str | None) -> list[GroupLook]:
    """Read all groups of a namespace, or (None) of all, without ledgers, queues and pods. Raises what `Api` raises."""
    found, now = await api.get(groups_path(namespace)), time.time()
    return [look(one, {}, now=now) for one in found["items"]]


async def look_at(api: Api, namespace: str, name: str) -> GroupLook:
    """Read a group from the cluster; its pods only if the caller may. Raises what `Api` raises."""
    group, ledger, queues, there = await asyncio.gather(
        api.get(groups_path(namespace, name)),
        api.find(core_path(namespace, "configmaps", ledger_name(name))),
        api.get(queues_path(namespace)),
        _pods_if_allowed(api, namespace, name),
    )
    ledger = ledger_of(ledger, name)
    leader = await leader_of(api, ledger)
    return look(group, (ledger or {}).get("data") or {}, queues["items"], leader, pods=there, now=time.time())


async def _pods_if_allowed(api: Api, namespace: str, name: str) -> list[PodView] | None:
    try:
        return await _pods(api, namespace, name)
    except ApiError as error:
        if error.status != FORBIDDEN:
            raise
        return None


async def _pods(api: Api, namespace: str, name: str) -> list[PodView]:
    """The pods with the group's label."""
    found = await api.get(core_path(namespace, "pods"), labelSelector=f"{GROUP_LABEL}={name}")
    return [pod for one in found["items"] if (pod := pods.view(one)) is not None]


async def observe(api: Api, namespace: str, name: str) -> tuple[GroupState, Observation]:
    """The state in the ledger, and what the group's operator would observe. Raises what `Api` raises, and NoAnswerError."""
    return await observation_of(api, await look_at(api, namespace, name))


async def observation_of(api: Api, seen: GroupLook) -> tuple[GroupState, Observation]:
    """Like `observe`, for a group that was read already."""
    group, spec = seen.group, _spec(seen)
    if seen.ledger_problem:
        raise NoAnswerError(f"the ledger of {group.full_name} is invalid: {seen.ledger_problem}")
    state = seen.state or GroupState(group.full_name)
    sights = [_sight(QueueName(one.name), seen.queues[one.name], state) for one in spec.queues]
    return state, observation(group, spec, sights, await members_of(api, seen))


async def members_of(api: Api, seen: GroupLook) -> GroupMembers:
    """The members among the group's pods. Raises what `Api` raises, and NoAnswerError."""
    namespace, name, spec = seen.group.namespace, seen.group.name, _spec(seen)
    there = await _pods(api, namespace, name) if seen.pods is None else seen.pods
    sessions = await api.get(leases_path(namespace), labelSelector=f"{GROUP_LABEL}={name}")
    views = [view for one in spec.queues if (view := seen.queues[one.name].view) is not None]
    return membership(
        name,
        there,
        [lease for one in sessions["items"] if (lease := leases.view(one)) is not None],
        lambda lease: lease.holder is not None and read_seconds(lease.renewal, 0.0) + lease.duration < seen.now,
        spec.membership.identity_label,
        sessions_required=sessions_required(spec, [view.spec for view in views if view.spec is not None]),
    )


def _spec(seen: GroupLook) -> ConsumerGroupSpec:
    if seen.group.spec is None:
        raise NoAnswerError(f"ConsumerGroup {seen.group.full_name}: {seen.group.problem}")
    return seen.group.spec


def _sight(name: QueueName, seen: QueueLook, state: GroupState) -> QueueSight:
    known, spec = state.queues.get(name), None if seen.view is None else seen.view.spec
    return QueueSight(
        name=name,
        named=True,
        view=seen.view,
        facts=QueueFacts(partitions=seen.status.partitions or (None if spec is None else spec.partitions)),
        known=known,
    )
