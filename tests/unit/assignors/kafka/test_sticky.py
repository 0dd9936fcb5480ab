from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given

from baton.assignors import Member, Request, get
from baton.model import MemberId, Partition, QueueName
from tests.ids import a_partition, a_request, reading
from tests.unit.assignors.worlds import holders, loads, moves, owners_before, requests

sticky, cooperative = get("sticky"), get("cooperative-sticky")
ORDERS = reading("orders")


def member(*owned: int, generation: int = 1, read: frozenset[QueueName] = ORDERS) -> Member:
    return Member(read, tuple(a_partition("orders", number) for number in owned), generation)


def numbers(part: Mapping[MemberId, Sequence[Partition]]) -> dict[str, list[int]]:
    return {name: [partition.number for partition in hand] for name, hand in part.items()}


def readers_of_everything(request_: Request) -> Request:
    everything = frozenset(request_.queues)
    return Request(
        request_.queues, {name: Member(everything, m.owned, m.generation, zone=m.zone) for name, m in request_.members.items()}
    )


@given(requests(most_partitions=30, most_members=9))
def test_who_reads_everything_is_within_one_and_owners_keep_what_they_can(request_: Request) -> None:
    request_ = readers_of_everything(request_)
    answer = sticky(request_)
    counts = [loads(answer)[name] for name in request_.members]
    assert max(counts) - min(counts) <= 1
    assert moves(answer.owners(), holders(request_)) == _fewest_moves_to_even_totals(request_)


@given(requests(most_partitions=30, most_members=9))
def test_with_different_subscriptions_no_single_move_makes_it_more_even(request_: Request) -> None:
    answer = sticky(request_)
    counts = Counter(answer.owners().values())
    for partition, owner in answer.owners().items():
        for name, other in request_.members.items():
            assert partition.queue not in other.subscribed or counts[name] >= counts[owner] - 1


@given(requests(contested=True))
def test_what_its_receiver_does_not_hold_alone_is_withheld(request_: Request) -> None:
    answer = cooperative(request_)
    held = holders(request_)
    assert all(held.get(partition, {name}) == {name} for name, hand in answer.assignment.items() for partition in hand)
    assert all(held[partition] - {name} for name, hand in answer.withheld.items() for partition in hand)
    assert answer.owners() == sticky(request_).owners()


@given(requests())
def test_a_second_round_gives_what_was_withheld_and_moves_nothing_else(request_: Request) -> None:
    """Where all read the same: with different subscriptions what was withheld is dealt out again, perhaps to another member."""
    read = frozenset(request_.queues)
    first = cooperative(Request(request_.queues, {name: Member(read, m.owned, 1) for name, m in request_.members.items()}))
    let_go = {name: Member(read, first.assignment[name], generation=2) for name in request_.members}
    second = cooperative(Request(request_.queues, let_go))
    assert not second.withheld
    assert all(set(first.assignment[name]) <= set(hand) for name, hand in second.assignment.items())


@pytest.mark.parametrize("read_too", [frozenset(), reading("payments")], ids=["equal", "different subscriptions"])
class TestClaims:
    def test_a_newer_generation_wins(self, read_too: frozenset[QueueName]) -> None:
        newer = member(0, generation=2, read=ORDERS | read_too)
        answer = cooperative(a_request({"orders": 2, "payments": 0}, {"a": member(0), "b": newer}))
        assert numbers(answer.assignment) == {"a": [1], "b": [0]}

    def test_equal_claims_cancel_and_both_must_let_go(self, read_too: frozenset[QueueName]) -> None:
        third = member(read=ORDERS | read_too)
        answer = cooperative(a_request({"orders": 3, "payments": 0}, {"a": member(0, 1), "b": member(0, 2), "c": third}))
        assert numbers(answer.assignment) == {"a": [1], "b": [2], "c": []}
        assert numbers(answer.withheld) == {"c": [0]}

    def test_a_newer_claim_stands_whatever_the_older_ones_do_to_each_other(self, read_too: frozenset[QueueName]) -> None:
        request = a_request(
            {"orders": 2, "payments": 0},
            {"a": member(0), "b": member(0), "c": member(0, generation=2, read=ORDERS | read_too)},
        )
        assert numbers(cooperative(request).assignment)["c"] == [0]

    def test_a_claim_on_what_no_longer_exists_is_dropped(self, read_too: frozenset[QueueName]) -> None:
        request = a_request({"orders": 1, "payments": 0}, {"a": member(0, 5), "b": member(read=ORDERS | read_too)})
        assert numbers(sticky(request).assignment) == {"a": [0], "b": []}


def test_what_a_member_holds_and_no_longer_reads_must_first_be_let_go() -> None:
    request = a_request({"orders": 1, "payments": 1}, {"a": member(0, read=reading("payments")), "b": member()})
    assert numbers(cooperative(request).withheld) == {"b": [0]}


def test_a_member_that_reads_nothing_gets_nothing() -> None:
    request = a_request({"orders": 3}, {"a": member(read=frozenset()), "b": member(0)})
    assert numbers(sticky(request).assignment) == {"a": [], "b": [0, 1, 2]}


def test_where_zones_matter_a_member_keeps_only_what_is_near() -> None:
    near = {"a": Member(ORDERS, (a_partition("orders", 0),), 1, zone="east"), "b": Member(ORDERS, (), 1, zone="west")}
    request = a_request({"orders": 2}, near, {"orders": (frozenset({"west"}), frozenset({"east"}))})
    assert numbers(sticky(request).assignment) == {"a": [1], "b": [0]}


def _fewest_moves_to_even_totals(request_: Request) -> int:
    """Everybody keeps the floor of what it owns, and as many as may keep one more."""
    before = owners_before(request_)
    floor, greater = divmod(sum(request_.queues.values()), len(request_.members))
    owned = Counter(before.values())
    kept = sum(min(count, floor) for count in owned.values())
    return len(before) - kept - min(greater, sum(count > floor for count in owned.values()))
