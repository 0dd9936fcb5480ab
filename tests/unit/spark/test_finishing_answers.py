"""What becomes of a batch that is done, whatever its queue answers."""

import threading
from collections.abc import Mapping, Sequence

import pytest

from baton.model.ids import Partition, QueueName
from baton.model.session import Release
from baton.queues.logged_ranges import FinishAnswer, Finished, LaterQuery, RangeToFinish
from baton.queues.protocol import QueueUnreachable
from baton.spark.finishing import Finishing, PlannedBatch
from baton.spark.ledger import GrantsInUse
from baton.spark.queues import FleetQueues
from baton.spark.statistics import Counts
from tests.ids import a_partition
from tests.simulation.spark import partition as model
from tests.simulation.spark.modelled_ranges import ModelledRanges
from tests.unit.spark.builders import entry, grant
from tests.written_ledger import WrittenLedger

ORDERS = QueueName("orders")
WITHIN = 30.0


class Answering(ModelledRanges):
    """It answers in turn what it was told to, and then that everything is finished."""

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


class Scene:
    """Executor 1 owns two partitions; the ledger wants them back."""

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


def test_what_is_finished_is_let_go() -> None:
    scene = Scene()
    scene.submit({ZERO: 5})
    assert not scene.finishing.settled()
    assert scene.finishing.finish_next(ORDERS)
    assert [(one.partition, one.end) for one in scene.ranges.asked] == [(0, 5)]
    assert {one.partition for one in scene.released} == {0}
    assert scene.finishing.settled()


def test_what_the_queue_refuses_to_finish_is_counted_and_let_go() -> None:
    scene = Scene(Finished(), LaterQuery(7))
    scene.submit({ZERO: 5, ONE: 5})
    scene.finishing.finish_next(ORDERS)
    found = scene.counts.statistics()
    assert (found.ranges_finished, found.finishes_refused) == (1, 1)
    assert {one.partition for one in scene.released} == {0, 1}


def test_a_batch_that_cannot_be_finished_does_not_hold_up_the_next() -> None:
    scene = Scene(ValueError("of no use to anybody"))
    scene.submit({ZERO: 5})
    scene.submit({ONE: 5})
    assert scene.finishing.finish_next(ORDERS)
    assert scene.finishing.finish_next(ORDERS)
    assert [one.partition for one in scene.ranges.asked] == [1]
    assert {one.partition for one in scene.released} == {0, 1}
    assert scene.finishing.settled()


def test_a_queue_that_is_away_is_asked_again_also_while_the_fleet_ends() -> None:
    scene = Scene(QueueUnreachable("away"))
    scene.submit({ZERO: 5})
    scene.finishing.start()
    scene.finishing.close(WITHIN)
    assert [one.partition for one in scene.ranges.asked] == [0]
    assert scene.finishing.settled()


@pytest.mark.timeout(60)
def test_a_fleet_that_ends_waits_no_longer_than_it_is_told_to_for_a_queue() -> None:
    scene = Scene(*[QueueUnreachable("away")] * 10_000)
    scene.submit({ZERO: 5})
    scene.finishing.start()
    assert scene.ranges.was_asked.wait(WITHIN)
    scene.finishing.close(0.0)
    assert scene.ranges.asked == []
    assert scene.finishing.settled(), "the next query finishes it"
