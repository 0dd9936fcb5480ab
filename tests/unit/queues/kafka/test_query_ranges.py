"""A query over a very large topic begins in as many calls as it takes, and a topic that has grown answers."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from baton.model.ids import Epoch, Uid
from baton.queues.kafka import ranges as module
from baton.queues.kafka.ranges import QueryRanges
from baton.queues.kafka.record import Committed, Record, Token
from baton.queues.kafka.topic import Topic
from baton.queues.protocol import QueueUnreachable

PARTITIONS = range(5)
OWNED = Record(group="uid", queue="orders", uid=Uid("a"), epoch=Epoch(1), topic_id="t", token=Token(1, 1), first=9)


class Records:
    """A topic's records, in place of its transactions: each call times out after two partitions."""

    client, topic = SimpleNamespace(address=SimpleNamespace(place="kafka:9092")), "orders"

    def __init__(self) -> None:
        self.found = dict.fromkeys(PARTITIONS, Committed(0, OWNED))
        self.left = 0

    async def all_stable(self, _: tuple[int, ...]) -> dict[int, Committed]:
        self.left = 2
        return self.found.copy()

    async def renewed(self, number: int, change: Callable[[Committed], Record | None]) -> Committed:
        if not self.left:
            raise QueueUnreachable("Kafka did not answer within 30 s")
        self.left -= 1
        self.found[number] = Committed(0, change(self.found[number]))
        return self.found[number]

    def query(self, number: int) -> int:
        record = self.found[number].record
        assert record is not None
        return record.query


@pytest.fixture(autouse=True)
def topic(monkeypatch: pytest.MonkeyPatch) -> None:
    async def described(*_: object) -> Topic:
        return Topic("orders", "t", dict.fromkeys(PARTITIONS, 1))

    async def ends(*_: object) -> dict[int, int]:
        return dict.fromkeys(PARTITIONS, 0)

    monkeypatch.setattr(module, "describe", described)
    monkeypatch.setattr(module, "offsets", ends)


def ranges(records: Any) -> QueryRanges:
    return QueryRanges(records, "orders")


async def test_a_query_resumes_an_unfinished_beginning() -> None:
    records = Records()
    query = ranges(records)
    for _ in range(2):
        with pytest.raises(QueueUnreachable):
            await query.begin()
    number = await query.begin()
    assert {records.query(partition) for partition in PARTITIONS} == {number}


async def test_a_concurrent_query_is_followed_by_a_higher_number() -> None:
    records = Records()
    query = ranges(records)
    with pytest.raises(QueueUnreachable):
        await query.begin()
    other = max(map(records.query, PARTITIONS)) + 10**9
    records.found[4] = Committed(0, replace(OWNED, query=other))
    with pytest.raises(QueueUnreachable):
        await query.begin()
    assert records.query(0) == other + 1


async def test_each_query_has_a_different_number() -> None:
    records = Records()
    query = ranges(records)
    numbers = set()
    for _ in range(9):
        with suppress(QueueUnreachable):
            numbers.add(await query.begin())
    assert len(numbers) == 3
    assert {records.query(partition) for partition in PARTITIONS} == {max(numbers)}


def without_leader(monkeypatch: pytest.MonkeyPatch, partition: int) -> None:
    async def ends(*_: object) -> dict[int, int]:
        return {number: 0 for number in PARTITIONS if number != partition}

    monkeypatch.setattr(module, "offsets", ends)


async def test_a_record_of_a_former_topic_tells_no_position() -> None:
    """The operator has not granted that partition of the recreated topic yet."""
    records = Records()
    records.found[1] = Committed(500, replace(OWNED, topic_id="former"))
    found = await ranges(records).positions()
    assert {number: (bounds.committed, bounds.granted) for number, bounds in found.items()} == {
        number: (0, number != 1) for number in PARTITIONS
    }


async def test_a_topic_answers_although_a_partition_was_never_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    records = Records()
    records.found[4] = Committed(-1, None)
    query = ranges(records)
    found = await query.positions()
    assert {number: bounds.granted for number, bounds in found.items()} == {0: True, 1: True, 2: True, 3: True, 4: False}
    without_leader(monkeypatch, 4)
    await query.check()
    with pytest.raises(QueueUnreachable, match="partition 4 of orders has no leader"):
        await query.positions()


async def test_a_topic_does_not_answer_while_a_partition_has_no_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    without_leader(monkeypatch, 3)
    with pytest.raises(QueueUnreachable, match="partition 3 of orders has no leader"):
        await ranges(Records()).check()
