"""What a worker is handed: a slice of all that there is, and nothing of what somebody else has."""

from baton.consumer.delivery import Delivery, Want
from baton.consumer.outcome import ACK
from tests.in_memory_queue import InMemoryLedger, InMemoryQueue, consumer_of

EACH = 20


def test_one_worker_gets_what_there_is_of_several_partitions_at_once() -> None:
    queue = InMemoryQueue(EACH)
    queue.unread[1] = [(str(number), b"k") for number in range(EACH)]
    consumer = consumer_of(queue, InMemoryLedger({0: 1, 1: 1}))
    handed: list[list[tuple[int, int]]] = []
    with consumer:
        consumer._loop.serve(1)
        while sum(map(len, handed)) < 2 * EACH:
            delivery = consumer._loop.take(Want())
            assert isinstance(delivery, Delivery)
            handed.append([(entry.partition, int(entry.offset)) for entry in delivery.entries])
            consumer._loop.give_back(delivery, [(delivery.entries, ACK)], 1e-3, EACH)
    assert len(handed[0]) == 1, "how fast the handler is nobody knows yet"
    assert any({partition for partition, _ in those} == {0, 1} for those in handed)
    every = [one for those in handed for one in those]
    assert [[number for partition, number in every if partition == which] for which in (0, 1)] == [list(range(EACH))] * 2
