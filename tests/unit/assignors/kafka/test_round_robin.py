from hypothesis import given

from baton.assignors import Member, Request, get
from tests.ids import a_request, reading
from tests.unit.assignors.worlds import loads, requests

ROUND_ROBIN = get("round-robin")


def test_all_partitions_of_all_queues_are_dealt_in_one_round() -> None:
    read = reading("orders", "payments")
    answer = ROUND_ROBIN(a_request({"orders": 10, "payments": 5}, {name: Member(read) for name in "abc"}))
    assert set(loads(answer).values()) == {5}


@given(requests(most_partitions=30, most_members=9))
def test_who_reads_everything_is_within_one(request_: Request) -> None:
    everything = frozenset(request_.queues)
    answer = ROUND_ROBIN(Request(request_.queues, {name: Member(everything) for name in request_.members}))
    counts = [loads(answer)[name] for name in request_.members]
    assert max(counts) - min(counts) <= 1


def test_who_does_not_read_a_queue_is_passed_over() -> None:
    members = {"a": Member(reading("orders")), "b": Member(reading("payments")), "c": Member(reading("orders"))}
    assert loads(ROUND_ROBIN(a_request({"orders": 4, "payments": 1}, members))) == {"a": 2, "b": 1, "c": 2}


def test_static_members_come_before_dynamic_ones() -> None:
    read = reading("orders")
    members = {"a": Member(read), "z": Member(read, instance="1"), "y": Member(read, instance="2")}
    answer = ROUND_ROBIN(a_request({"orders": 3}, members))
    assert {name: hand[0].number for name, hand in answer.assignment.items()} == {"z": 0, "y": 1, "a": 2}
