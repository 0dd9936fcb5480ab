"""What tasks report of the ranges that they read: the JVM collects it in an accumulator, and the driver empties that."""

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from baton.model.ids import Partition, QueueName


class How(StrEnum):
    """How one attempt of a task got on with a range."""

    OWNER = "owner"
    """Read in the executor that owns the partition, under its grant."""
    LENT = "lent"
    """Read elsewhere, under a loan that the queue recorded."""
    REFUSED = "refused"
    """The queue did not let it: a later reader has this range. Spark tries the task again."""
    FAILED = "failed"
    """It could not be read: the server was away or answered an error, entries are gone, or what reads them has a fault.
    Spark tries the task again."""


class RangeReport(NamedTuple):
    """One attempt at one range, which may have ended before the range did: it failed, or no more rows were wanted (`limit`)."""

    partition: Partition
    end: int
    how: How
    rows: int
    bytes: int
    foreign: tuple[str, ...] = ()
    """Ids of entries that no producer of Baton added."""


def parse_reports(text: str) -> list[RangeReport]:
    """From the JVM: a list in JSON."""
    return [
        RangeReport(
            Partition(QueueName(raw["queue"]), int(raw["partition"])),
            int(raw["end"]),
            How(raw["how"]),
            int(raw.get("rows", 0)),
            int(raw.get("bytes", 0)),
            tuple(raw.get("foreign") or ()),
        )
        for raw in json.loads(text)
    ]


def outcomes(ends: Mapping[Partition, int], reports: Iterable[RangeReport]) -> Mapping[Partition, How]:
    """How each range of a batch was read: by its owner only where no other executor had to. Without a report it is in neither."""
    found: dict[Partition, How] = {}
    for report in reports:
        if report.how in (How.OWNER, How.LENT) and ends.get(report.partition) == report.end:
            lent = How.LENT in (report.how, found.get(report.partition))
            found[report.partition] = How.LENT if lent else How.OWNER
    return found


def foreign_entries(ends: Mapping[Partition, int], reports: Iterable[RangeReport]) -> Mapping[Partition, tuple[str, ...]]:
    """For each range the entries that are none. Attempts find them in one order; the one that came farthest knows most."""
    found: dict[Partition, tuple[str, ...]] = {}
    for report in reports:
        if ends.get(report.partition) == report.end and len(report.foreign) > len(found.get(report.partition, ())):
            found[report.partition] = report.foreign
    return found
