"""Finishing batches at their queues."""

import threading
from collections.abc import Iterator, Mapping, Sequence

import pytest

from baton.model.ids import Partition, QueueName
from baton.model.session import Release
from baton.queues.logged_ranges import FinishAnswer, Finished, LaterQuery, RangeToFinish
from baton.queues.protocol import QueueUnreachable
from baton.spark.finishing import PlannedBatch
from baton.spark.statistics import How, RangeReport
from tests.fleet_context import fleet_context, fleet_queues
from tests.ids import a_partition
from tests.simulation.spark.modelled_ranges import ModelledRanges
from tests.unit.spark.builders import entry, grant
from tests.waiting import PATIENCE, until
from tests.written_ledger import WrittenLedger

ORDERS, PARCELS = QueueName("orders"), QueueName("parcels")
ZERO, ONE, OTHER = a_partition("orders", 0), a_partition("orders", 1), a_partition("parcels", 0)
GRANTS = {ZERO: grant("exec-1", 0), ONE: grant("exec-1", 1), OTHER: grant("exec-1", 0, queue="parcels")}


class Queue(ModelledRanges):
    """A fake queue that gives these answers in turn, and then that everything is finished."""

    def __init__(self, *answers: FinishAnswer | Exception) -> None:
        super().__init__({})
        self._answers = list(answers)
        self.away = False
        self.was_asked = threading.Event()
        self.finished: list[tuple[int, int]] = []
        """Partitions and ends."""

    def finish(self, query: int, ranges: Sequence[RangeToFinish]) -> list[FinishAnswer]:
        self.was_asked.set()
        if self.away:
            raise QueueUnreachable("away")
        found: list[FinishAnswer] = []
        for _ in ranges:
            answer = self._answers.pop(0) if self._answers else Finished()
            if isinstance(answer, Exception):
                raise answer
            found.append(answer)
        self.finished += [(one.partition, one.end) for one in ranges]
        return found


class Scene:
    """Two queues. Executor 1 owns two partitions of the first, which the ledger revokes, and one of the other."""

    def __init__(self, *answers: FinishAnswer | Exception) -> None:
        """`answers`: of the first queue."""
        self.released: frozenset[Release] = frozenset()
        self.orders, self.parcels = Queue(*answers), Queue()
        self.queues = fleet_queues({ORDERS: self.orders, PARCELS: self.parcels})
        self.reported: list[RangeReport] | None = []
        ledger = WrittenLedger()
        context = fleet_context(self.queues, ledger, dict, released=self._told, reports=self._reports)
        self.grants_in_use, self.finishing, self.counts = context.grants_in_use, context.finishing, context.counts
        self.grants_in_use.take(lambda _: GRANTS.values())
        ledger.write(entry("exec-1", revoking={0: 1, 1: 1}))

    def submit(self, ends: Mapping[Partition, int]) -> None:
        grants = frozenset(GRANTS[partition] for partition in ends)
        self.finishing.submit(PlannedBatch("pickers-1", {ORDERS: 1, PARCELS: 1}, ends, grants, "7"))

    def released_partitions(self) -> set[int]:
        return {one.partition for one in self.released}

    def _told(self, released: frozenset[Release]) -> None:
        self.released = released

    def _reports(self, stream: str) -> list[RangeReport]:
        if self.reported is None:
            raise ConnectionError("the JVM is gone")
        return self.reported


@pytest.fixture
def scene() -> Iterator[Scene]:
    """A thread finishes batches at each queue."""
    made = Scene()
    made.finishing.start()
    yield made
    made.finishing.close(5)
    made.queues.close()


def test_an_unreachable_queue_does_not_block_another(scene: Scene) -> None:
    scene.parcels.away = True
    scene.submit({ZERO: 3, OTHER: 4})
    until(lambda: scene.finishing.settled({ORDERS}), "the queue that is there is done with")
    assert scene.orders.finished == [(0, 3)]
    assert scene.grants_in_use.taken() == {GRANTS[ONE], GRANTS[OTHER]}, "its part of the batch is put back"
    assert not scene.finishing.settled()
    assert not scene.finishing.settled({PARCELS})
    scene.parcels.away = False
    until(scene.finishing.settled, "the other one answers again")
    assert scene.parcels.finished == [(0, 4)]


def test_rows_are_counted_when_a_batch_is_done(scene: Scene) -> None:
    scene.reported = [RangeReport(ZERO, 3, How.OWNER, 30, 300), RangeReport(OTHER, 4, How.LENT, 40, 400)]
    scene.submit({ZERO: 3, OTHER: 4})
    found = scene.counts.statistics()
    assert (found.batches, found.ranges_planned, found.ranges_read_on_owner, found.ranges_lent) == (1, 2, 1, 1)
    assert (found.rows, found.bytes) == (70, 700)


def test_a_batch_without_reports_is_finished(scene: Scene) -> None:
    scene.reported = None
    scene.submit({ZERO: 3, OTHER: 4})
    until(scene.finishing.settled, "it is finished")
    assert (scene.orders.finished, scene.parcels.finished) == ([(0, 3)], [(0, 4)])


# -- one step at a time: what becomes of a batch that is done, whatever its queue answers


def test_a_finished_partition_is_released() -> None:
    scene = Scene()
    scene.submit({ZERO: 5})
    assert not scene.finishing.settled()
    assert scene.finishing.finish_next(ORDERS)
    assert scene.orders.finished == [(0, 5)]
    assert scene.released_partitions() == {0}
    assert scene.finishing.settled()


def test_a_rejected_finish_is_counted_and_released() -> None:
    scene = Scene(Finished(), LaterQuery(7))
    scene.submit({ZERO: 5, ONE: 5})
    scene.finishing.finish_next(ORDERS)
    found = scene.counts.statistics()
    assert (found.ranges_finished, found.finishes_refused) == (1, 1)
    assert scene.released_partitions() == {0, 1}


def test_a_batch_that_cannot_be_finished_does_not_block_the_next() -> None:
    scene = Scene(ValueError("an odd reply"))
    scene.submit({ZERO: 5})
    scene.submit({ONE: 5})
    assert scene.finishing.finish_next(ORDERS)
    assert scene.finishing.finish_next(ORDERS)
    assert scene.orders.finished == [(1, 5)]
    assert scene.released_partitions() == {0, 1}
    assert scene.finishing.settled()


def test_an_unreachable_queue_is_asked_again_while_the_fleet_ends() -> None:
    scene = Scene(QueueUnreachable("away"))
    scene.submit({ZERO: 5})
    scene.finishing.start()
    scene.finishing.close(PATIENCE)
    assert scene.orders.finished == [(0, 5)]
    assert scene.finishing.settled()


@pytest.mark.timeout(60)
def test_an_ending_fleet_waits_for_a_queue_only_within_its_limit() -> None:
    scene = Scene()
    scene.orders.away = True
    scene.submit({ZERO: 5})
    scene.finishing.start()
    assert scene.orders.was_asked.wait(PATIENCE)
    scene.finishing.close(0.0)
    assert scene.orders.finished == []
    assert scene.finishing.settled(), "the next query finishes it"
