"""A query over a very large topic begins, in as many questions as it takes."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from baton.queues.kafka.ranges import QueryRanges
from baton.queues.kafka.record import Committed
from baton.queues.protocol import QueueUnreachable
from tests.unit.queues.kafka.slow_coordinator import OWNED

PARTITIONS = range(5)


class Records:
    """Of a topic: each question comes to its time when two partitions have been taken."""

    topic_id = "t"

    def __init__(self) -> None:
        self.found = dict.fromkeys(PARTITIONS, Committed(0, OWNED))

    async def seen(self, _: Iterable[int]) -> dict[int, Committed]:
        return self.found.copy()

    async def taken(self, query: int, partitions: Iterable[int]) -> dict[int, Committed]:
        behind = [number for number in partitions if self.query(number) < query]
        for number in behind[:2]:
            self.found[number] = Committed(0, replace(OWNED, query=query))
        if len(behind) > 2:
            raise QueueUnreachable("Kafka did not answer within 30 s")
        return self.found.copy()

    def query(self, number: int) -> int:
        record = self.found[number].record
        assert record is not None
        return record.query


class Log:
    async def topic(self, *, fresh: bool = False) -> Any:
        return SimpleNamespace(topic_id="t", leaders=dict.fromkeys(PARTITIONS, 1))


def ranges(records: Records) -> QueryRanges:
    fakes: tuple[Any, Any] = Log(), records
    return QueryRanges(*fakes, "orders")


async def test_what_an_unfinished_beginning_has_taken_counts_for_the_next_one() -> None:
    records = Records()
    query = ranges(records)
    for _ in range(2):
        with pytest.raises(QueueUnreachable):
            await query.begin()
    number = await query.begin()
    assert {records.query(partition) for partition in PARTITIONS} == {number}


async def test_a_query_that_has_begun_meanwhile_is_followed_by_a_later_number() -> None:
    records = Records()
    query = ranges(records)
    with pytest.raises(QueueUnreachable):
        await query.begin()
    other = max(map(records.query, PARTITIONS)) + 10**9
    records.found[4] = Committed(0, replace(OWNED, query=other))
    with pytest.raises(QueueUnreachable):
        await query.begin()
    assert records.query(0) == other + 1


async def test_each_query_has_a_number_of_its_own() -> None:
    records = Records()
    query = ranges(records)
    numbers = set()
    for _ in range(9):
        with suppress(QueueUnreachable):
            numbers.add(await query.begin())
    assert len(numbers) == 3
    assert {records.query(partition) for partition in PARTITIONS} == {max(numbers)}
