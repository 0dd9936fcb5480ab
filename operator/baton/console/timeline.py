"""What changed hands, and why: from two states of a ledger, and from the operator's events. Pure."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from baton.cli.group import Manifest
from baton.console.ranges_text import short_numbers
from baton.engine import GroupState
from baton.model.ids import MemberId, Partition
from baton.model.times import read_seconds
from baton.model.wording import one_line

MOST = 200
"""Entries that are shown; the newest."""

MOST_AT_ONCE = 20
"""Moves of one change of the ledger that are told one by one."""

LONGEST_RANGES, LONGEST_NOTE = 120, 600
"""Characters."""


class TimelineEntry(NamedTuple):
    """Something that happened. `at`: Unix seconds."""

    at: float
    kind: str
    """`Moved`, or the reason of an event."""
    text: str
    warning: bool = False


def moves_between(before: GroupState | None, after: GroupState | None, now: float) -> list[TimelineEntry]:
    """Who got what from whom between two states of one ledger."""
    if before is None or after is None:
        return []
    moved: defaultdict[tuple[MemberId | None, MemberId | None, str], list[Partition]] = defaultdict(list)
    for partition, record in after.records.items():
        known = before.records.get(partition)
        if known is None or known.owner != record.owner:
            planned = before.moves.get(partition) or after.moves.get(partition)
            giver = None if known is None else known.owner or known.last
            if giver == record.owner and record.owner is not None and (known is None or known.owner is not None):
                continue
            moved[giver, record.owner, "" if planned is None else planned.why].append(partition)
    told = sorted(moved.items(), key=lambda one: -len(one[1]))
    entries = [TimelineEntry(now, "Moved", _sentence(*pair, those)) for pair, those in told[:MOST_AT_ONCE]]
    if rest := told[MOST_AT_ONCE:]:
        count = sum(len(those) for _, those in rest)
        entries.append(TimelineEntry(now, "Moved", f"and {count:,} more partitions between {len(rest):,} other pairs"))
    return entries


def of_events(events: Iterable[Manifest]) -> list[TimelineEntry]:
    """What the operator posted, as far as it reads."""
    entries = []
    for event in events:
        series = event.get("series") or {}
        last = series.get("lastObservedTime") or event.get("eventTime") or event.get("deprecatedLastTimestamp")
        at = read_seconds(last, None)
        if at is None:
            continue
        reason = one_line(str(event.get("reason") or ""), 128)
        entries.append(
            TimelineEntry(at, reason, one_line(str(event.get("note") or ""), LONGEST_NOTE), event.get("type") == "Warning")
        )
    return entries


def newest(*lists: Iterable[TimelineEntry]) -> list[dict[str, Any]]:
    """Those of all lists, the newest first."""
    every = sorted((one for some in lists for one in some), key=lambda one: one.at, reverse=True)
    return [one._asdict() for one in every[:MOST]]


def _sentence(giver: MemberId | None, owner: MemberId | None, why: str, those: Iterable[Partition]) -> str:
    what = " and ".join(f"{numbers} of {queue}" for queue, numbers in short_numbers(sorted(those), LONGEST_RANGES).items())
    because = f": {why}" if why else ""
    if owner is None:
        return f"{what}: {giver or 'nobody'} → nobody{because}"
    return f"{what}: {giver or 'nobody'} → {owner}{because}"
