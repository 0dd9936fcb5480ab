"""What tasks report of the ranges that they read, what the driver counts of it, and what it sees now."""

import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import NamedTuple

from baton.model.ids import Partition, QueueName

# -- what tasks report: the JVM collects it in an accumulator, which the driver empties


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


def parse_reports(text: str) -> list[RangeReport]:
    """From the JVM: a list in JSON."""
    return [
        RangeReport(
            Partition(QueueName(raw["queue"]), int(raw["partition"])),
            int(raw["end"]),
            How(raw["how"]),
            int(raw.get("rows", 0)),
            int(raw.get("bytes", 0)),
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


# -- what the driver counts


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts since the fleet started. A *range* is the part of one partition in one batch.

    ```python
    print(fleet.statistics().owner_share)
    ```
    """

    batches: int = 0
    """That are done, and had ranges."""
    ranges_planned: int = 0
    """Of those batches."""
    ranges_read_on_owner: int = 0
    ranges_lent: int = 0
    """Read elsewhere: the owner was not there, or was lost while it read."""
    ranges_finished: int = 0
    finishes_refused: int = 0
    """A later query has the partition, or a pod has read it singly."""
    reads_refused: int = 0
    """Attempts that the queue refused, because a later reader has the range. Spark tried again."""
    rows: int = 0
    """That tasks have read, those of a second attempt as well."""
    bytes: int = 0
    positions_lost: int = 0
    """Positions that a query had to leave out because their entries were gone (failOnDataLoss false)."""
    releases: int = 0
    """Partitions that were handed back because the ledger revoked them."""
    executors_ended: int = 0
    """Executors that the driver killed because they held up a batch."""
    query_failures: int = 0
    """Queries that ended with an error and were started again (`Fleet.run`)."""

    @property
    def owner_share(self) -> float:
        """The share of ranges that were read on their owner: 1.0 is the aim."""
        return self.ranges_read_on_owner / self.ranges_planned if self.ranges_planned else 1.0

    def to_json(self) -> str:
        """One line, with the share."""
        return json.dumps(asdict(self) | {"owner_share": round(self.owner_share, 6)}, separators=(",", ":"))


class Counts:
    """The running counts. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def batch(self, ranges: int, outcomes: Mapping[Partition, How], reports: Iterable[RangeReport]) -> None:
        """A batch is done."""
        with self._lock:
            if ranges:
                self._counts["batches"] += 1
                self._counts["ranges_planned"] += ranges
            for how in outcomes.values():
                self._counts["ranges_lent" if how is How.LENT else "ranges_read_on_owner"] += 1
            for report in reports:
                self._counts["rows"] += report.rows
                self._counts["bytes"] += report.bytes
                self._counts["reads_refused"] += report.how is How.REFUSED

    def add(self, what: str, count: int = 1) -> None:
        """Add to one of the counters of `Statistics`, by its name."""
        with self._lock:
            self._counts[what] += count

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measures a step of a batch."""
        began = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                self._seconds[name] += time.monotonic() - began

    def step_seconds(self) -> Mapping[str, float]:
        """Seconds that the steps have taken, all batches together: ahead, log, finish."""
        with self._lock:
            return dict(self._seconds)

    def statistics(self) -> Statistics:
        """The counts at this moment."""
        with self._lock:
            return Statistics(**self._counts)


# -- what the driver sees now


@dataclass(frozen=True, slots=True)
class FleetView:
    """What the driver sees of its fleet at this moment.

    ```python
    print(sum(fleet.view().lag.values()), "entries wait")
    ```
    """

    partitions_owned: int = 0
    """Their owner is an executor that is ready."""
    partitions_waiting: int = 0
    """For an owner, or for their owner to be ready."""
    partitions_revoking: int = 0
    """On their way to another owner."""
    lag: Mapping[QueueName, int] = field(default_factory=dict)
    """Entries of each queue that the query has not finished reading."""
    step_seconds: Mapping[str, float] = field(default_factory=dict)
    """What the driver's steps took, all batches together: ahead, log, finish."""
