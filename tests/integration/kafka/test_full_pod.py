"""A pod of Kafka at maxDeliveredUnacked, whose program acknowledges nothing."""

import asyncio
import threading
from pathlib import Path

import pytest

from baton.consumer import AssignmentSource, Consumer, Entry
from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.queues.kafka.consumer_side import KafkaConsumerSide
from baton.queues.protocol import QueueUnreachable
from tests.integration.kafka.conftest import MakeQueue
from tests.waiting import PATIENCE, until

A = Uid("pod")


async def test_it_says_once_what_holds_it_and_goes_on_when_that_is_acknowledged(
    make: MakeQueue, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    queue = make(1, unacknowledged=3)
    queue.send("a", "b", "c", "d")
    await queue.operator.grant(0, A, Epoch(1))
    owned = {QueueName("orders"): {0: Epoch(1)}}
    (tmp_path / "pod").write_text(MemberEntry("shop/orders", MemberId("pod"), A, 1, True, owned, {}).to_json())
    side = KafkaConsumerSide(f"kafka://{queue.broker.servers}?group={queue.group}", "shop/orders", A)
    consumer = Consumer(side.reader, AssignmentSource(tmp_path, MemberId("pod"), A), A, transactions=True)
    kept: list[Entry] = []
    running = threading.Thread(target=lambda: consumer.run(kept.append, manual_ack=True), daemon=True)
    running.start()

    def told() -> list[str]:
        return [line for line in caplog.messages if "hands out no more to this pod" in line]

    try:
        (line,) = await asyncio.to_thread(until, told, "the log says it")
        assert "3 entries are not acknowledged, the oldest orders/0 entry 0, which its program has had for" in line
        kept[0].ack()
        await asyncio.to_thread(until, lambda: len(kept) == 4, "there is room for the next")
        assert len(told()) == 1
    finally:
        for entry in kept:
            entry.ack()
        consumer.stop()
        await asyncio.to_thread(running.join, PATIENCE)


# -- Partitions that cannot be read for a while: their owners go on by themselves when that is over.


async def test_an_owner_goes_on_where_the_log_is_as_long_as_its_place_again(
    make: MakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("baton.queues.kafka.fetcher._REPEAT_AFTER", 0.5)
    queue = make(1)
    queue.send(*map(str, range(10)))

    await asyncio.to_thread(queue.commit_plainly, 15)
    reader = await queue.granted("a", 1)
    found: list[bytes | None] = []

    def read() -> bool:
        """Whether the reader was told that the log was cut off."""
        try:
            found.extend(entry.value for entry in reader.read(0, Epoch(1)))
        except QueueUnreachable as problem:
            return "the log was cut off before it" in str(problem)
        return False

    for _ in range(2):
        await asyncio.to_thread(until, read, "it is told, and again")
    queue.send(*map(str, range(10, 20)))

    def goes_on() -> bool:
        read()
        return len(found) == 5

    await asyncio.to_thread(until, goes_on, "it is read")
    assert found == [b"15", b"16", b"17", b"18", b"19"]
