"""What the driver counts, for people and for whoever wants to know how well ownership is honoured."""

import json
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

from baton.spark.receipts import ReadOutcome, Receipt


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts since the fleet started. A *range* is the part of one partition in one batch."""

    batches: int = 0
    ranges_planned: int = 0
    ranges_read_on_owner: int = 0
    ranges_refused: Mapping[str, int] = field(default_factory=dict)
    """By outcome: not-owner, stale, failed."""
    ranges_lost: int = 0
    """Read on their owner, then lost with their executor and not to be had again while the user's function ran."""
    ranges_committed: int = 0
    commits_refused: int = 0
    """The partition had been granted on before its batch was done."""
    entries: int = 0
    """Entries that were read, redelivered ones each time."""
    executors_ended: int = 0
    """Executors that the driver killed because they held up a batch."""

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
        self._refused: Counter[str] = Counter()

    def read(self, receipts: Iterable[Receipt]) -> None:
        """A batch has been materialised: one receipt for each of its ranges."""
        with self._lock:
            self._counts["batches"] += 1
            for receipt in receipts:
                self._counts["ranges_planned"] += 1
                if receipt.outcome is ReadOutcome.READ:
                    self._counts["ranges_read_on_owner"] += 1
                    self._counts["entries"] += receipt.entries
                else:
                    self._refused[receipt.outcome.value] += 1

    def add(self, what: str, count: int = 1) -> None:
        """Add to one of the plain counters of `Statistics`, by its name."""
        with self._lock:
            self._counts[what] += count

    def statistics(self) -> Statistics:
        """The counts at this moment."""
        with self._lock:
            return Statistics(**self._counts, ranges_refused=dict(self._refused))
