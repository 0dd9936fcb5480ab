"""In-memory queues for tests."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from baton.consumer import Consumer, Session
from baton.model.ids import Epoch
from baton.queues.protocol import QueueUnreachable
from baton.testing import POD, InMemoryReader, TestQueue

R = TypeVar("R", bound=InMemoryReader)


def queue_of(reader: type[R], partitions: int = 1, **options: Any) -> tuple[TestQueue, R]:
    """Return a queue for tests, and its reader."""
    queue = TestQueue(partitions, reader=reader, **options)
    assert isinstance(queue._queue, reader)
    return queue, queue._queue


def filled(count: int, **options: Any) -> TestQueue:
    """Return a queue with `count` equal entries in its only partition."""
    queue = TestQueue(**options)
    for _ in range(count):
        queue.send("k", "v")
    return queue


def handled(
    handler: Callable[..., object], *values: str | bytes, queue: TestQueue | None = None, deserializer: Any = None, **options: Any
) -> TestQueue:
    """Return a queue, or this one, after the entries in it and these values of one key were handled."""
    with queue or TestQueue() as made:
        for value in values:
            made.send("k", value)
        consumer = made._consumer or made.consumer(value_deserializer=deserializer)
        made.start(handler, consumer=consumer, **options)
        made.settled()
    return made


def consumer_of(queue: TestQueue, *, session: Session | None = None, transactions: bool = False) -> Consumer:
    """Return a consumer as `queue.consumer` does, with a session or transactions."""
    queue._consumer = Consumer(lambda name: queue._queue, queue._ledger, POD, session, transactions=transactions, signals=False)
    return queue._consumer


class GoesAway(InMemoryReader):
    away = False
    refused = 0
    """Number of requests rejected while `away`."""

    @contextmanager
    def _asked(self, partition: int, epoch: Epoch) -> Iterator[None]:
        if self.away:
            self.refused += 1
            raise QueueUnreachable("it is away")
        with super()._asked(partition, epoch):
            yield


def offsets(queue: TestQueue) -> list[str]:
    """Return the offsets of acknowledged entries."""
    return [entry.offset for entry in queue.acked]


def dead(queue: TestQueue) -> dict[str, str]:
    """Return the reasons of dead letters by offset."""
    return {letter.entry.offset: letter.why for letter in queue.dead_letters}
