"""Where a group is in the logs of a topic's partitions: what is still to be done, and what cannot be done any more. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from baton.queues.kafka.record import Committed
from baton.queues.offsets import PartitionOffsets


class CutOff(NamedTuple):
    """A log that ends before the place of the group."""

    place: int
    end: int
    """As it was seen first: what was sent since is behind it."""


def lag(committed: Mapping[int, Committed], begins: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, int]:
    """Entries that are not done, of each partition whose log's end is known."""
    at = {number: one.offset if one.offset >= 0 else begins.get(number, 0) for number, one in committed.items()}
    return {number: max(0, end - max(at[number], begins.get(number, 0))) for number, end in ends.items()}


def offsets_of(
    committed: Mapping[int, Committed], begins: Mapping[int, int], ends: Mapping[int, int]
) -> dict[int, PartitionOffsets]:
    """Of each partition whose log's ends are known. What its owner has in hand only the owner knows."""
    behind = lag(committed, begins, ends)
    return {
        number: PartitionOffsets(
            at if (at := committed[number].offset) >= 0 else None, begins[number], ends[number], entries, None
        )
        for number, entries in sorted(behind.items())
        if number in begins
    }


def unfinished(committed: Mapping[int, Committed], ends: Mapping[int, int]) -> dict[int, tuple[str, int]]:
    """See `QueueCheck.unfinished`: the owner that reads now counts as one that was handed it out."""
    found = {
        number: (one.offset, one.record.ended_on(one.offset, ends.get(number, 0)))
        for number, one in committed.items()
        if one.record is not None
    }
    return {number: (str(offset), tries[offset]) for number, (offset, tries) in found.items() if tries.get(offset, 0) > 1}


def lost_entries(committed: Mapping[int, Committed], begins: Mapping[int, int]) -> dict[int, int]:
    """Of each partition of which entries were deleted that the group had not done, how many that are at most."""
    found = {number: begins.get(number, 0) - one.offset for number, one in committed.items() if one.offset >= 0}
    return {number: count for number, count in sorted(found.items()) if count > 0}


def cut_off(committed: Mapping[int, Committed], ends: Mapping[int, int], before: Mapping[int, CutOff]) -> dict[int, CutOff]:
    """Of each partition whose log ends before the group's place. One that did so `before` does it as long as the place stands,
    for entries that nobody has read do not move it."""
    found = {number: CutOff(one.offset, ends.get(number, one.offset)) for number, one in committed.items()}
    stands = {number: cut for number, cut in before.items() if number in found and found[number].place == cut.place}
    return {number: cut for number, cut in sorted((found | stands).items()) if cut.place > cut.end}
