import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.assignors import Request, lower_bound
from baton.assignors.solace import least_moves
from baton.model import MemberId, Partition, QueueName
from tests.ids import a_partition, by_member, by_queue, reading
from tests.unit.assignors.worlds import best_score, holders, owners_before, requests, subscriptions


def owned(queue: str = "orders", **owners: range | list[int]) -> dict[Partition, MemberId]:
    return {a_partition(queue, number): MemberId(name) for name, numbers in owners.items() for number in numbers}


def everybody(names: str, *queues: str) -> dict[MemberId, frozenset[QueueName]]:
    return {MemberId(name): reading(*queues or ("orders",)) for name in names}


@given(requests(most_in_all=6), st.data())
def test_it_is_what_trying_every_assignment_finds(request_: Request, data: st.DataObject) -> None:
    gone = data.draw(st.sets(st.sampled_from(sorted(request_.members)), max_size=len(request_.members) - 1))
    there = {name: read for name, read in subscriptions(request_).items() if name not in gone}
    before = owners_before(request_)
    trying = best_score(request_.queues, there, {partition: {name} for partition, name in before.items()})
    assert lower_bound(request_.queues, there, before) == trying[2]


@pytest.mark.parametrize(
    ("members", "before", "moves"),
    [
        pytest.param("ab", owned(), 0, id="a first grant is no move"),
        pytest.param("ab", owned(a=range(3), b=range(3, 6)), 0, id="balanced already"),
        pytest.param("ab", owned(a=range(6)), 3, id="one gives half to a newcomer"),
        pytest.param("ab", owned(a=range(2), b=range(2, 4), c=range(4, 6)), 2, id="what a member had that left must move"),
        pytest.param("abcd", owned(a=range(2), b=range(2, 4), c=range(4, 6)), 1, id="a fourth member gets the one it must have"),
        pytest.param("ab", owned(a=range(4)), 1, id="partitions that nobody had fill up first"),
        pytest.param("ab", owned(a=[0, 1, 2, 9]), 0, id="a partition that was deleted costs nothing"),
        pytest.param("", owned(a=range(6)), 0, id="no member is left"),
    ],
)
def test_six_partitions(members: str, before: dict[Partition, MemberId], moves: int) -> None:
    assert lower_bound(by_queue({"orders": 6}), everybody(members), before) == moves


def test_a_member_that_no_longer_reads_a_queue_must_give_it_up() -> None:
    members = by_member({"a": reading("payments"), "b": reading("orders", "payments")})
    before = owned(a=[0, 1]) | owned("payments", b=[0, 1])
    assert lower_bound(by_queue({"orders": 2, "payments": 2}), members, before) == 4


def test_a_partition_that_nobody_reads_any_more_is_no_move() -> None:
    assert lower_bound(by_queue({"orders": 2}), by_member({"a": reading()}), owned(a=[0, 1])) == 0


def test_even_totals_are_not_enough_where_a_queue_is_uneven() -> None:
    before = owned(a=range(2)) | owned("payments", b=range(2))
    assert lower_bound(by_queue({"orders": 2, "payments": 2}), everybody("ab", "orders", "payments"), before) == 2


def test_a_thousand_members_and_ten_thousand_partitions_are_counted_exactly() -> None:
    members = {MemberId(f"m{place}"): reading("orders") for place in range(1000)}
    before = {a_partition("orders", number): MemberId(f"m{number % 999}") for number in range(10_000)}
    assert lower_bound(by_queue({"orders": 10_000}), members, before) == 10


@given(requests(most_in_all=6, contested=True))
def test_a_partition_with_several_holders_is_at_home_with_each(request_: Request) -> None:
    members = subscriptions(request_)
    trying = best_score(request_.queues, members, holders(request_))
    assert least_moves(request_.queues, members, holders(request_)) == trying[2]
