"""If a queue answers but rejects outcomes or messages of one partition, the other partitions go on."""

import time
from typing import Any

import pytest

from baton.consumer import Reject
from baton.consumer.entry import HeldEntry
from baton.consumer.outcome import DeadLetter, Nack
from baton.consumer.partition import HeldPartition
from baton.consumer.queue_requests import TOLD_AFTER, QueueRequests
from baton.model.ids import Epoch, Partition, QueueName
from baton.queues.output import FinishedTogether, Output
from baton.queues.protocol import QueueUnreachable
from tests.unit.consumer.readers import GoesAway, dead, queue_of
from tests.waiting import until

ORDERS = QueueName("orders")


class Refusing(GoesAway):
    """The topic for dead letters, or the permission to write to it, is missing."""

    refusing = True

    def retry(self, partition: int, epoch: Epoch, offset: str, why: str) -> bool:
        self._refuse(partition, epoch)
        return super().retry(partition, epoch, offset, why)

    def set_aside(self, partition: int, epoch: Epoch, offset: str, why: str) -> None:
        self._refuse(partition, epoch)
        super().set_aside(partition, epoch, offset, why)

    def _refuse(self, partition: int, epoch: Epoch) -> None:
        self.verify(partition, epoch)
        if self.refusing:
            raise QueueUnreachable("it cannot be a dead letter")


def refusing() -> Refusing:
    """Return a partition with an entry."""
    queue, reader = queue_of(Refusing)
    queue.send("k", "v")
    return reader


def held(partition: int) -> HeldPartition:
    nobody: Any = None
    return HeldPartition(Partition(ORDERS, partition), Epoch(1), nobody)


def failed(queue: Refusing, requests: QueueRequests, outcome: DeadLetter | Nack) -> HeldPartition:
    """A partition whose outcomes the queue rejects."""
    holding = held(0)
    assert requests.read(holding, queue, 1)
    (sequence,) = holding.ready(0.0)
    (entry,) = sequence.hand_out(1)
    sequence.settle([entry], outcome, 0.0)
    if isinstance(outcome, Nack):
        assert not requests.may_begin(sequence, queue)
    else:
        assert not requests.settle(holding, queue)
    return holding


@pytest.mark.parametrize("outcome", [DeadLetter("no"), Nack("no", 0.0)])
def test_only_their_partition_waits(outcome: DeadLetter | Nack, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, requests = refusing(), QueueRequests()
    begun = time.monotonic()
    holding, other = failed(queue, requests, outcome), held(1)
    assert (requests.away(ORDERS), requests.not_before(other)) == (False, 0.0)
    assert requests.not_before(holding) >= begun + 0.1
    assert not requests.trouble([holding, other]), "it may be over in a moment"
    monkeypatch.setattr("baton.consumer.queue_requests.TOLD_AFTER", -TOLD_AFTER)
    assert requests.trouble([holding, other]) == "it cannot be a dead letter"
    assert requests.trouble([other]) == ""


def test_so_does_that_of_which_outputs_cannot_be_sent() -> None:
    queue, requests = refusing(), QueueRequests()

    def ack(*arguments: Any, **options: Any) -> None:
        raise QueueUnreachable("it takes no output")

    queue.ack = ack  # type: ignore[method-assign]
    sending, other = held(0), held(1)
    sending.handled, sending.together = ["0"], [FinishedTogether(["0"], [Output.of("elsewhere", b"v", None, None, None)])]
    assert not requests.settle(sending, queue)
    assert (requests.away(ORDERS), requests.not_before(other)) == (False, 0.0)
    assert requests.not_before(sending) > 0.0 and sending.together, "and it is told again"


def test_where_the_queue_is_away_all_wait() -> None:
    queue, requests = refusing(), QueueRequests()
    read = queue.read

    def once(*arguments: Any, **options: Any) -> Any:
        found = read(*arguments, **options)
        queue.away = True
        return found

    queue.read = once  # type: ignore[method-assign]
    begun = time.monotonic()
    holding, other = failed(queue, requests, DeadLetter("no")), held(1)
    assert requests.away(ORDERS) and requests.not_before(other) >= begun + 0.1
    assert holding.outage is None


def test_the_others_are_worked_on_and_the_dead_letter_is_written_when_it_is_taken() -> None:
    def handle(entry: HeldEntry) -> None:
        if entry.partition == 0:
            raise Reject("no")

    queue, reader = queue_of(Refusing, 2)
    with queue:
        queue.start(handle)
        queue.send("k", "v", partition=0)
        others = [queue.send("k", "v", partition=1) for _ in range(2)]
        until(lambda: queue.acked == others)
        assert queue.dead_letters == []
        reader.refusing = False
        queue.settled()
        assert dead(queue) == {"0": "no"}
