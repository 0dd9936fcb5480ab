"""What a group's events say of one partition: since when its owner has it, who had it before, and why it moved. Pure.

Who may write events may write anything: only the operator's are read, bounded, and of a range its ends alone.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from baton.controller.problems import EventReason
from baton.model.ids import MemberId, Partition
from baton.model.times import read_seconds, to_text

REPORTED_BY = "baton.dev/operator"

LONGEST_NOTE = 1024
"""Characters of a sentence that are read: as many as Kubernetes takes in an event."""

MOST_SHOWN = 10

_NUMBERS = re.compile(r"\b(\d[\d,-]{0,300})…? of ([a-z0-9.-]{1,253})")
_BETWEEN = re.compile(r"\bgo(?:es)? from (\S{1,253}) to (\S{1,253}?)[:;]")
_ENDS = (EventReason.RELEASED, EventReason.GONE, EventReason.DEADLINE_MISSED)
_BEGINNINGS = (EventReason.REVOKING, EventReason.REDIRECTED)


@dataclass(frozen=True, slots=True)
class PartitionEvent:
    """A sentence of the operator about a partition."""

    at: float
    """Unix seconds."""
    reason: str
    note: str

    @property
    def why(self) -> str:
        """What stands behind the first colon, without what is waited for; empty: nothing."""
        return self.note.partition(": ")[2].rpartition("; ")[0] or (
            "" if "; " in self.note else self.note.partition(": ")[2].strip()
        )

    def to_json(self) -> Mapping[str, str]:
        """For programs."""
        return {"time": to_text(self.at), "reason": self.reason, "note": self.note}


@dataclass(frozen=True, slots=True)
class PartitionHistory:
    """What is known of a partition's past. Events are kept for an hour, as a rule."""

    since: float | None = None
    """When its owner got it, in Unix seconds; None: no event tells."""
    before: str | None = None
    """Who had it before that."""
    why: str = ""
    """Why it moved to its owner."""
    events: tuple[PartitionEvent, ...] = ()
    """The last ones, in order."""


def history(partition: Partition, owner: MemberId | None, events: Iterable[Mapping[str, Any]]) -> PartitionHistory:
    """`events`: as core/v1 has them, of the group."""
    told = sorted((one for one in map(_read, events) if one and mentions(one.note, partition)), key=lambda one: one.at)
    grants = [at for at, one in enumerate(told) if one.reason == EventReason.GRANTED and one.note.startswith(f"{owner} owns ")]
    shown = tuple(told[-MOST_SHOWN:])
    if owner is None or not grants:
        return PartitionHistory(before=_giver(told), events=shown)
    # What led to it: all that was told since the grant before it.
    others = [at for at, one in enumerate(told[: grants[-1]]) if one.reason == EventReason.GRANTED]
    led = told[others[-1] + 1 if others else 0 : grants[-1]]
    why = told[grants[-1]].why or next((one.why for one in reversed(led) if one.reason in _BEGINNINGS and one.why), "")
    return PartitionHistory(told[grants[-1]].at, _giver(led), why, shown)


def mentions(note: str, partition: Partition) -> bool:
    """Whether the sentence names the partition, alone or within a range."""
    for numbers, queue in _NUMBERS.findall(note):
        if queue.rstrip(".") == partition.queue and any(_within(part, partition.number) for part in numbers.split(",")):
            return True
    return False


def _within(part: str, number: int) -> bool:
    first, dash, last = part.partition("-")
    if not first.isdigit() or len(part) > 20 or (dash and not last.isdigit()):
        return False
    return int(first) <= number <= int(last or first)


def _giver(events: list[PartitionEvent]) -> str | None:
    """Who let go of it last, as far as these say."""
    for one in reversed(events):
        if one.reason in _ENDS and not re.match(r"[\d,]+ members ", one.note):
            return one.note.partition(" ")[0]
        if one.reason == EventReason.REVOKING and (found := _BETWEEN.search(one.note)):
            return found[1]
    return None


def _read(event: Mapping[str, Any]) -> PartitionEvent | None:
    if event.get("reportingComponent") != REPORTED_BY:
        return None
    metadata = event.get("metadata") or {}
    for text in (event.get("eventTime"), event.get("lastTimestamp"), metadata.get("creationTimestamp")):
        if text and (at := read_seconds(text, None)) is not None:
            return PartitionEvent(at, str(event.get("reason"))[:128], str(event.get("message"))[:LONGEST_NOTE])
    return None
