"""Held partitions after a change of the ledger."""

import logging
from collections.abc import Sequence
from unittest.mock import Mock

import pytest

from baton.consumer.partition import HeldPartition, HeldPartitions, Phase
from baton.consumer.queue_requests import QueueRequests
from baton.model.ids import Epoch, Uid
from baton.queues.consumer_side import SURE_FOR
from baton.queues.fence import StaleOwner
from baton.queues.protocol import Ownership
from tests.unit.consumer.readers import GoesAway, offsets, queue_of


class Held:
    """Holds partition 0 at epoch 1, with one finished entry and one in hand."""

    def __init__(self, reader: type[GoesAway] = GoesAway) -> None:
        self.queue, self.reader = queue_of(reader)
        for _ in range(2):
            self.queue.send("k", "v")
        self.work = QueueRequests()
        self.partitions = HeldPartitions(lambda name: self.reader, self.queue._ledger, Mock(), lambda: None)
        self.follow()
        (self.holding,) = self.partitions
        self.work.read(self.holding, self.partitions.reader(self.holding), 2)
        self.holding.handled.append("0")

    def names_nothing(self) -> None:
        """Change the ledger without the queue."""
        self.queue._ledger.owned = frozenset()
        self.queue._ledger._say()

    def follow(self) -> list[HeldPartition]:
        return self.partitions.follow_ledger(lambda holding, reader: self.work.settle(holding, reader))


class Taken(GoesAway):
    """Another pod owns the partition."""

    def ack(self, partition: int, epoch: Epoch, offsets: Sequence[str], *, soon: bool = False) -> None:
        raise StaleOwner(partition, "a", epoch, Ownership(Uid("b"), Epoch(2)))


def test_what_was_handled_of_a_partition_that_the_ledger_names_no_more_counts_where_the_queue_says_so() -> None:
    """A forged ledger, or a corrected one, does not undo work under this epoch."""
    held = Held()
    held.names_nothing()
    assert held.follow() == [held.holding]
    assert offsets(held.queue) == ["0"]
    assert (held.holding.phase, held.holding.in_hand) == (Phase.FENCED, 0)


@pytest.mark.parametrize("reader", [Taken, GoesAway])
def test_a_partition_that_the_ledger_names_no_more_is_dropped_whatever_the_queue_says(reader: type[GoesAway]) -> None:
    held = Held(reader)
    held.reader.away = True
    held.names_nothing()
    assert held.follow() == [held.holding]
    assert held.queue.acked == []
    assert (held.holding.phase, held.holding.handled, held.holding.in_hand) == (Phase.FENCED, [], 0)


@pytest.mark.parametrize("kind", [GoesAway, Taken])
def test_the_end_of_an_outage_is_logged_once_with_its_length(kind: type[GoesAway], caplog: pytest.LogCaptureFixture) -> None:
    held = Held(kind)
    reader = held.reader
    reader.away = True
    held.work.verify(held.holding, reader)
    reader.away = False
    with caplog.at_level(logging.INFO):
        held.work.settle(held.holding, reader)
        held.work.verify(held.holding, reader)
    assert [line for line in caplog.messages if "answers again" in line] == ["queue orders answers again, after 0 s"]


@pytest.mark.parametrize("other_process", [True, False])
def test_a_second_process_of_the_pod_is_warned_of_also_where_nothing_is_in_hand(
    other_process: bool, caplog: pytest.LogCaptureFixture
) -> None:
    class Refusing(GoesAway):
        def verify(self, partition: int, epoch: Epoch) -> None:
            raise StaleOwner(partition, "a", epoch, Ownership(Uid("a"), epoch), other_process=other_process)

    held = Held(Refusing)
    held.holding.handled.clear()
    held.holding.sequences.clear()
    with caplog.at_level(logging.WARNING):
        held.work.verify(held.holding, held.reader)
    assert ("newer process with the same POD_UID" in caplog.text) == other_process


def test_what_came_with_an_answer_to_an_old_question_is_not_begun_before_another() -> None:
    """As if the process was stopped between receiving an answer of the queue and reading it."""

    class AskedLongAgo(Taken):
        def sure_at(self, partition: int) -> float:
            return super().sure_at(partition) - 2 * SURE_FOR

        def verify(self, partition: int, epoch: Epoch) -> None:
            self.ack(partition, epoch, ())

    held = Held(AskedLongAgo)
    (sequence,) = held.holding.sequences.values()
    assert not held.work.may_begin(sequence, held.partitions.reader(held.holding))
    assert held.holding.over
