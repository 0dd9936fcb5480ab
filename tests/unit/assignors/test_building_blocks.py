"""What assignors are built of."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from baton.assignors.building_blocks import PartitionList, in_rounds
from baton.model import Partition
from tests.ids import a_partition

partitions = st.lists(st.builds(a_partition, st.sampled_from(["orders", "payments"]), st.integers(0, 9)))


@given(partitions)
def test_a_hand_reads_like_the_sorted_tuple_of_its_partitions(listed: list[Partition]) -> None:
    hand, expected = PartitionList.of(listed), tuple(sorted(set(listed)))
    assert hand == expected and tuple(hand) == expected and len(hand) == len(expected) and hash(hand) == hash(expected)
    assert all(isinstance(partition, Partition) for partition in hand)
    assert [hand[place] for place in range(len(hand))] == list(expected)


@given(partitions, st.slices(12))
def test_a_part_of_a_hand_is_what_the_tuple_has_there(listed: list[Partition], part: slice) -> None:
    assert tuple(PartitionList.of(listed)[part]) == tuple(PartitionList.of(listed))[part]


@given(partitions, st.sets(st.integers(0, 19)))
def test_those_at_some_places_are_a_hand_too(listed: list[Partition], places: set[int]) -> None:
    hand = PartitionList.of(listed)
    there = sorted(place for place in places if place < len(hand))
    assert hand.at(there) == tuple(hand[place] for place in there)


@given(partitions, partitions)
def test_hands_with_nothing_in_common_are_joined_in_order(some: list[Partition], others: list[Partition]) -> None:
    rest = PartitionList.of(set(others) - set(some))
    assert PartitionList.joined([PartitionList.of(some), rest]) == tuple(sorted({*some, *others}))


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 8)))
def test_dealing_in_rounds_is_passing_cards_one_by_one(wants: dict[str, int]) -> None:
    cards = list(range(sum(wants.values())))
    dealt: dict[str, list[int]] = {name: [] for name in wants}
    for name, share in in_rounds(wants):
        dealt[name] += cards[share]
    one_by_one: dict[str, list[int]] = {name: [] for name in wants}
    turn = deque(wants)
    for card in cards:
        name = turn.popleft()
        one_by_one[name].append(card)
        if len(one_by_one[name]) < wants[name]:
            turn.append(name)
    assert dealt == one_by_one
