"""A consumer of batches that has nothing to hand out waits, and does not go round."""

import threading
from collections.abc import Callable
from dataclasses import replace
from math import inf

from baton.consumer import Consumer
from baton.consumer.entry import Batch
from baton.model.ids import Epoch
from baton.queues.entry import Entry
from tests.in_memory_queue import InMemoryLedger, InMemoryQueue, consumer_of
from tests.waiting import PATIENCE, until


def running(consumer: Consumer, ledger: InMemoryLedger, handler: Callable[[Batch], None]) -> Callable[[], None]:
    """In a thread; the answer ends it."""
    thread = threading.Thread(target=consumer.run, args=(handler,), kwargs={"max_entries": 10}, daemon=True)
    thread.start()

    def end() -> None:
        ledger.says({})
        consumer.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()

    return end


def nothing_is_due(consumer: Consumer) -> bool:
    dispatcher = consumer._loop._turns.dispatcher
    return len(dispatcher.wants) == 1 and dispatcher.due == inf


def fail(batch: Batch) -> None:
    raise ValueError("no")


def test_after_a_dead_letter_it_waits_for_entries() -> None:
    queue, ledger = InMemoryQueue(1, redeliveries=1), InMemoryLedger({0: 1})
    consumer = consumer_of(queue, ledger)
    end = running(consumer, ledger, fail)
    until(lambda: queue.dead and nothing_is_due(consumer))
    end()


def test_while_the_queue_is_away_it_waits_for_the_queue() -> None:
    queue, ledger = InMemoryQueue(1), InMemoryLedger({0: 1})
    consumer = consumer_of(queue, ledger)
    tries: list[int] = []

    def handle(batch: Batch) -> None:
        tries.append(len(batch))
        if len(tries) == 1:
            queue.away = True
            fail(batch)

    end = running(consumer, ledger, handle)
    until(lambda: queue.refused >= 2 and nothing_is_due(consumer))
    queue.away = False
    until(lambda: queue.acknowledged == ["0"])
    end()


class Hollow(InMemoryQueue):
    """Its entries have neither key nor value."""

    def read(self, partition: int, epoch: Epoch, count: int = 100, *, most_bytes: int = 0, new: bool = True) -> list[Entry]:
        return [replace(entry, key=b"", value=b"") for entry in super().read(partition, epoch, count, new=new)]


def test_entries_of_no_bytes_are_handed_out() -> None:
    queue, ledger = Hollow(3), InMemoryLedger({0: 1})
    end = running(consumer_of(queue, ledger), ledger, lambda batch: None)
    until(lambda: queue.acknowledged == ["0", "1", "2"])
    queue.unread[0].append(("3", b""))
    until(lambda: queue.acknowledged[3:] == ["3"])
    end()
