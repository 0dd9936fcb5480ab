"""What the driver counts: how well ownership is honoured."""

import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from baton.model.ids import Partition
from baton.spark.receipts import How, RangeReport


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts since the fleet started. A *range* is the part of one partition in one batch."""

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
