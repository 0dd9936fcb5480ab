"""What an assignor of the user's own is held to."""

from collections.abc import Mapping

import pytest

from baton.assignors import Answer, AssignorError, Member, Request
from baton.assignors.request import checked, whatever_the_order
from baton.model import MemberId, Partition, QueueName
from tests.ids import a_partition, a_request, by_member, reading

BOTH = reading("orders", "returns")
REQUEST = a_request(
    {"orders": 3, "returns": 1, "unread": 2}, {"a": Member(BOTH), "b": Member(reading("orders")), "c": Member(frozenset())}
)
O0, O1, O2, R0 = a_partition("orders", 0), a_partition("orders", 1), a_partition("orders", 2), a_partition("returns", 0)


def answering(assignment: object, withheld: object = None, request: Request = REQUEST) -> Answer:
    return checked("example.com/mine", lambda _: Answer(assignment, {} if withheld is None else withheld))(request)  # type: ignore[arg-type]


def test_what_keeps_the_contract_passes_sorted_and_with_every_member() -> None:
    answer = answering({"a": [R0, O2], "b": {("orders", 0)}}, {"b": [O1]})
    assert answer == Answer(by_member({"a": (O2, R0), "b": (O0,), "c": ()}), by_member({"b": (O1,)}))


@pytest.mark.parametrize(
    ("assignment", "withheld", "said"),
    [
        ({"a": [O0, O1, O2, R0], "z": []}, {}, "gave something to 'z', which is not a member"),
        ({"a": [O0, O1, O2, R0, ("gone", 0)]}, {}, "gave a partition 0 of gone, and there is no queue gone"),
        ({"a": [O0, O1, O2, R0, ("orders", 3)]}, {}, "gave a partition 3 of orders, which has 3, numbered from 0"),
        ({"a": [O0, O1, O2, R0, ("orders", -1)]}, {}, "gave a partition -1 of orders, which has 3"),
        ({"a": [O0, O1, O2], "b": [R0]}, {}, "gave b partition 0 of returns, which that member does not read"),
        ({"a": [O0, O1, O2, R0], "b": [O1]}, {}, "gave partition 1 of orders to a and to b"),
        ({"a": [O0, O1, O2, R0]}, {"b": [O1]}, "gave partition 1 of orders to a and to b"),
        ({"a": [O0, O1, O2, R0, R0]}, {}, "gave partition 0 of returns to a twice"),
        ({"a": [O0, R0]}, {}, "gave orders 1-2 no owner, though there are members that read it"),
        ({"a": [O0, O1, O2, R0, ("unread", 0)]}, {}, "gave a partition 0 of unread, which that member does not read"),
        ({"a": [0]}, {}, "gave a 0, which is not a Partition(queue, number)"),
        ({"a": [("orders", True)]}, {}, "gave a ('orders', True), which is not a Partition"),
        ({"a": 3}, {}, "gave a int instead of partitions"),
        ([O0], {}, "answered with a assignment that is list, no mapping of members to partitions"),
    ],
)
def test_what_breaks_it_is_told_in_one_line_that_names_the_assignor(assignment: object, withheld: object, said: str) -> None:
    with pytest.raises(AssignorError) as refused:
        answering(assignment, withheld)
    assert str(refused.value).startswith(f"the assignor example.com/mine {said}")
    assert "\n" not in str(refused.value)


def test_many_missing_partitions_are_counted() -> None:
    with pytest.raises(AssignorError, match="gave orders 0-19 and 80 more no owner"):
        answering({}, request=a_request({"orders": 100}, {"a": Member(BOTH)}))


def test_another_answer_than_an_answer_is_refused() -> None:
    with pytest.raises(AssignorError, match=r"answered with dict instead of baton\.assignors\.Answer"):
        checked("example.com/mine", lambda _: {"a": []})(REQUEST)  # type: ignore[arg-type,return-value]


def test_an_exception_becomes_one_line_with_its_place() -> None:
    def fails(_: Request) -> Answer:
        raise KeyError("no\nsuch\nthing")

    with pytest.raises(AssignorError, match=r"^the assignor example.com/mine failed at test_contract.py:\d+ with KeyError: .*$"):
        checked("example.com/mine", fails)(REQUEST)


def test_a_request_cannot_be_written_to() -> None:
    def meddles(request: Request) -> Answer:
        request.queues["orders"] = 0  # type: ignore[index]
        return Answer({})

    with pytest.raises(AssignorError, match=r"failed at .* with TypeError"):
        checked("example.com/mine", meddles)(REQUEST)
    assert REQUEST.queues[QueueName("orders")] == 3


def first_listed(request: Request) -> Answer:
    return all_to(next(name for name in request.members if request.members[name].subscribed == BOTH), request.queues)


def first_by_name(request: Request) -> Answer:
    return all_to(min(name for name in request.members if request.members[name].subscribed == BOTH), request.queues)


def all_to(member: MemberId, queues: Mapping[QueueName, int]) -> Answer:
    return Answer({member: [Partition(queue, n) for queue in BOTH for n in range(queues[queue])]})


def test_an_answer_that_depends_on_the_order_of_listing_is_found_out() -> None:
    twins = a_request({"orders": 2, "returns": 1}, {"a": Member(BOTH), "b": Member(BOTH)})
    assert whatever_the_order("x/y", checked("x/y", first_by_name))(twins).assignment[MemberId("a")]
    with pytest.raises(AssignorError, match="x/y answers otherwise when the same members or queues are listed in another order"):
        whatever_the_order("x/y", checked("x/y", first_listed))(twins)
