"""The fleet at one moment: members, ledger and group, as the stage reports them, in one value."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from baton.model.ids import QueueName
from baton.model.ledger import LedgerError, MemberEntry
from baton.model.names import (
    EXECUTORS_ANNOTATION,
    LEDGER_GROUP_KEY,
    SPARK_EXECUTOR_ID_LABEL,
    SPARK_ROLE_LABEL,
    STATISTICS_ANNOTATION,
)
from baton.model.ranges import format_numbers
from baton.model.wording import counted

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Member:
    """A pod (or process) of the fleet and its part of the ledger."""

    name: str
    uid: str
    phase: str
    """starting, ready, leaving, failed or gone (still in the ledger, but no longer in the cluster)."""
    executor: str = ""
    registered: bool = False
    """Whether the driver's Lease names the pod."""
    listed: bool = False
    """Whether the ledger has a key for this pod's UID."""
    active: bool = False
    owned: Mapping[int, int] = field(default_factory=dict)
    """Partition -> epoch."""
    revoking: Mapping[int, int] = field(default_factory=dict)

    @property
    def serving(self) -> bool:
        return self.phase == "ready" and self.registered


@dataclass(frozen=True, slots=True)
class Picture:
    """The fleet at one moment. The totals are those of the ConsumerGroup's status."""

    members: tuple[Member, ...] = ()
    state: str = ""
    hold_until: str = ""
    generation: int = 0
    partitions: int = 0
    moving: int = 0
    moves: int = 0
    lower_bound: int = 0
    deadline_misses: int = 0
    replicas: int | None = None
    held_until: float | None = None
    """When the present holddown ends, by the ledger: seconds since 1970."""
    victims: frozenset[str] = frozenset()
    """The victims, by the ledger."""
    statistics: Json = field(default_factory=dict)
    """The driver's counts (baton.spark.Statistics)."""
    ready: bool = False
    trouble: str = ""
    """Why the group is not Ready, if it is not."""

    @property
    def owners(self) -> dict[int, Member]:
        """The owners of partitions by the ledger, without partitions in hand-off."""
        return {number: member for member in self.members for number in member.owned}

    @property
    def serving(self) -> tuple[Member, ...]:
        return tuple(member for member in self.members if member.serving)

    def named(self, name: str) -> Member | None:
        return next((member for member in self.members if member.name == name), None)

    def settled(self, count: int) -> bool:
        """Whether `count` members own all partitions, and there are no hand-offs."""
        serving = self.serving
        return (
            len(serving) == count
            and self.state == "Ready"
            and not self.moving
            and self.partitions > 0
            and sum(len(member.owned) for member in serving) == self.partitions
            and not any(member.revoking for member in self.members)
            and max(len(member.owned) for member in serving) - min(len(member.owned) for member in serving) <= 1
        )


def compose(pods: Mapping[str, Json], ledger: Mapping[str, str], group: Json, lease: Json, queue: str) -> Picture:
    """Make a picture of what the watches last saw. Everything may be missing, and is then shown as missing."""
    status = group.get("status") or {}
    whole = _json(ledger.get(LEDGER_GROUP_KEY))
    executors = _annotation(lease, EXECUTORS_ANNOTATION).split(",")
    ready: Json = next((each for each in status.get("conditions") or () if each["type"] == "Ready"), {})
    return Picture(
        members=fleet((_member(pod, executors) for pod in pods.values()), ledger, queue),
        state=status.get("state", ""),
        hold_until=status.get("holdUntil") or "",
        generation=status.get("assignmentGeneration", 0),
        partitions=status.get("partitions", 0),
        moving=status.get("moving", 0),
        moves=status.get("moves", 0),
        lower_bound=status.get("lowerBound", 0),
        deadline_misses=status.get("deadlineMisses", 0),
        replicas=(group.get("spec") or {}).get("replicas"),
        held_until=(whole.get("holddown") or {}).get("until"),
        victims=frozenset((whole.get("scale") or {}).get("victims") or ()),
        statistics=_json(_annotation(lease, STATISTICS_ANNOTATION)),
        ready=ready.get("status") == "True",
        trouble="" if ready.get("status") == "True" else f"{ready.get('reason', '')}: {ready.get('message', '')}".strip(": "),
    )


