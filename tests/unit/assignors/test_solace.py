"""Solace's rebalancing, and the least number of moves."""

from collections import Counter
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from baton.assignors import Answer, Member, Request, get, lower_bound, place_new
from baton.assignors.solace import least_moves
from baton.model import MemberId
from tests.ids import a_partition, a_request, by_queue, reading
from tests.unit.assignors.worlds import best_score, holders, loads, moves, owners_before, requests, score, subscriptions

solace = get("solace")


def group(queues: dict[str, int], **owned: dict[str, list[int]]) -> Request:
    """Members that read everything, in the order in which they joined."""
    return a_request(
        queues,
        {
            name: Member(reading(*queues), tuple(a_partition(q, n) for q, numbers in had.items() for n in numbers), rank=rank)
            for rank, (name, had) in enumerate(owned.items())
        },
    )


def numbers(answer: Answer, queue: str = "orders") -> dict[str, list[int]]:
    return {name: [p.number for p in hand if p.queue == queue] for name, hand in answer.assignment.items()}


@given(requests(most_in_all=6, contested=True) | requests(most_in_all=6))
def test_solace_is_as_even_as_possible_with_the_fewest_moves(request_: Request) -> None:
    before = holders(request_)
    owners = solace(request_).owners()
    assert score(owners, before) == best_score(request_.queues, subscriptions(request_), before)


@given(requests(most_partitions=40, most_members=9))
def test_no_ring_of_hand_offs_improves_solaces_answer(request_: Request) -> None:
    """A ring goes from queue to member (one more), from member to queue (one less), and through the totals of two members. None
    that gains is left (Bellman and Ford), so the answer is the best (Klein 1967)."""
    owners = solace(request_).owners()
    counts = Counter((name, partition.queue) for partition, name in owners.items())
    held = Counter((name, partition.queue) for partition, name in owners_before(request_).items())
    totals = Counter(owners.values())
    worth = 1000
    hops: list[tuple[str, str, int]] = []
    for name, member in request_.members.items():
        for queue in member.subscribed:
            count, had = counts[name, queue], held[name, queue]
            hops.append((f"queue {queue}", name, worth * (2 * count + 1) - (count < had)))
            if count:
                hops.append((name, f"queue {queue}", (count <= had) - worth * (2 * count - 1)))
        hops.append((name, "totals", worth**3 * (2 * totals[name] + 1)))
        if totals[name]:
            hops.append(("totals", name, -(worth**3) * (2 * totals[name] - 1)))
    distance = Counter[str]()
    for _ in range(len(request_.queues) + len(request_.members) + 1):
        for here, there, cost in hops:
            distance[there] = min(distance[there], distance[here] + cost)
    assert all(distance[here] + cost >= distance[there] for here, there, cost in hops)


@given(requests(most_partitions=40, most_members=9))
def test_moves_are_always_the_lower_bound(request_: Request) -> None:
    bound = lower_bound(request_.queues, subscriptions(request_), owners_before(request_))
    assert moves(solace(request_).owners(), holders(request_)) == bound


@given(requests(most_partitions=40, most_members=9))
def test_members_are_within_one_in_total_and_in_every_queue(request_: Request) -> None:
    everything = frozenset(request_.queues)
    request_ = Request(request_.queues, {name: Member(everything, m.owned, m.generation) for name, m in request_.members.items()})
    answer = solace(request_)
    assert _within_one(loads(answer)[name] for name in request_.members)
    for queue in everything:
        assert _within_one(map(len, numbers(answer, queue).values()))


@given(requests(most_partitions=40, most_members=9))
def test_asking_again_with_the_answer_changes_nothing(request_: Request) -> None:
    answer = solace(request_)
    settled = Request(
        request_.queues,
        {name: Member(m.subscribed, answer.assignment[name], rank=m.rank) for name, m in request_.members.items()},
    )
    assert solace(settled) == answer


