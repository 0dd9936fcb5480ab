"""The tasks' reports of the ranges that they read, and the driver's counts and gauges."""

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

# -- reports of tasks, collected in an accumulator of the JVM, which the driver drains


class How(StrEnum):
    """Outcome of one attempt to read a range."""

    OWNER = "owner"
    """Read by the executor that owns the partition, under its grant."""
    LENT = "lent"
    """Read by another executor, under a loan that the queue recorded."""
    REFUSED = "refused"
    """Rejected by the queue, because a later reader has the range. Spark retries the task."""
    FAILED = "failed"
    """Not read: the server was unreachable or answered with an error, entries are gone, or the reader has a bug. Spark retries
    the task."""


class RangeReport(NamedTuple):
    """One attempt to read a range. It may have ended early, by a failure or a `limit` on rows."""

    partition: Partition
    end: int
    how: How
    rows: int
    bytes: int


def parse_reports(text: str) -> list[RangeReport]:
    """Parse the JVM's reports, a JSON list."""
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
    """How each range of a batch was read: by its owner only if no other executor read it too. Ranges without a report are
    missing."""
    found: dict[Partition, How] = {}
    for report in reports:
        if report.how in (How.OWNER, How.LENT) and ends.get(report.partition) == report.end:
            lent = How.LENT in (report.how, found.get(report.partition))
            found[report.partition] = How.LENT if lent else How.OWNER
    return found


# -- the driver's counts


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts since the `Fleet` was created. A *range* is the part of one partition in one batch.

    ```python
    print(fleet.statistics().owner_share)
    ```
    """

    batches: int = 0
    """Finished batches that had ranges."""
    ranges_planned: int = 0
    """Ranges of these batches."""
    ranges_read_on_owner: int = 0
    ranges_lent: int = 0
    """Ranges that another executor read, because the owner was missing or was lost while reading."""
    ranges_finished: int = 0
    finishes_refused: int = 0
    """Ranges that a later query reads, or whose partition a pod has read singly."""
    reads_refused: int = 0
    """Attempts that the queue rejected because a later reader has the range. Spark retried them."""
    rows: int = 0
    """Rows that tasks read, including those of repeated attempts."""
    bytes: int = 0
    positions_lost: int = 0
    """Positions that a query skipped because their entries were gone (failOnDataLoss false)."""
    releases: int = 0
    """Partitions released because the ledger revoked them."""
    executors_ended: int = 0
    """Executors that the driver killed because they held up a batch."""
    query_failures: int = 0
    """Queries that failed and were restarted (`Fleet.run`)."""

    @property
    def owner_share(self) -> float:
        """Share of the ranges that their owner read. 1.0 is ideal."""
        return self.ranges_read_on_owner / self.ranges_planned if self.ranges_planned else 1.0

    def to_json(self) -> str:
        """Return the counts and `owner_share` as one line of JSON."""
        return json.dumps(asdict(self) | {"owner_share": round(self.owner_share, 6)}, separators=(",", ":"))


class Counts:
    """The running counts. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def batch(self, ranges: int, outcomes: Mapping[Partition, How], reports: Iterable[RangeReport]) -> None:
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
        """Add to a counter of `Statistics`, by name."""
        with self._lock:
            self._counts[what] += count

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure the duration of a step of a batch."""
        began = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                self._seconds[name] += time.monotonic() - began

    def step_seconds(self) -> Mapping[str, float]:
        """Total seconds per step (ahead, log, finish), over all batches."""
        with self._lock:
            return dict(self._seconds)

    def statistics(self) -> Statistics:
        with self._lock:
            return Statistics(**self._counts)


# -- the driver's gauges


@dataclass(frozen=True, slots=True)
class FleetView:
    """The driver's current view of its fleet.

    ```python
    print(sum(fleet.view().lag.values()), "entries wait")
    ```
    """

    partitions_owned: int = 0
    """Partitions whose owner is a ready executor."""
    partitions_waiting: int = 0
    """Partitions without an owner, or whose owner is not ready."""
    partitions_revoking: int = 0
    """Partitions being handed off."""
    lag: Mapping[QueueName, int] = field(default_factory=dict)
    """Entries per queue that the query has not finished reading."""
    step_seconds: Mapping[str, float] = field(default_factory=dict)
    """Total seconds per step of the driver (ahead, log, finish), over all batches."""