def fleet(members: Iterable[Member], ledger: Mapping[str, str], queue: str) -> tuple[Member, ...]:
    """The members with their parts of the ledger, including those only in the ledger."""
    entries = _entries(ledger)
    found = [_with_part(member, entries.get(member.name), queue) for member in members]
    known = {member.uid for member in found}
    gone = [Member(entry.member, entry.uid, "gone") for entry in entries.values() if entry.uid not in known]
    found += [_with_part(member, entries[member.name], queue) for member in gone]
    return tuple(sorted(found, key=lambda member: _natural(member.name)))


def _with_part(member: Member, entry: MemberEntry | None, queue: str) -> Member:
    if entry is None or entry.uid != member.uid:
        return member
    owned, revoking = (dict(part.get(QueueName(queue), {})) for part in (entry.owned, entry.revoking))
    return replace(member, listed=True, active=entry.active, owned=owned, revoking=revoking)


def _entries(ledger: Mapping[str, str]) -> dict[str, MemberEntry]:
    found = {}
    for name, text in ledger.items():
        if name != LEDGER_GROUP_KEY:
            try:
                found[name] = MemberEntry.from_json(text)
            except LedgerError:
                continue
    return found


def _member(pod: Json, executors: list[str]) -> Member:
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    executor = labels.get(SPARK_EXECUTOR_ID_LABEL, "")
    return Member(
        name=metadata["name"],
        uid=metadata["uid"],
        phase=_phase(pod),
        executor=executor,
        registered=executor in executors if labels.get(SPARK_ROLE_LABEL) == "executor" else True,
    )


def _phase(pod: Json) -> str:
    status = pod.get("status") or {}
    if status.get("phase") in ("Failed", "Succeeded"):
        return "failed"
    if pod["metadata"].get("deletionTimestamp"):
        return "leaving"
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    return "ready" if conditions.get("Ready") == "True" else "starting"


def _annotation(lease: Json, name: str) -> str:
    return str(((lease.get("metadata") or {}).get("annotations") or {}).get(name, ""))


def _json(text: str | None) -> Json:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _natural(name: str) -> tuple[str, int]:
    head, _, tail = name.rpartition("-")
    return (head, int(tail)) if tail.isdigit() else (name, 0)


# The changes between two pictures


def changes(before: Picture, after: Picture) -> Iterator[str]:
    """The changes between two pictures that matter to people, in words, in a fixed order."""
    yield from _state_changes(before, after)
    was = {member.uid: member for member in before.members}
    for member in after.members:
        yield from _member_changes(was.get(member.uid), member)
    left = was.keys() - {member.uid for member in after.members}
    for uid in sorted(left, key=lambda uid: was[uid].name):
        yield f"{was[uid].name} is gone"


def _state_changes(before: Picture, after: Picture) -> Iterator[str]:
    troubled = after.trouble and _reason(after) != _reason(before)
    if after.state and after.state != before.state and not (troubled and after.state == "NotReady"):
        yield f"the group is {after.state}" + (f" until {after.hold_until}" if after.state == "Holddown" else "")
    if troubled:
        yield f"the group is not Ready: {after.trouble}"
    if after.deadline_misses > before.deadline_misses:
        missed = counted(after.deadline_misses - before.deadline_misses, "deadline")
        yield f"{missed} missed: fenced off at the queue"


def _reason(picture: Picture) -> str:
    """The trouble without its details, which change while pods come and would be told again."""
    return picture.trouble.partition(":")[0]


def _member_changes(before: Member | None, after: Member) -> Iterator[str]:
    phase = before.phase if before else ""
    if after.phase != phase:
        words = {"starting": "starts", "ready": "is Ready", "leaving": "is terminating", "failed": "has failed"}
        if phase == "ready" and after.phase == "starting":
            yield f"{after.name} is not Ready any more"
        elif after.phase in words:
            yield f"{after.name} {words[after.phase]}"
        elif before and before.phase != "failed":
            yield f"{after.name} has vanished"
    taken = after.revoking.keys() - (before.revoking.keys() if before else set())
    if taken:
        yield f"{after.name} is to release {format_numbers(taken)}"
    granted = {number for number, epoch in after.owned.items() if before is None or before.owned.get(number) != epoch}
    if granted:
        yield f"{after.name} gets {format_numbers(granted)}"
