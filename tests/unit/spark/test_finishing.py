"""Finishing batches at their queues."""

import threading
from collections.abc import Iterator, Mapping, Sequence

import pytest

from baton.model.ids import Partition, QueueName
from baton.model.session import Release
from baton.queues.logged_ranges import FinishAnswer, Finished, LaterQuery, RangeToFinish
from baton.queues.protocol import QueueUnreachable
from baton.spark.finishing import Finishing, PlannedBatch
from baton.spark.ledger import GrantsInUse
from baton.spark.queues import FleetQueues
from baton.spark.statistics import Counts, How, RangeReport
from tests.ids import a_partition
from tests.simulation.spark import partition as model
from tests.simulation.spark.modelled_ranges import ModelledRanges
from tests.unit.spark.builders import entry, grant
from tests.unit.spark.queue_without_entries import QueueWithoutEntries
from tests.waiting import until
from tests.written_ledger import WrittenLedger

ORDERS, PARCELS = QueueName("orders"), QueueName("parcels")
P, Q = a_partition("orders", 0), a_partition("parcels", 0)
MINE, OTHER = grant("exec-1", 0), grant("exec-1", 0, queue="parcels")
BATCH = PlannedBatch("group-1", {ORDERS: 1, PARCELS: 1}, {P: 3, Q: 4}, frozenset({MINE, OTHER}), "7")


class Scene:
    """Two queues, with a thread for each."""

    def __init__(self) -> None:
        self.made = {f"shop/{name}": QueueWithoutEntries() for name in (ORDERS, PARCELS)}
        self.orders, self.parcels = self.made.values()
        self.queues = FleetQueues({ORDERS: "", PARCELS: ""}, "shop", "group", lambda _, name, group: self.made[name])
        self.counts = Counts()
        self.grants_in_use = GrantsInUse(WrittenLedger(), lambda releases: None)
        self.grants_in_use.take(lambda _: BATCH.grants)
        self.reported: list[RangeReport] | None = []
        self.finishing = Finishing(self.queues, self.grants_in_use, self.counts, self.reports)
        self.finishing.start()

    def reports(self, stream: str) -> list[RangeReport]:
        if self.reported is None:
            raise ConnectionError("the JVM is gone")
        return self.reported


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.finishing.close(5)
    made.queues.close()


def test_an_unreachable_queue_does_not_block_another(scene: Scene) -> None:
    scene.parcels.away = True
    scene.finishing.submit(BATCH)
    until(lambda: scene.finishing.settled({ORDERS}), "the queue that is there is done with")
    assert scene.orders.finished == [3]
    assert scene.grants_in_use.taken() == {OTHER}, "its part of the batch is put back"
    assert not scene.finishing.settled()
    assert not scene.finishing.settled({PARCELS})
    scene.parcels.away = False
    until(scene.finishing.settled, "the other one answers again")
    assert scene.parcels.finished == [4]


def test_rows_are_counted_when_a_batch_is_done(scene: Scene) -> None:
    scene.reported = [RangeReport(P, 3, How.OWNER, 30, 300), RangeReport(Q, 4, How.LENT, 40, 400)]
    scene.finishing.submit(BATCH)
    found = scene.counts.statistics()
    assert (found.batches, found.ranges_planned, found.ranges_read_on_owner, found.ranges_lent) == (1, 2, 1, 1)
    assert (found.rows, found.bytes) == (70, 700)


def test_a_batch_without_reports_is_finished(scene: Scene) -> None:
    scene.reported = None
    scene.finishing.submit(BATCH)
    until(scene.finishing.settled, "it is finished")
    assert (scene.orders.finished, scene.parcels.finished) == ([3], [4])


# -- What becomes of a batch that is done, whatever its queue answers.


WITHIN = 30.0


