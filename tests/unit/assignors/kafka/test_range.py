import pytest

from baton.assignors import Answer, Member, Request, get
from tests.ids import Zones, a_request, reading

RANGE = get("range")
READ = reading("orders", "payments")


def numbers(answer: Answer, queue: str) -> dict[str, list[int]]:
    return {name: [p.number for p in hand if p.queue == queue] for name, hand in answer.assignment.items()}


def test_partitions_with_equal_numbers_meet_the_same_member() -> None:
    answer = RANGE(a_request({"orders": 6, "payments": 6}, {name: Member(READ) for name in "abc"}))
    assert numbers(answer, "orders") == numbers(answer, "payments") == {"a": [0, 1], "b": [2, 3], "c": [4, 5]}


def test_the_rests_of_every_queue_pile_up_on_the_first() -> None:
    answer = RANGE(a_request({"orders": 10, "payments": 5}, {name: Member(READ) for name in "abc"}))
    assert sorted(len(hand) for hand in answer.assignment.values()) == [4, 5, 6]


def test_static_members_come_before_dynamic_ones() -> None:
    members = {"a": Member(READ), "z": Member(READ, instance="1"), "y": Member(READ, instance="2")}
    assert numbers(RANGE(a_request({"orders": 3}, members)), "orders") == {"z": [0], "y": [1], "a": [2]}


NEAR = (frozenset({"east"}), frozenset({"west"}), frozenset({"east"}), frozenset({"west"}))


def zoned(zones: Zones = NEAR, **members: str | None) -> Request:
    return a_request({"orders": 4}, {name: Member(READ, zone=zone) for name, zone in members.items()}, {"orders": zones})


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        pytest.param(zoned(a="west", b="east"), {"a": [1, 3], "b": [0, 2]}, id="each gets what is near"),
        pytest.param(zoned(a="west", b="north"), {"a": [1, 3], "b": [0, 2]}, id="who is near nothing gets the rest"),
        pytest.param(zoned(a=None, b="west"), {"a": [0, 1], "b": [2, 3]}, id="a member without a zone is near everything"),
        pytest.param(zoned(a="west", b="west"), {"a": [1, 3], "b": [0, 2]}, id="nobody gets more than its share"),
        pytest.param(zoned(a="north", b="south"), {"a": [0, 1], "b": [2, 3]}, id="zones of nobody are ignored"),
        pytest.param(
            zoned((frozenset({"east", "west"}),) * 4, a="west", b="east"), {"a": [0, 1], "b": [2, 3]}, id="replicas everywhere"
        ),
    ],
)
def test_zones(request_: Request, expected: dict[str, list[int]]) -> None:
    assert numbers(RANGE(request_), "orders") == expected


def test_zones_do_not_tear_apart_what_belongs_together() -> None:
    members = {"a": Member(READ, zone="west"), "b": Member(READ, zone="east")}
    opposite = tuple(reversed(NEAR))
    answer = RANGE(a_request({"orders": 4, "payments": 4}, members, {"orders": NEAR, "payments": opposite}))
    assert numbers(answer, "orders") == numbers(answer, "payments") == {"a": [0, 1], "b": [2, 3]}
