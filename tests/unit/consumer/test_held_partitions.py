"""What becomes of holdings when the ledger says something else."""

import logging
from unittest.mock import Mock

import pytest

from baton.consumer.partition import HeldPartition, HeldPartitions, Phase
from baton.consumer.queue_requests import QueueRequests
from baton.model.ids import Epoch, Uid
from baton.queues.consumer_side import SURE_FOR
from baton.queues.fence import StaleOwner
from baton.queues.protocol import Owner
from tests.in_memory_queue import InMemoryLedger, InMemoryQueue


class Held:
    """Partition 0 at epoch 1: an entry of it was handled, and another one is in hand."""

    def __init__(self, queue: InMemoryQueue) -> None:
        self.queue, self.ledger, self.work = queue, InMemoryLedger({0: 1}), QueueRequests()
        self.partitions = HeldPartitions(lambda name: queue, self.ledger, Mock(), lambda: None)
        self.follow()
        (self.holding,) = self.partitions
        self.work.read(self.holding, self.partitions.reader(self.holding), 2)
        self.holding.handled.append("0")

    def follow(self) -> list[HeldPartition]:
        return self.partitions.follow_ledger(lambda holding, reader: self.work.settle(holding, reader))


class Taken(InMemoryQueue):
    """Another has the partition by now."""

    def ack(self, partition: int, epoch: Epoch, offsets: object, *, soon: bool = False) -> None:
        raise StaleOwner(partition, "a", epoch, Owner(Uid("b"), Epoch(2)))


def test_what_was_handled_of_a_partition_that_the_ledger_names_no_more_counts_where_the_queue_says_so() -> None:
    """A forged ledger, or one that is put right, takes nothing back that was done under this epoch."""
    held = Held(InMemoryQueue(2))
    held.ledger.says({})
    assert held.follow() == [held.holding]
    assert held.queue.acknowledged == ["0"]
    assert (held.holding.phase, held.holding.in_hand) == (Phase.FENCED, 0)


@pytest.mark.parametrize("queue", [Taken(2), InMemoryQueue(2)], ids=["taken", "away"])
def test_a_partition_that_the_ledger_names_no_more_is_dropped_whatever_the_queue_says(queue: InMemoryQueue) -> None:
    held = Held(queue)
    queue.away = True
    held.ledger.says({})
    assert held.follow() == [held.holding]
    assert held.queue.acknowledged == []
    assert (held.holding.phase, held.holding.handled, held.holding.in_hand) == (Phase.FENCED, [], 0)


@pytest.mark.parametrize("queue", [InMemoryQueue(2), Taken(2)], ids=["ours", "taken"])
def test_the_end_of_an_outage_is_logged_once_with_its_length(queue: InMemoryQueue, caplog: pytest.LogCaptureFixture) -> None:
    held = Held(queue)
    reader = held.partitions.reader(held.holding)
    queue.away = True
    held.work.verify(held.holding, reader)
    queue.away = False
    with caplog.at_level(logging.INFO):
        held.work.settle(held.holding, reader)
        held.work.verify(held.holding, reader)
    assert [line for line in caplog.messages if "answers again" in line] == ["queue orders answers again, after 0 s"]


@pytest.mark.parametrize("other_process", [True, False])
def test_a_second_process_of_the_pod_is_warned_of_also_where_nothing_is_in_hand(
    other_process: bool, caplog: pytest.LogCaptureFixture
) -> None:
    class Refusing(InMemoryQueue):
        def verify(self, partition: int, epoch: Epoch) -> None:
            raise StaleOwner(partition, "a", epoch, Owner(Uid("a"), epoch), other_process=other_process)

    queue, work = Refusing(0), QueueRequests()
    partitions = HeldPartitions(lambda name: queue, InMemoryLedger({0: 1}), Mock(), lambda: None)
    partitions.follow_ledger(lambda holding, reader: work.settle(holding, reader))
    (holding,) = partitions
    with caplog.at_level(logging.WARNING):
        work.verify(holding, partitions.reader(holding))
    assert ("newer process with the same POD_UID" in caplog.text) == other_process


def test_what_came_with_an_answer_to_an_old_question_is_not_begun_before_another() -> None:
    """As where the process was stopped between the answer of the queue and its look at it."""

    class AskedLongAgo(Taken):
        def sure_at(self, partition: int) -> float:
            return super().sure_at(partition) - 2 * SURE_FOR

        def verify(self, partition: int, epoch: Epoch) -> None:
            self.ack(partition, epoch, ())

    held = Held(AskedLongAgo(2))
    (sequence,) = held.holding.sequences.values()
    assert not held.work.may_begin(sequence, held.partitions.reader(held.holding))
    assert held.holding.over