class Answering(ModelledRanges):
    """A fake queue that gives these answers in turn, and then that everything is finished."""

    def __init__(self, *answers: FinishAnswer | Exception) -> None:
        super().__init__({0: model.Partition(), 1: model.Partition()})
        self._answers = list(answers)
        self.asked: list[RangeToFinish] = []
        self.was_asked = threading.Event()

    def finish(self, query: int, ranges: Sequence[RangeToFinish]) -> list[FinishAnswer]:
        self.was_asked.set()
        found: list[FinishAnswer] = []
        for _ in ranges:
            answer = self._answers.pop(0) if self._answers else Finished()
            if isinstance(answer, Exception):
                raise answer
            found.append(answer)
        self.asked += ranges
        return found


class AnswersScene:
    """Executor 1 owns two partitions, which the ledger revokes."""

    def __init__(self, *answers: FinishAnswer | Exception) -> None:
        self.released: frozenset[Release] = frozenset()
        self.ranges, self.counts = Answering(*answers), Counts()
        ledger = WrittenLedger()
        ledger.write(entry("exec-1", {0: 1, 1: 1}))
        self.grants_in_use = GrantsInUse(ledger, self._told)
        queues = FleetQueues({ORDERS: ""}, "shop", "group", lambda url, name, group: self.ranges)
        self.finishing = Finishing(queues, self.grants_in_use, self.counts, lambda stream: ())
        self.grants_in_use.take(lambda ownership: [grant("exec-1", 0), grant("exec-1", 1)])
        ledger.write(entry("exec-1", revoking={0: 1, 1: 1}))

    def submit(self, ends: Mapping[Partition, int]) -> None:
        grants = frozenset(grant("exec-1", partition.number) for partition in ends)
        self.finishing.submit(PlannedBatch("pickers-1", {ORDERS: 1}, ends, grants))

    def _told(self, released: frozenset[Release]) -> None:
        self.released = released


ZERO, ONE = a_partition("orders", 0), a_partition("orders", 1)


def test_a_finished_partition_is_released() -> None:
    scene = AnswersScene()
    scene.submit({ZERO: 5})
    assert not scene.finishing.settled()
    assert scene.finishing.finish_next(ORDERS)
    assert [(one.partition, one.end) for one in scene.ranges.asked] == [(0, 5)]
    assert {one.partition for one in scene.released} == {0}
    assert scene.finishing.settled()


def test_a_rejected_finish_is_counted_and_released() -> None:
    scene = AnswersScene(Finished(), LaterQuery(7))
    scene.submit({ZERO: 5, ONE: 5})
    scene.finishing.finish_next(ORDERS)
    found = scene.counts.statistics()
    assert (found.ranges_finished, found.finishes_refused) == (1, 1)
    assert {one.partition for one in scene.released} == {0, 1}


def test_a_batch_that_cannot_be_finished_does_not_block_the_next() -> None:
    scene = AnswersScene(ValueError("an odd reply"))
    scene.submit({ZERO: 5})
    scene.submit({ONE: 5})
    assert scene.finishing.finish_next(ORDERS)
    assert scene.finishing.finish_next(ORDERS)
    assert [one.partition for one in scene.ranges.asked] == [1]
    assert {one.partition for one in scene.released} == {0, 1}
    assert scene.finishing.settled()


def test_an_unreachable_queue_is_asked_again_while_the_fleet_ends() -> None:
    scene = AnswersScene(QueueUnreachable("away"))
    scene.submit({ZERO: 5})
    scene.finishing.start()
    scene.finishing.close(WITHIN)
    assert [one.partition for one in scene.ranges.asked] == [0]
    assert scene.finishing.settled()


@pytest.mark.timeout(60)
def test_an_ending_fleet_waits_for_a_queue_only_within_its_limit() -> None:
    scene = AnswersScene(*[QueueUnreachable("away")] * 10_000)
    scene.submit({ZERO: 5})
    scene.finishing.start()
    assert scene.ranges.was_asked.wait(WITHIN)
    scene.finishing.close(0.0)
    assert scene.ranges.asked == []
    assert scene.finishing.settled(), "the next query finishes it"
