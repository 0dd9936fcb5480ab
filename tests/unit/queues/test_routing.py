"""Keys go to slots, and slots to partitions in even runs."""

from collections import Counter
from itertools import pairwise

import pytest
from aiokafka import partitioner
from hypothesis import given
from hypothesis import strategies as st

from baton.queues.redis.routing import SLOTS, RoutingTable, murmur2, slot_of


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_are_hashed_as_kafka_hashes_them(key: bytes, hashed: int) -> None:
    """The values are from Kafka's tests (`UtilsTest.testMurmur2`)."""
    assert murmur2(key) == hashed % 2**32
    assert slot_of(key) == (hashed & 0x7FFFFFFF) % SLOTS


@given(st.binary(max_size=40))
def test_any_key_is_hashed_as_aiokafka_hashes_it(key: bytes) -> None:
    assert murmur2(key) == partitioner.murmur2(key)


@pytest.mark.parametrize("pattern", ["customer-{}", "{}", "order-{:06}", "user{}@example.org", "{:04}-eu"])
def test_sequential_keys_leave_no_more_partitions_empty_than_chance(pattern: str) -> None:
    empty, by_chance, variance = 0, 0.0, 0.0
    for partitions in range(2, 65):
        table = RoutingTable.even(1, partitions)
        for keys in (10, 30, 100, 300):
            empty += partitions - len({table.partition_of(pattern.format(number).encode()) for number in range(keys)})
            one, two = (1 - 1 / partitions) ** keys, (1 - 2 / partitions) ** keys
            by_chance += partitions * one
            variance += partitions * one * (1 - one) + partitions * (partitions - 1) * (two - one * one)
    assert empty < 1.1 * by_chance + 5 * variance**0.5


@given(st.integers(1, SLOTS))
def test_an_even_layout_gives_every_partition_one_run_of_its_share(count: int) -> None:
    table = RoutingTable.even(1, count)
    lengths = Counter(table.partitions)
    assert set(lengths) == set(range(count))
    assert max(lengths.values()) - min(lengths.values()) <= 1
    assert all(after - before in (0, 1) for before, after in pairwise(table.partitions))


@given(st.integers(1, SLOTS), st.integers(1, 9))
def test_a_table_reads_back_from_its_text(count: int, version: int) -> None:
    table = RoutingTable.even(version, count)
    assert RoutingTable.from_text(version, table.to_text()) == table


def test_a_table_that_does_not_cover_all_slots_is_refused() -> None:
    with pytest.raises(ValueError, match="1024 slots, found 3"):
        RoutingTable.from_text(1, "0x1,1x2")


@given(st.lists(st.integers(1, 200), min_size=1, max_size=6))
def test_resizing_is_even_with_the_fewest_moves(counts: list[int]) -> None:
    table = RoutingTable.even(1, 12)
    for count in counts:
        before, table = table, table.resized(count)
        lengths = Counter(table.partitions)
        assert set(lengths) == set(range(count)) and max(lengths.values()) - min(lengths.values()) <= 1
        assert table.version == before.version + 1
        moved = [pair for pair in zip(before.partitions, table.partitions, strict=True) if pair[0] != pair[1]]
        there = len(set(before.partitions))
        assert all(source >= count if count < there else target >= there for source, target in moved)


def test_an_added_partition_takes_its_share_of_each_other() -> None:
    before = RoutingTable.even(1, 12)
    after = before.resized(13)
    moved = [pair for pair in zip(before.partitions, after.partitions, strict=True) if pair[0] != pair[1]]
    assert len(moved) == SLOTS // 13
    assert {target for _, target in moved} == {12}
    assert {source for source, _ in moved} == set(range(12))


@pytest.mark.parametrize("count", [0, SLOTS + 1])
def test_an_invalid_partition_count_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match="a queue has 1 to 1024 partitions"):
        RoutingTable.even(1, 12).resized(count)
    with pytest.raises(ValueError, match="a queue has 1 to 1024 partitions"):
        RoutingTable.even(1, count)
