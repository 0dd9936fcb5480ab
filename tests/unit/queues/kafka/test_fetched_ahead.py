"""What a pod has in memory that nobody has taken yet is bounded, of one partition and of all."""

import pytest

from baton.queues.kafka.fetched import AllAhead, FetchedAhead, at_once, goes_on, rests

NOTHING, SMALL = FetchedAhead(0, 0), FetchedAhead(1_999, 20_000)
MUCH, LARGE = FetchedAhead(2_000, 20_000), FetchedAhead(10, 32_000_000)
SHARE = FetchedAhead(8, 8_000_000)
"""Of eight partitions."""


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
def test_a_partition_of_which_there_is_enough_rests(one: FetchedAhead, others: list[FetchedAhead], expected: bool) -> None:
    together = of_all(one, *others)
    assert rests(one, together) is expected
    assert together.some_may_rest or not expected


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
def test_one_that_has_rested_goes_on_when_there_is_little(one: FetchedAhead, others: list[FetchedAhead], expected: bool) -> None:
    assert goes_on(one, of_all(one, *others)) is expected


@pytest.mark.parametrize("partitions", [1, 2, 3, 10, 100])
def test_whatever_comes_all_together_have_a_bound(partitions: int) -> None:
    """One poll brings a megabyte of each partition that does not rest, and nobody takes anything."""
    ahead = [NOTHING] * partitions
    resting: set[int] = set()
    while len(resting) < partitions:
        for number in set(range(partitions)) - resting:
            ahead[number] = FetchedAhead(ahead[number].messages + 1, ahead[number].size + 1_000_000)
        resting |= {number for number in set(range(partitions)) - resting if rests(ahead[number], of_all(*ahead))}
    assert sum(one.size for one in ahead) <= 64_000_000 + partitions * 1_000_000


@pytest.mark.parametrize("partitions", [16, 1_000, 5_000])
def test_of_many_partitions_with_small_messages_each_rests_with_its_share(partitions: int) -> None:
    """One poll brings what it may of one partition, and nobody takes anything."""
    together = AllAhead(partitions)
    for _ in range(partitions):
        one = NOTHING
        while not rests(one, together):
            count = at_once(together)
            one = FetchedAhead(one.messages + count, one.size + count * 310)
            together.messages, together.size = together.messages + count, together.size + count * 310
    assert together.size <= 66_000_000 + partitions * 100_000
    half = FetchedAhead(0, 64_000_000 // partitions // 2)
    assert goes_on(half._replace(size=half.size - 1), together) and not goes_on(half, together)


def test_a_poll_takes_a_partitions_share_where_there_is_enough() -> None:
    assert at_once(AllAhead(10, 40_000, 63_999_999)) == 5_000
    assert at_once(AllAhead(10, 64_000, 64_000_000)) == 5_000
    assert at_once(AllAhead(10, 6_400, 64_000_000)) == 640
    assert at_once(AllAhead(5_000, 200_000, 64_000_000)) == 312
    assert at_once(AllAhead(10, 2, 640_000_000)) == 1
