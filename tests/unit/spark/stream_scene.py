"""A query's stream over a model of a queue, in virtual time, with calls in the order of Spark's."""

import json
from collections.abc import Callable, Mapping, Sequence

from baton.model.ids import MemberId, QueueName
from baton.model.session import Release
from baton.queues.logged_ranges import LoggedRanges, PartitionBounds
from baton.queues.protocol import QueueUnreachable
from baton.spark.executors import Executor
from baton.spark.offsets import MAX_BYTES, Positions, StreamOptions
from baton.spark.statistics import RangeReport
from baton.spark.stream import RunningQuery, Stream
from tests.fleet_context import fleet_context, fleet_queues
from tests.simulation.spark.modelled_ranges import ModelledRanges
from tests.simulation.spark.partition import Answer, Partition
from tests.unit.spark.builders import Numbers, entry, executor
from tests.unit.spark.queue_without_entries import QueueWithoutEntries
from tests.written_ledger import WrittenLedger

ORDERS, PARCELS = QueueName("orders"), QueueName("parcels")
_TOO_OFTEN = 100
_PATIENCE = 3.0
"""Patience in seconds with a silent queue: on a busy machine the other queue's threads may be late."""


class WatchedRanges(ModelledRanges):
    """A modelled queue that records its requests and can be unreachable."""

    def __init__(self, partitions: Mapping[int, Partition], pass_time: Callable[[float], None]) -> None:
        super().__init__(partitions)
        self._pass_time = pass_time
        self.while_waiting: Callable[[], None] = lambda: None
        self.away = False
        self.withdrawn = 0
        """How many of the last partitions the queue no longer has; their records remain."""
        self.never_granted: set[int] = set()
        self.begun = 0
        self.questions: list[str] = []

    def partitions(self) -> int:
        return super().partitions() - self.withdrawn

    def positions(self) -> Mapping[int, PartitionBounds]:
        found = super().positions()
        return {number: bounds._replace(granted=number not in self.never_granted) for number, bounds in found.items()}

    def before(self) -> None:
        if self.away:
            raise QueueUnreachable("away")

    def answered(self, number: int, query: int, answer: Answer) -> Answer:
        self.questions.append(f"{number}: {answer[0]}")
        assert len(self.questions) < _TOO_OFTEN, "it is asked the same for ever"
        return answer

    def next_query(self) -> int:
        self.begun += 1
        return super().next_query()

    def wait(self, partitions: Sequence[int], timeout: float) -> set[int]:
        self.happen()
        return super().wait(partitions, timeout)

    def happen(self) -> None:
        """Called once, during a wait."""
        happens, self.while_waiting = self.while_waiting, lambda: None
        happens()

    def pass_time(self, seconds: float) -> None:
        self._pass_time(seconds)


class StreamScene:
    """A fleet of numbered executors and the queue `orders`. At first executor 1 owns its partition 0."""

    def __init__(self, partitions: int = 1, *, parcels: bool = False) -> None:
        """`parcels`: add a second queue, without entries or owner."""
        self.now = 0.0
        self.over = ""
        self.lapsed = False
        self.reports: tuple[RangeReport, ...] = ()
        """The tasks' reports."""
        self.looks, self.looking = 0, 0.0
        """How often the queues were searched for entries, and how long a search takes."""
        self.stopping = False
        self.released: frozenset[Release] = frozenset()
        self.partitions = {number: Partition() for number in range(partitions)}
        self.ranges = WatchedRanges(self.partitions, self._pass_time)
        self.executors = [1]
        self.ledger = WrittenLedger()
        made: dict[QueueName, LoggedRanges] = {ORDERS: self.ranges}
        self.parcels = QueueWithoutEntries() if parcels else None
        if self.parcels is not None:
            made[PARCELS] = self.parcels
        self.context = fleet_context(
            fleet_queues(made, sleep=self._sleep, patience=_PATIENCE),
            self.ledger,
            self._registered,
            released=self._told,
            reports=lambda stream: self.reports,
            over=lambda: self.over,
            lapsed=lambda: self.lapsed,
            stopping=lambda: self.stopping,
            clock=lambda: self.now,
            sleep=self._sleep,
        )
        self.finishing, self.counts = self.context.finishing, self.context.counts
        self.own({0: 1})

    def stream(self, *, max_rows: int = 100, max_bytes: int = MAX_BYTES, careful: bool = True, alone: bool = True) -> Stream:
        options = StreamOptions(max_rows=max_rows, max_bytes=max_bytes, fail_on_data_loss=careful)
        return Stream("pickers-1", RunningQuery("query", alone), "place", options, self.context)

    def own(self, owned: Numbers, revoking: Numbers | None = None, number: int = 1) -> None:
        """Grant these partitions to the executor, in the ledger and at the queue, and no others."""
        one = entry(f"exec-{number}", owned, revoking)
        for partition, epoch in (*owned.items(), *(revoking or {}).items()):
            if partition in self.partitions:
                self.partitions[partition].grant(one.uid, epoch)
        self.ledger.write(one)

    def add(self, number: int = 0, count: int = 1) -> None:
        for _ in range(count):
            self.partitions[number].add()

    def take_away(self, last: int, number: int = 0) -> None:
        """Finish everything up to this entry, in the name of another program."""
        one = self.partitions[number]
        one.finish(one.query, last)

    def _registered(self) -> Mapping[MemberId, Executor]:
        self.looks += 1
        self.now += self.looking
        return {executor(number).pod: executor(number) for number in self.executors}

    def _told(self, released: frozenset[Release]) -> None:
        self.released = released

    def _sleep(self, seconds: float) -> None:
        self.ranges.happen()
        self._pass_time(seconds)

    def _pass_time(self, seconds: float) -> None:
        self.now += seconds


def at(**positions: int) -> str:
    """The text of an offset: `p0=3`."""
    return json.dumps({ORDERS: {name[1:]: position for name, position in positions.items()}})


def numbers(positions: Positions) -> dict[int, int]:
    """The positions in `orders`."""
    return {partition.number: position for partition, position in positions.items() if partition.queue == ORDERS}
