"""RocketMQ's assignors."""

import tracemalloc
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given

from baton.assignors import Answer, AssignorError, Member, Request, get
from baton.assignors.rocketmq import next_on
from tests.ids import a_partition, a_request, reading
from tests.unit.assignors.worlds import owners_before, requests

ORDERS = reading("orders")


def numbers(answer: Answer, queue: str = "orders") -> dict[str, list[int]]:
    return {name: [p.number for p in hand if p.queue == queue] for name, hand in answer.assignment.items()}


def group(size: int, zones: Sequence[str] = (), options: Mapping[str, object] | None = None, /, **members: Member) -> Request:
    where = {"orders": tuple(frozenset(zone.split()) for zone in zones)} if zones else {}
    return a_request({"orders": size}, members, where, options or {})


def test_average_and_circle_share_out_every_queue_among_its_readers() -> None:
    members = {"a": Member(reading("orders", "payments")), "b": Member(ORDERS), "c": Member(ORDERS)}
    request = a_request({"orders": 4, "payments": 2}, members)
    assert numbers(get("average")(request)) == {"a": [0, 1], "b": [2], "c": [3]}
    assert numbers(get("circle")(request)) == {"a": [0, 3], "b": [1], "c": [2]}
    assert numbers(get("average")(request), "payments") == {"a": [0, 1], "b": [], "c": []}


def test_contiguous_goes_by_joining() -> None:
    request = group(5, a=Member(ORDERS, rank=2), b=Member(ORDERS, rank=1), c=Member(ORDERS, rank=1))
    assert numbers(get("contiguous")(request)) == {"b": [0, 1], "c": [2, 3], "a": [4]}


def test_a_member_that_joins_the_ring_only_takes() -> None:
    before = {f"m{place}": Member(ORDERS) for place in range(5)}
    owners = get("consistent-hash")(group(40, **before)).owners()
    after = get("consistent-hash")(group(40, **before, new=Member(ORDERS))).owners()
    assert {after[partition] for partition in owners if owners[partition] != after[partition]} == {"new"}


def test_more_virtual_nodes_share_more_evenly() -> None:
    members = {f"m{place}": Member(ORDERS) for place in range(4)}

    def most(points: int) -> int:
        return max(map(len, get("consistent-hash")(group(400, (), {"virtualNodes": points}, **members)).assignment.values()))

    assert most(1000) < most(10) < most(1)


def test_a_queue_named_like_a_placeholder_is_hashed_by_its_name() -> None:
    request = a_request(
        {"{partition}": 3}, {"a": Member(reading("{partition}"))}, options={"partitionKey": "{queue} {partition}"}
    )
    assert len(get("consistent-hash")(request).owners()) == 3


def test_machine_room_gives_out_its_rooms_only_and_the_rest_of_a_run_at_the_end() -> None:
    zones = ["east", "west", "east north", "east", "east", "", "east"]
    request = group(7, zones, {"rooms": frozenset({"east"})}, a=Member(ORDERS), b=Member(ORDERS))
    assert numbers(get("machine-room")(request)) == {"a": [0, 2, 6], "b": [3, 4]}


def test_a_room_without_readers_is_shared_by_all() -> None:
    zones = ["east", "east", "west", "west", "north", "north"]
    members = {"a": Member(ORDERS, zone="east"), "b": Member(ORDERS, zone="west"), "c": Member(frozenset(), zone="north")}
    assert numbers(get("machine-room-nearby")(group(6, zones, **members))) == {"a": [0, 1, 4], "b": [2, 3, 5], "c": []}


def test_a_partition_in_several_rooms_counts_to_the_first_that_is_manned() -> None:
    members = {"a": Member(ORDERS, zone="west"), "b": Member(ORDERS, zone="north")}
    request = group(3, ["east west north", "east", "south east"], **members)
    assert numbers(get("machine-room-nearby")(request)) == {"a": [1], "b": [0, 2]}  # no member is in the last two


def test_any_assignor_can_be_within_the_rooms() -> None:
    zones = ["east", "west", "east", "west", "east", "west"]
    owned = tuple(a_partition("orders", number) for number in (0, 2, 5))
    members = {"a": Member(ORDERS, owned, zone="east"), "b": Member(ORDERS, zone="east"), "c": Member(ORDERS, zone="west")}
    within = "cooperative-sticky"
    answer = get("machine-room-nearby")(group(6, zones, {"within": within}, **members))
    assert numbers(answer) == {"a": [0, 2], "b": [4], "c": [1, 3]}
    assert answer.withheld == {"c": (a_partition("orders", 5),)}


@given(request_=requests(zones=True))
def test_a_sticky_assignor_within_rooms_waits_for_holders(request_: Request) -> None:
    request = Request(request_.queues, request_.members, request_.zones, {"within": "cooperative-sticky"})
    answer = get("machine-room-nearby")(request)
    before = owners_before(request)
    assert all(before.get(partition, name) == name for name, hand in answer.assignment.items() for partition in hand)


def test_a_ring_that_would_fill_the_memory_is_refused_with_the_cure() -> None:
    members = {f"m{place}": Member(ORDERS) for place in range(101)}
    tracemalloc.start()
    try:
        with pytest.raises(AssignorError, match=r"10,000 points of each member .* give a lower virtualNodes"):
            get("consistent-hash")(group(4, (), {"virtualNodes": 10_000}, **members))
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_rings_of_several_fleets_of_readers_count_together() -> None:
    members = {f"m{place}": Member(reading(f"q{place % 3}", "orders")) for place in range(60)}
    queues = {"orders": 4} | {f"q{number}": 4 for number in range(3)}
    with pytest.raises(AssignorError, match="give a lower virtualNodes"):
        get("consistent-hash")(a_request(queues, members, options={"virtualNodes": 10_000}))


def test_the_later_name_has_a_shared_point_of_the_ring() -> None:
    ring = sorted([5 << 32 | 0, 5 << 32 | 2, 5 << 32 | 1, 9 << 32 | 0])
    assert [next_on(ring, key) for key in (0, 5, 6, 9, 10)] == [2, 2, 0, 0, 2]
