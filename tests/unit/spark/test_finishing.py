"""Batches that are done are finished at their queues."""

from collections.abc import Iterator

import pytest

from baton.model.ids import QueueName
from baton.spark.finishing import Finishing, PlannedBatch
from baton.spark.ledger import GrantsInUse
from baton.spark.queues import FleetQueues
from baton.spark.statistics import Counts, How, RangeReport
from tests.ids import a_partition
from tests.unit.spark.builders import grant
from tests.unit.spark.queue_without_entries import QueueWithoutEntries
from tests.waiting import until
from tests.written_ledger import WrittenLedger

ORDERS, PARCELS = QueueName("orders"), QueueName("parcels")
P, Q = a_partition("orders", 0), a_partition("parcels", 0)
MINE, OTHER = grant("exec-1", 0), grant("exec-1", 0, queue="parcels")
BATCH = PlannedBatch("group-1", {ORDERS: 1, PARCELS: 1}, {P: 3, Q: 4}, frozenset({MINE, OTHER}), "7")


class Scene:
    """Two queues, and the thread of each."""

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


def test_a_queue_that_is_away_does_not_hold_up_another(scene: Scene) -> None:
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


def test_what_was_read_is_counted_when_it_is_done(scene: Scene) -> None:
    scene.reported = [RangeReport(P, 3, How.OWNER, 30, 300), RangeReport(Q, 4, How.LENT, 40, 400)]
    scene.finishing.submit(BATCH)
    found = scene.counts.statistics()
    assert (found.batches, found.ranges_planned, found.ranges_read_on_owner, found.ranges_lent) == (1, 2, 1, 1)
    assert (found.rows, found.bytes) == (70, 700)


def test_a_batch_of_which_reports_are_lost_is_finished_all_the_same(scene: Scene) -> None:
    scene.reported = None
    scene.finishing.submit(BATCH)
    until(scene.finishing.settled, "it is finished")
    assert (scene.orders.finished, scene.parcels.finished) == ([3], [4])
