"""A consumer of batches that has nothing to hand out waits, and does not go round."""

import threading
from collections.abc import Callable
from math import inf

from baton.consumer import Consumer
from baton.consumer.batch import Batch
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
    dispatcher = consumer._loop._dispatcher
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
