"""A fake queue with one partition and no entries."""

import threading
from collections.abc import Mapping, Sequence

from baton.queues.logged_ranges import (
    Ahead,
    AheadAnswer,
    AheadRequest,
    FinishAnswer,
    Finished,
    LogAnswer,
    Logged,
    PartitionBounds,
    RangeToFinish,
    RangeToLog,
    RangeToSetAside,
    SetAside,
    SetAsideAnswer,
)
from baton.queues.protocol import QueueUnreachable
from tests.waiting import HOUR, PATIENCE


class QueueWithoutEntries:
    """A `LoggedRanges` (baton.queues.logged_ranges) that answers every request unless it is `away`."""

    sizes_known = True
    sets_aside = True

    def __init__(self) -> None:
        self.away = False
        self.answers_now = threading.Event()
        """Cleared: checks and requests for positions and to finish wait, like at a server that accepts connections and does not
        answer."""
        self.answers_now.set()
        self.news = threading.Event()
        """Set to end a wait."""
        self.finished: list[int] = []
        """The requested ends."""
        self.waits = self.interrupts = 0
        self._interrupted = threading.Event()

    def begin(self) -> int:
        self._ask()
        return 1

    def fence(self, query: int, partitions: Sequence[int]) -> int:
        return query

    def check(self) -> None:
        self._ask()

    def positions(self) -> Mapping[int, PartitionBounds]:
        assert self.answers_now.wait(HOUR)
        return {0: PartitionBounds(0, 0, 0)}

    def ahead(self, query: int, requests: Sequence[AheadRequest]) -> list[AheadAnswer]:
        return [Ahead(one.start, one.start, one.start + 1, 0) for one in requests]

    def log(self, query: int, ranges: Sequence[RangeToLog]) -> list[LogAnswer]:
        return [Logged(0) for one in ranges]

    def finish(self, query: int, ranges: Sequence[RangeToFinish]) -> list[FinishAnswer]:
        self._ask()
        self.finished += [one.end for one in ranges]
        return [Finished() for _ in ranges]

    def set_aside(self, query: int, ranges: Sequence[RangeToSetAside], why: str) -> list[SetAsideAnswer]:
        self._ask()
        return [SetAside() for _ in ranges]

    def wait(self, partitions: Sequence[int], timeout: float) -> set[int]:
        self.waits += 1
        for _ in range(int(PATIENCE * 1000)):
            if self.news.is_set():
                self.news.clear()
                return {0}
            if self._interrupted.wait(min(timeout, 0.001)):
                self._interrupted.clear()
                return set()
            if timeout < 1:
                return set()
        raise AssertionError("nothing ended the wait")

    def interrupt(self) -> None:
        self.interrupts += 1
        self._interrupted.set()

    def _ask(self) -> None:
        assert self.answers_now.wait(HOUR)
        if self.away:
            raise QueueUnreachable("it is away")

    def address(self) -> Mapping[str, object]:
        return {"server": "none"}

    def close(self) -> None:
        pass
