"""Messages of a transaction are sent together with the acknowledgement of its entries, or not at all."""

import asyncio
import copy
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from baton.consumer import Consumer
from baton.consumer.entry import HeldEntry
from baton.model.ids import Epoch, QueueName
from baton.queues.entry import Entry
from baton.queues.output import EACH, MOST_IN_TRANSACTION, FinishedTogether, Output
from baton.testing import InMemoryReader, TestQueue
from tests.unit.consumer.readers import consumer_of, handled, offsets, queue_of
from tests.waiting import PATIENCE, until


class Transactional(InMemoryReader):
    """Sends the messages of transactions."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.sent: list[str] = []

    def ack(
        self,
        partition: int,
        epoch: Epoch,
        offsets: Sequence[str],
        *,
        soon: bool = False,
        together: Sequence[FinishedTogether] = (),
    ) -> None:
        super().ack(partition, epoch, offsets, soon=soon)
        self.sent += [(output.value or b"").decode() for _, outputs in together for output in outputs]


def with_entries(count: int, partitions: int = 1) -> tuple[TestQueue, list[str], Consumer]:
    """Return a queue with entries in each partition, the list of sent messages, and the consumer."""
    queue, reader = queue_of(Transactional, partitions)
    for partition in range(partitions):
        for _ in range(count):
            queue.send("k", "v", partition=partition)
    return queue, reader.sent, consumer_of(queue, transactions=True)


def test_messages_are_sent_with_their_entry_and_in_order() -> None:
    queue, sent, consumer = with_entries(3)

    def handle(entry: HeldEntry) -> None:
        with consumer.transaction(entry) as transaction:
            for word in ("one", "two"):
                transaction.send("out", f"{entry.offset} {word}")

    handled(handle, queue=queue)
    assert offsets(queue) == ["0", "1", "2"], "and not once more when the handler returns"
    assert sent == ["0 one", "0 two", "1 one", "1 two", "2 one", "2 two"]


def test_a_handler_that_raises_in_a_transaction_sends_nothing() -> None:
    queue, sent, consumer = with_entries(2)

    def handle(entry: HeldEntry) -> None:
        with consumer.transaction(entry) as transaction:
            transaction.send("out", f"{entry.offset} {entry.redelivered}")
            if entry.offset == "0" and not entry.redelivered:
                raise ValueError("not now")

    handled(handle, queue=queue)
    assert (offsets(queue), sent) == (["0", "1"], ["0 True", "1 False"])


def test_entries_of_a_batch_are_finished_together() -> None:
    queue, sent, consumer = with_entries(4)
    with consumer:
        batch = next(consumer.batches(max_entries=4, max_wait=0.2))
        with consumer.transaction(batch) as transaction:
            transaction.send("out", str(len(batch)))
        until(lambda: sent == ["4"])
        assert offsets(queue) == ["0", "1", "2", "3"]


def test_a_transaction_over_several_partitions_is_rejected_with_the_cure() -> None:
    _, sent, consumer = with_entries(1, partitions=2)
    with consumer:
        batch = next(consumer.batches(max_entries=2, max_wait=PATIENCE))
        with pytest.raises(ValueError, match=r"several partitions \(orders/0, orders/1\).*batch.by_partition"):
            consumer.transaction(batch)
        for entries in batch.by_partition().values():
            with consumer.transaction(entries) as transaction:
                transaction.send("out", "sent")
        until(lambda: sent == ["sent", "sent"])


def test_a_transaction_after_another_outcome_sends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    _, sent, consumer = with_entries(2)
    with consumer:
        batches = consumer.batches(max_entries=2, max_wait=0.2)
        batch = next(batches)
        assert batch[0].ack().wait(PATIENCE)
        with consumer.transaction(batch) as transaction:
            transaction.send("out", "too late")
        assert not batch[1].ack().wait(PATIENCE), "it is to come again"
        again = next(batches)
        assert [entry.offset for entry in again] == ["1"]
        assert again.ack().wait(PATIENCE)
    assert sent == [] and "orders/0 entry 0: its messages are not sent: another outcome" in caplog.text


def test_misuse_of_a_transaction_is_rejected() -> None:
    _, sent, consumer = with_entries(2)
    with consumer:
        batch = next(consumer.batches(max_entries=2, max_wait=0.2))
        first, second = batch
        transaction = consumer.transaction(first)
        with pytest.raises(RuntimeError, match="has not begun"):
            transaction.send("out", "v")
        with transaction:
            with pytest.raises(RuntimeError, match="another transaction is open here"), consumer.transaction(second):
                raise AssertionError
            transaction.send("out", "v")
        with pytest.raises(RuntimeError, match="is over"):
            transaction.send("out", "v")
        with pytest.raises(RuntimeError, match="one block"), transaction:
            raise AssertionError
        with pytest.raises(RuntimeError, match=r"orders/0 entry 0 is in another transaction"), consumer.transaction(batch):
            raise AssertionError
        with suppress(ValueError), consumer.transaction(second):
            raise ValueError
        with consumer.transaction(second) as later:
            later.send("out", "w")
        until(lambda: sent == ["v", "w"])


def test_each_asyncio_task_has_its_transaction() -> None:
    _, sent, consumer = with_entries(2)

    async def handle(entry: HeldEntry, both: asyncio.Barrier) -> None:
        with consumer.transaction(entry) as transaction:
            await both.wait()
            transaction.send("out", entry.offset)

    async def main() -> None:
        async with consumer:
            async for batch in consumer.batches(max_entries=2, max_wait=0.2):
                both = asyncio.Barrier(len(batch))
                await asyncio.gather(*(handle(entry, both) for entry in batch))
                await asyncio.to_thread(until, lambda: sorted(sent) == ["0", "1"])
                return

    asyncio.run(main())


def test_a_transaction_accepts_a_copy_of_an_entry() -> None:
    _, sent, consumer = with_entries(2)
    with consumer:
        entry = next(consumer.batches(max_entries=1, max_wait=0))[0]
        with consumer.transaction(copy.copy(entry)) as transaction:
            transaction.send("out", "v")
        until(lambda: sent == ["v"])


@pytest.mark.parametrize(
    "entries",
    [None, [], Entry(QueueName("orders"), 0, "0", b"k", b"v", 0, Epoch(1), False), "abc"],
    ids=["none", "empty", "a plain entry", "text"],
)
def test_a_transaction_rejects_anything_but_entries_of_its_consumer(entries: object) -> None:
    with pytest.raises((TypeError, ValueError), match="pass"):
        with_entries(2)[2].transaction(entries)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"topic": "", "value": b""}, "topic is ''"),
        ({"topic": None, "value": b""}, "topic is None"),
        ({"topic": "out", "value": {"n": 1}}, r"value is .*json.dumps"),
        ({"topic": "out", "value": None, "key": 3}, "key is 3"),
        ({"topic": "out", "value": None, "partition": True}, "partition is True"),
        ({"topic": "out", "value": None, "partition": -1}, "partition is -1"),
        ({"topic": "out", "value": None, "headers": {"n": 1}}, r"headers\['n'\] is 1"),
        ({"topic": "out", "value": None, "headers": {1: b""}}, "headers has the name 1"),
    ],
)
def test_messages_kafka_would_reject_are_rejected_by_send(arguments: dict[str, object], error: str) -> None:
    _, sent, consumer = with_entries(2)
    with consumer:
        entry = next(consumer.batches(max_entries=1, max_wait=0))[0]
        with pytest.raises((TypeError, ValueError), match=error), consumer.transaction(entry) as transaction:
            transaction.send(**arguments)  # type: ignore[arg-type]
    assert sent == []


def test_a_transaction_rejects_more_messages_than_fit() -> None:
    _, sent, consumer = with_entries(2)
    with consumer:
        entry = next(consumer.batches(max_entries=1, max_wait=0))[0]
        said = r"32 MB at most.* has sent 1 message: use fewer"
        values = [b"." * (MOST_IN_TRANSACTION - 2 * EACH), b"."]
        with pytest.raises(ValueError, match=said), consumer.transaction(entry) as transaction:
            deque(map(partial(transaction.send, "out"), values))
        with consumer.transaction(entry) as transaction:
            transaction.send("out", "less")
        until(lambda: sent == ["less"])


def test_outputs_encode_text_as_utf_8() -> None:
    assert Output.of("out", "ä", "ö", {"n": "ü"}, None) == Output("out", "ä".encode(), "ö".encode(), {"n": "ü".encode()})
    assert Output.of("out", None, None, None, 3) == Output("out", None, partition=3)
    assert Output.of("out", "v", None, {"alone": None}, None) == Output("out", b"v", headers={"alone": None})


def test_transactions_need_a_queue_on_kafka() -> None:
    consumer = TestQueue().consumer()
    with pytest.raises(RuntimeError, match="transactions need queues on Kafka"):
        consumer.transaction([])
