"""Kafka's assignors."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given

from baton.assignors import Answer, Member, Request, get
from baton.model import MemberId, Partition, QueueName
from tests.ids import Zones, a_partition, a_request, reading
from tests.unit.assignors.worlds import holders, loads, moves, owners_before, requests

RANGE = get("range")
READ = reading("orders", "payments")


def numbers_of(answer: Answer, queue: str) -> dict[str, list[int]]:
    return {name: [p.number for p in hand if p.queue == queue] for name, hand in answer.assignment.items()}


def test_partitions_with_equal_numbers_meet_the_same_member() -> None:
    answer = RANGE(a_request({"orders": 6, "payments": 6}, {name: Member(READ) for name in "abc"}))
    assert numbers_of(answer, "orders") == numbers_of(answer, "payments") == {"a": [0, 1], "b": [2, 3], "c": [4, 5]}


def test_the_rests_of_every_queue_pile_up_on_the_first() -> None:
    answer = RANGE(a_request({"orders": 10, "payments": 5}, {name: Member(READ) for name in "abc"}))
    assert sorted(len(hand) for hand in answer.assignment.values()) == [4, 5, 6]


def test_range_has_static_members_before_dynamic_ones() -> None:
    members = {"a": Member(READ), "z": Member(READ, instance="1"), "y": Member(READ, instance="2")}
    assert numbers_of(RANGE(a_request({"orders": 3}, members)), "orders") == {"z": [0], "y": [1], "a": [2]}


NEAR = (frozenset({"east"}), frozenset({"west"}), frozenset({"east"}), frozenset({"west"}))


def zoned(zones: Zones = NEAR, **members: str | None) -> Request:
    return a_request({"orders": 4}, {name: Member(READ, zone=zone) for name, zone in members.items()}, {"orders": zones})


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        pytest.param(zoned(a="west", b="east"), {"a": [1, 3], "b": [0, 2]}, id="each gets what is near"),
        pytest.param(zoned(a="west", b="north"), {"a": [1, 3], "b": [0, 2]}, id="who is near nothing gets the rest"),
        pytest.param(zoned(a=None, b="west"), {"a": [0, 1], "b": [2, 3]}, id="a member without a zone is near everything"),
        pytest.param(zoned(a="west", b="west"), {"a": [1, 3], "b": [0, 2]}, id="no member gets more than its share"),
        pytest.param(zoned(a="north", b="south"), {"a": [0, 1], "b": [2, 3]}, id="zones without members are ignored"),
        pytest.param(
            zoned((frozenset({"east", "west"}),) * 4, a="west", b="east"), {"a": [0, 1], "b": [2, 3]}, id="replicas everywhere"
        ),
    ],
)
def test_zones(request_: Request, expected: dict[str, list[int]]) -> None:
    assert numbers_of(RANGE(request_), "orders") == expected


def test_zones_keep_equal_numbers_of_queues_together() -> None:
    members = {"a": Member(READ, zone="west"), "b": Member(READ, zone="east")}
    opposite = tuple(reversed(NEAR))
    answer = RANGE(a_request({"orders": 4, "payments": 4}, members, {"orders": NEAR, "payments": opposite}))
    assert numbers_of(answer, "orders") == numbers_of(answer, "payments") == {"a": [0, 1], "b": [2, 3]}


ROUND_ROBIN = get("round-robin")


def test_all_partitions_of_all_queues_are_dealt_in_one_round() -> None:
    read = reading("orders", "payments")
    answer = ROUND_ROBIN(a_request({"orders": 10, "payments": 5}, {name: Member(read) for name in "abc"}))
    assert set(loads(answer).values()) == {5}


@given(requests(most_partitions=30, most_members=9))
def test_members_that_read_everything_are_within_one(request_: Request) -> None:
    everything = frozenset(request_.queues)
    answer = ROUND_ROBIN(Request(request_.queues, {name: Member(everything) for name in request_.members}))
    counts = [loads(answer)[name] for name in request_.members]
    assert max(counts) - min(counts) <= 1


def test_members_that_do_not_read_a_queue_are_skipped() -> None:
    members = {"a": Member(reading("orders")), "b": Member(reading("payments")), "c": Member(reading("orders"))}
    assert loads(ROUND_ROBIN(a_request({"orders": 4, "payments": 1}, members))) == {"a": 2, "b": 1, "c": 2}


def test_round_robin_has_static_members_before_dynamic_ones() -> None:
    read = reading("orders")
    members = {"a": Member(read), "z": Member(read, instance="1"), "y": Member(read, instance="2")}
    answer = ROUND_ROBIN(a_request({"orders": 3}, members))
    assert {name: hand[0].number for name, hand in answer.assignment.items()} == {"z": 0, "y": 1, "a": 2}


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
def test_sticky_is_even_with_the_fewest_moves(request_: Request) -> None:
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
def test_a_partition_held_by_others_is_withheld(request_: Request) -> None:
    answer = cooperative(request_)
    held = holders(request_)
    assert all(held.get(partition, {name}) == {name} for name, hand in answer.assignment.items() for partition in hand)
    assert all(held[partition] - {name} for name, hand in answer.withheld.items() for partition in hand)
    assert answer.owners() == sticky(request_).owners()


@given(requests())
def test_a_second_round_gives_only_withheld_partitions(request_: Request) -> None:
    """Where all read the same: with different subscriptions what was withheld is dealt out again, perhaps to another member."""
    read = frozenset(request_.queues)
    first = cooperative(Request(request_.queues, {name: Member(read, m.owned, 1) for name, m in request_.members.items()}))
    released = {name: Member(read, first.assignment[name], generation=2) for name in request_.members}
    second = cooperative(Request(request_.queues, released))
    assert not second.withheld
    assert all(set(first.assignment[name]) <= set(hand) for name, hand in second.assignment.items())


@pytest.mark.parametrize("read_too", [frozenset(), reading("payments")], ids=["equal", "different subscriptions"])
class TestClaims:
    def test_a_newer_generation_wins(self, read_too: frozenset[QueueName]) -> None:
        newer = member(0, generation=2, read=ORDERS | read_too)
        answer = cooperative(a_request({"orders": 2, "payments": 0}, {"a": member(0), "b": newer}))
        assert numbers(answer.assignment) == {"a": [1], "b": [0]}

    def test_equal_claims_cancel_and_both_must_release(self, read_too: frozenset[QueueName]) -> None:
        third = member(read=ORDERS | read_too)
        answer = cooperative(a_request({"orders": 3, "payments": 0}, {"a": member(0, 1), "b": member(0, 2), "c": third}))
        assert numbers(answer.assignment) == {"a": [1], "b": [2], "c": []}
        assert numbers(answer.withheld) == {"c": [0]}

    def test_a_newer_claim_stands_whatever_the_older_ones_do_to_each_other(self, read_too: frozenset[QueueName]) -> None:
        request = a_request(
            {"orders": 2, "payments": 0}, {"a": member(0), "b": member(0), "c": member(0, generation=2, read=ORDERS | read_too)}
        )
        assert numbers(cooperative(request).assignment)["c"] == [0]

    def test_a_claim_on_what_no_longer_exists_is_dropped(self, read_too: frozenset[QueueName]) -> None:
        request = a_request({"orders": 1, "payments": 0}, {"a": member(0, 5), "b": member(read=ORDERS | read_too)})
        assert numbers(sticky(request).assignment) == {"a": [0], "b": []}


def test_a_partition_its_holder_no_longer_reads_is_withheld() -> None:
    request = a_request({"orders": 1, "payments": 1}, {"a": member(0, read=reading("payments")), "b": member()})
    assert numbers(cooperative(request).withheld) == {"b": [0]}


def test_a_member_that_reads_nothing_gets_nothing() -> None:
    request = a_request({"orders": 3}, {"a": member(read=frozenset()), "b": member(0)})
    assert numbers(sticky(request).assignment) == {"a": [], "b": [0, 1, 2]}


def test_with_zones_a_member_keeps_only_near_partitions() -> None:
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
