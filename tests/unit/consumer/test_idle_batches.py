"""A consumer of batches without entries to hand out waits without spinning."""

from math import inf

from baton.consumer import Consumer
from baton.consumer.entry import Batch
from baton.testing import TestQueue
from tests.unit.consumer.readers import GoesAway, offsets, queue_of
from tests.waiting import until


def nothing_is_due(consumer: Consumer) -> bool:
    dispatcher = consumer._loop._turns.dispatcher
    return len(dispatcher.wants) == 1 and dispatcher.due == inf


def fail(batch: Batch) -> None:
    raise ValueError("no")


def test_after_a_dead_letter_it_waits_for_entries() -> None:
    with TestQueue(max_redeliveries=1) as queue:
        consumer = queue.consumer()
        queue.start(fail, consumer=consumer, max_entries=10)
        queue.send("k", "v")
        queue.settled()
        until(lambda: nothing_is_due(consumer))


def test_while_the_queue_is_away_it_waits_for_the_queue() -> None:
    queue, reader = queue_of(GoesAway)
    consumer = queue.consumer()
    tries: list[int] = []

    def handle(batch: Batch) -> None:
        tries.append(len(batch))
        if len(tries) == 1:
            reader.away = True
            fail(batch)

    with queue:
        queue.start(handle, consumer=consumer, max_entries=10)
        queue.send("k", "v")
        until(lambda: reader.refused >= 2 and nothing_is_due(consumer))
        reader.away = False
        queue.settled()
        assert offsets(queue) == ["0"]


def test_entries_of_no_bytes_are_handed_out() -> None:
    with TestQueue() as queue:
        queue.start(lambda batch: None, max_entries=10)
        for _ in range(3):
            queue.send(None, b"")
        queue.settled()
        queue.send(None, b"")
        queue.settled()
        assert offsets(queue) == ["0", "1", "2", "3"]