def test_from_nothing_partitions_are_dealt_in_the_order_of_joining() -> None:
    assert numbers(solace(group({"orders": 7}, late={}, early={}))) == {"late": [0, 2, 4, 6], "early": [1, 3, 5]}


def test_a_fourth_member_costs_seven_partitions_one_hand_off() -> None:
    answer = solace(group({"orders": 7}, a={"orders": [0, 3, 6]}, b={"orders": [1, 4]}, c={"orders": [2, 5]}, d={}))
    assert numbers(answer) == {"a": [0, 3], "b": [1, 4], "c": [2, 5], "d": [6]}


def test_new_partitions_go_to_those_with_fewest() -> None:
    answer = solace(group({"orders": 6}, a={"orders": [0, 1]}, b={"orders": [2]}, c={"orders": [3]}))
    assert numbers(answer) == {"a": [0, 1], "b": [2, 4], "c": [3, 5]}


def test_a_queue_that_was_dropped_from_a_subscription_is_given_up() -> None:
    request = a_request(
        {"orders": 2, "payments": 2},
        {
            "a": Member(reading("payments"), (a_partition("orders", 0), a_partition("payments", 0))),
            "b": Member(reading("orders", "payments"), (a_partition("orders", 1), a_partition("payments", 1))),
        },
    )
    answer = solace(request)
    assert numbers(answer, "orders") == {"a": [], "b": [0, 1]}
    assert numbers(answer, "payments") == {"a": [0, 1], "b": []}


def test_a_claim_on_what_no_longer_exists_is_dropped() -> None:
    answer = solace(group({"orders": 2}, a={"orders": [0, 7], "gone": [1]}, b={}))
    assert numbers(answer) == {"a": [0], "b": [1]}


def test_a_contested_partition_goes_to_one_of_those_that_claim_it() -> None:
    answer = solace(group({"orders": 3}, a={"orders": [0, 1]}, b={"orders": [0, 2]}, c={"orders": [0]}))
    assert numbers(answer) == {"a": [1], "b": [2], "c": [0]}


def test_placing_new_partitions_moves_nothing() -> None:
    uneven = group({"orders": 6}, a={"orders": [0, 1, 2]}, b={"orders": [3]})
    assert numbers(place_new(uneven)) == {"a": [0, 1, 2], "b": [3, 4, 5]}


@given(requests())
def test_placing_new_partitions_keeps_owners_that_read_them(request_: Request) -> None:
    owners = place_new(request_).owners()
    for partition, owner in owners_before(request_).items():
        if partition.queue in request_.members[owner].subscribed:
            assert owners[partition] == owner


def _within_one(counts: Iterable[int]) -> bool:
    counts = list(counts)
    return max(counts) - min(counts) <= 1


@given(requests(most_in_all=6), st.data())
def test_the_lower_bound_is_what_trying_every_assignment_finds(request_: Request, data: st.DataObject) -> None:
    gone = data.draw(st.sets(st.sampled_from(sorted(request_.members)), max_size=len(request_.members) - 1))
    there = {name: read for name, read in subscriptions(request_).items() if name not in gone}
    before = owners_before(request_)
    trying = best_score(request_.queues, there, {partition: {name} for partition, name in before.items()})
    assert lower_bound(request_.queues, there, before) == trying[2]


def test_a_thousand_members_and_ten_thousand_partitions_are_counted_exactly() -> None:
    members = {MemberId(f"m{place}"): reading("orders") for place in range(1000)}
    before = {a_partition("orders", number): MemberId(f"m{number % 999}") for number in range(10_000)}
    assert lower_bound(by_queue({"orders": 10_000}), members, before) == 10


@given(requests(most_in_all=6, contested=True))
def test_a_partition_with_several_holders_is_at_home_with_each(request_: Request) -> None:
    members = subscriptions(request_)
    trying = best_score(request_.queues, members, holders(request_))
    assert least_moves(request_.queues, members, holders(request_)) == trying[2]
