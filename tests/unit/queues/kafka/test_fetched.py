"""Fetched messages of a partition, and the memory they take."""

from collections.abc import Callable

import pytest
from confluent_kafka import Message

from baton.queues.kafka.fetcher import AllAhead, FetchedAhead, FetchedPartition, poll_count, should_rest, should_resume
from baton.queues.kafka.messages import Size, size_of

# -- Prefetched messages are bounded, for each partition and in total.

NOTHING, SMALL = FetchedAhead(0, 0), FetchedAhead(1_999, 20_000)
MUCH, LARGE = FetchedAhead(2_000, 20_000), FetchedAhead(10, 32_000_000)
SHARE = FetchedAhead(8, 8_000_000)
"""One of eight partitions' share."""


def of_all(*those: FetchedAhead) -> AllAhead:
    return AllAhead(len(those), sum(one.messages for one in those), sum(one.size for one in those))


@pytest.mark.parametrize(
    ("one", "others", "expected"),
    [
        (NOTHING, [LARGE] * 9, False),
        (MUCH, [], False),
        (MUCH, [MUCH] * 18, False),
        (MUCH, [MUCH] * 19, True),
        (SMALL, [MUCH] * 30, False),
        (LARGE, [], True),
        (LARGE._replace(size=31_999_999), [], False),
        (SHARE, [SHARE] * 7, True),
        (SHARE, [SHARE] * 6 + [NOTHING], False),
        (SHARE._replace(size=7_999_999), [LARGE] * 7, False),
    ],
)
def test_a_partition_with_enough_fetched_rests(one: FetchedAhead, others: list[FetchedAhead], expected: bool) -> None:
    together = of_all(one, *others)
    assert should_rest(one, together) is expected
    assert together.any_may_rest or not expected


@pytest.mark.parametrize(
    ("one", "others", "expected"),
    [
        (NOTHING, [LARGE] * 9, True),
        (FetchedAhead(999, 9_990), [MUCH] * 30, True),
        (FetchedAhead(1_000, 10_000), [], False),
        (FetchedAhead(5, 15_999_999), [], True),
        (FetchedAhead(5, 16_000_000), [], False),
        (FetchedAhead(5, 15_999_999), [NOTHING] * 7, True),
        (FetchedAhead(5, 3_999_999), [SHARE] * 7, True),
        (FetchedAhead(5, 4_000_000), [SHARE] * 7, False),
    ],
)
def test_a_resting_partition_resumes_when_little_is_left(one: FetchedAhead, others: list[FetchedAhead], expected: bool) -> None:
    assert should_resume(one, of_all(one, *others)) is expected


@pytest.mark.parametrize("partitions", [1, 2, 3, 10, 100])
def test_memory_of_all_partitions_is_bounded(partitions: int) -> None:
    """Each poll brings a megabyte of each partition that does not rest, and nothing is taken."""
    ahead = [NOTHING] * partitions
    resting: set[int] = set()
    while len(resting) < partitions:
        for number in set(range(partitions)) - resting:
            ahead[number] = FetchedAhead(ahead[number].messages + 1, ahead[number].size + 1_000_000)
        resting |= {number for number in set(range(partitions)) - resting if should_rest(ahead[number], of_all(*ahead))}
    assert sum(one.size for one in ahead) <= 64_000_000 + partitions * 1_000_000


@pytest.mark.parametrize("partitions", [16, 1_000, 5_000])
def test_each_of_many_partitions_rests_at_its_share(partitions: int) -> None:
    """Each poll brings as much as it may of one partition, and nothing is taken."""
    together = AllAhead(partitions)
    for _ in range(partitions):
        one = NOTHING
        while not should_rest(one, together):
            count = poll_count(together)
            one = FetchedAhead(one.messages + count, one.size + count * 310)
            together.messages, together.size = together.messages + count, together.size + count * 310
    assert together.size <= 66_000_000 + partitions * 100_000
    half = FetchedAhead(0, 64_000_000 // partitions // 2)
    assert should_resume(half._replace(size=half.size - 1), together) and not should_resume(half, together)


def test_a_poll_takes_at_most_a_partitions_share() -> None:
    assert poll_count(AllAhead(10, 40_000, 63_999_999)) == 5_000
    assert poll_count(AllAhead(10, 64_000, 64_000_000)) == 5_000
    assert poll_count(AllAhead(10, 6_400, 64_000_000)) == 640
    assert poll_count(AllAhead(5_000, 200_000, 64_000_000)) == 312
    assert poll_count(AllAhead(10, 2, 640_000_000)) == 1


HEADERS: list[tuple[str, str | bytes | None]] = [("name", b"12345"), ("alone", None), ("name", b"")]


def message(offset: int, value: bytes | None = b"v", key: bytes | None = None) -> Message:
    return Message(topic="orders", partition=0, offset=offset, value=value, key=key)


def with_headers(offset: int) -> Message:
    return Message(topic="orders", partition=0, offset=offset, value=b"v", key=b"key", headers=HEADERS)


@pytest.mark.parametrize(
    ("those", "size"),
    [
        ([], Size(0, 0)),
        ([message(0, b"value", b"key"), message(1)], Size(9, 609)),
        ([message(0, None, b"key"), message(1, None)], Size(3, 603)),
        ([message(0), with_headers(1)], Size(23, 23 + 600 + 3 * 170)),
    ],
)
def test_a_message_has_the_size_of_all_that_comes_with_it(those: list[Message], size: Size) -> None:
    assert size_of(those) == size


@pytest.mark.parametrize(
    "leaves",
    [lambda one: one.take(100, 10**9, 10**9), lambda one: one.skip_to(50), FetchedPartition.leave],
    ids=["take", "skip", "leave"],
)
def test_memory_is_counted_until_messages_leave(leaves: Callable[[FetchedPartition], object]) -> None:
    of_all = AllAhead()
    one = FetchedPartition(0, of_all)
    one.add([message(0), with_headers(1), *(message(offset, None) for offset in range(2, 50))])
    assert (of_all.messages, of_all.size) == (50, 23 + 50 * 300 + 3 * 170)
    leaves(one)
    assert (of_all.messages, of_all.size) == (0, 0)


def test_taking_is_bounded_by_payload_bytes() -> None:
    of_all = AllAhead()
    one = FetchedPartition(0, of_all)
    one.add([message(offset, b"0123456789", b"key") for offset in range(10)])
    assert [each.offset() for each in one.take(100, 40, 10**9)] == [0, 1, 2]
    assert [each.offset() for each in one.take(100, 1, 10**9)] == [3]
    assert [each.offset() for each in one.take(100, 1000, 6)] == [4, 5]
    assert of_all == AllAhead(1, 4, 4 * 313)
