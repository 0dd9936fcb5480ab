"""All that is shown of a group, from its manifest, its ledger and its queues. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from baton.cli.leader import Leader
from baton.engine import GroupState, LedgerError, load
from baton.engine.partition_state import PartitionState, partition_states
from baton.kube.times import to_seconds, to_text
from baton.model.ids import Partition
from baton.model.ledger import MemberEntry
from baton.model.names import LEDGER_GROUP_KEY
from baton.model.ranges import format_numbers

Json = dict[str, object]
Manifest = Mapping[str, Any]

UNKNOWN = "Unknown"
"""The state of a group that no operator looks after: what its status says is as of its last look."""

UNSEEN_AFTER = 300.0
"""Seconds without a look. An operator looks every few seconds, and writes so every two minutes."""

COUNTS = ("partitions", "unowned", "members", "standbys", "moving", "moves", "lowerBound", "deadlineMisses", "assignor")


def view(
    group: Manifest,
    ledger: Mapping[str, str],
    queues: Iterable[Manifest] = (),
    leader: Leader | None = None,
    *,
    now: float,
) -> Json:
    """JSON for programs; the screen is made of it too. `leader`: of the operator, as far as known; `now` in unix seconds."""
    told = group.get("status") or {}
    looked = _seconds(told.get("lastLookTime"))
    unseen = looked is None or now > looked + UNSEEN_AFTER or (leader is not None and leader.gone(now))
    state, problem = _load(ledger)
    named = [one["name"] for one in group["spec"].get("queues") or ()]
    owners = {key: _entry(text) for key, text in sorted(ledger.items()) if key != LEDGER_GROUP_KEY}
    manifests = {one["metadata"]["name"]: one for one in queues}
    return {
        "namespace": group["metadata"]["namespace"],
        "group": group["metadata"]["name"],
        "state": UNKNOWN if unseen else told.get("state"),
        "lastState": told.get("state"),
        "lastLookTime": None if looked is None else to_text(looked),
        "leader": None if leader is None else _leader(leader),
        "deletedAt": group["metadata"].get("deletionTimestamp"),
        "specSeen": told.get("observedGeneration") == group["metadata"].get("generation"),
        "why": _why(state, told),
        "holdUntil": told.get("holdUntil"),
        **{name: told.get(name) for name in COUNTS},
        **_members(told, owners),
        "approval": group["spec"].get("approval") or "Automatic",
        "proposal": told.get("proposal"),
        "conditions": _conditions(told),
        "queues": _queues(state, named, manifests),
        "owners": owners,
        "vacantSlots": _vacant(state),
        "handoffs": told.get("handoffs") or [],
        "ledgerProblem": problem,
    }


def _conditions(status: Manifest) -> Json:
    return {
        one["type"]: {"status": one["status"], "reason": one["reason"], "message": one.get("message", "")}
        for one in status.get("conditions") or ()
    }


def _members(told: Manifest, owners: Mapping[str, Json]) -> Json:
    """How many there are, as the list of them has it: the status is written a moment after the ledger. Newcomers only the status
    counts; they are not in the ledger before they have a part in the assignment."""
    if not owners:
        return {}
    idle = sum(is_idle(entry) for entry in owners.values())
    return {"members": max(len(owners), told.get("members") or 0), "standbys": idle}


def is_idle(entry: Manifest) -> bool:
    """A member's entry of the view says that it stands by."""
    return "problem" not in entry and not entry["active"] and not entry["revoking"]


def _leader(one: Leader) -> Json:
    renewed = None if one.renewed is None else to_text(one.renewed)
    return {"lease": one.lease, "readable": one.readable, "holder": one.holder, "renewTime": renewed}


def _seconds(text: object) -> float | None:
    """None for what is no time."""
    try:
        return to_seconds(str(text))
    except (ValueError, OverflowError):
        return None


def partitions(ledger: Mapping[str, str]) -> list[Json]:
    """Every partition: what it is doing, whose it is, at which epoch, and where it goes. Raises LedgerError."""
    if not ledger:
        return []
    state = load(ledger)
    return [_partition(state, partition, doing) for partition, doing in partition_states(state).items()]


def _partition(state: GroupState, partition: Partition, doing: PartitionState) -> Json:
    record, move = state.records[partition], state.moves.get(partition)
    going = move.receiver if move is not None and not move.quiet else state.waiting.get(partition)
    return {
        "queue": partition.queue,
        "partition": partition.number,
        "state": doing.value,
        "owner": record.owner,
        "epoch": record.epoch,
        "to": going,
        "deadline": None if move is None or move.giver is None or move.quiet else to_text(move.deadline),
        "reason": "" if move is None or move.quiet else move.why,
    }


def _load(ledger: Mapping[str, str]) -> tuple[GroupState | None, str | None]:
    if not ledger:
        return None, None
    try:
        return load(ledger), None
    except LedgerError as error:
        return None, str(error)


def _why(state: GroupState | None, told: Manifest) -> str:
    match told.get("state"):
        case "Holddown" if state is not None and state.holddown is not None:
            return state.holddown.why
        case "Rebalancing" if state is not None and state.rebalance is not None:
            return state.rebalance.why
    return ""


def _queues(state: GroupState | None, named: list[str], manifests: Mapping[str, Manifest]) -> Json:
    counts = Counter((p.queue, one) for p, one in partition_states(state).items()) if state is not None else Counter()
    known = {str(queue) for queue in state.queues} if state is not None else set()
    told: Json = {}
    for name in sorted({*named, *known}):
        status = manifests.get(name, {}).get("status") or {}
        of = {one.value: count for one in PartitionState if (count := counts[name, one])}  # type: ignore[index]
        new = (status.get("partitions") or 0) - sum(of.values()) if name in named and name not in known else 0
        if new > 0:  # a pause, or a ledger without room, keeps them for later
            of[PartitionState.UNASSIGNED.value] = new
        told[name] = {
            "partitions": sum(of.values()),
            "states": of,
            "scaleStatus": status.get("partitionScaleStatus"),
            "conditions": _conditions(status),
        }
    return told


def _vacant(state: GroupState | None) -> list[Json]:
    """Member slots that wait for somebody."""
    slots = [slot for slot in state.member_slots if slot.vacated] if state is not None else []
    return [
        {
            "member": slot.member,
            "partitions": {queue: format_numbers(p.number for p in slot.vacated or () if p.queue == queue) for queue in queues},
            "until": None if slot.expires is None else to_text(slot.expires),
        }
        for slot in slots
        for queues in [sorted({p.queue for p in slot.vacated or ()})]
    ]


def _entry(text: str) -> Json:
    try:
        entry = MemberEntry.from_json(text)
    except LedgerError as error:
        return {"problem": str(error)}
    return {
        "active": entry.active,
        "owned": {queue: format_numbers(grants) for queue, grants in entry.owned.items() if grants},
        "revoking": {queue: format_numbers(grants) for queue, grants in entry.revoking.items() if grants},
        "count": sum(map(len, entry.owned.values())),
    }
