"""RocketMQ's own tests of its strategies."""

from random import Random

import pytest

from baton.assignors import Member, get
from tests.ids import a_request, reading

TOPIC = reading("topic")
KEY = "MessageQueue [topic={queue}, brokerName=brokerName, queueId={partition}]"


def numbers(
    assignor: str, size: int, members: dict[str, Member], zones: list[str] | None = None, **options: int | str | frozenset[str]
) -> dict[str, list[int]]:
    where = {"topic": tuple(frozenset({zone}) for zone in zones)} if zones is not None else {}
    answer = get(assignor)(a_request({"topic": size}, members, where, options))
    assert answer.withheld == {}
    return {name: [partition.number for partition in hand] for name, hand in answer.assignment.items()}


def clients(count: int) -> dict[str, Member]:
    return {f"CID-{place}": Member(TOPIC) for place in range(count)}


def test_ten_of_four_averagely() -> None:
    assert [len(hand) for hand in numbers("average", 10, clients(4)).values()] == [3, 3, 2, 2]


def test_ten_of_four_by_circle() -> None:
    assert list(numbers("circle", 10, clients(4)).values()) == [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]


def test_a_machine_room_gives_the_rest_of_its_runs_one_by_one() -> None:
    rooms = ["room1"] * 5 + ["room2"] * 5
    assert list(numbers("machine-room", 10, clients(2), rooms, rooms=frozenset({"room1"})).values()) == [[0, 1, 4], [2, 3]]
    everywhere = numbers("machine-room", 8, clients(3), ["room1"] * 8, rooms=frozenset({"room1"}))
    assert list(everywhere.values()) == [[0, 1, 6], [2, 3, 7], [4, 5]]


@pytest.mark.parametrize(("size", "count"), [(20, 10), (10, 20), *((Random(seed).randint(1, 20), seed) for seed in range(2, 21))])
def test_on_the_ring_only_what_the_one_had_changes_hands(size: int, count: int) -> None:
    def owners(members: dict[str, Member]) -> dict[int, str]:
        hands = numbers("consistent-hash", size, members, virtualNodes=3, partitionKey=KEY)
        return {number: name for name, hand in hands.items() for number in hand}

    members = clients(count)
    everybody = owners(members)
    assert len(everybody) == size
    del members["CID-0"]
    one_less = owners(members)
    assert all(one_less[number] == name for number, name in everybody.items() if name != "CID-0")
    members["CID-NEW"] = Member(TOPIC)
    one_more = owners(members)
    assert all(name in (one_less[number], "CID-NEW") for number, name in one_more.items())


def in_rooms(rooms: int, each: int) -> dict[str, Member]:
    return {f"IDC{room}-CID-{place}": Member(TOPIC, zone=f"IDC{room}") for room in range(1, rooms + 1) for place in range(each)}


@pytest.mark.parametrize("within", ["average", "circle", "consistent-hash", "contiguous", "minimal", "range", "solace", "sticky"])
@pytest.mark.parametrize(
    ("rooms_of_queues", "rooms_of_members", "queues_each", "members_each"),
    [
        *((5, 5, 20, members) for members in (0, 10, 20, 30)),
        *((5, 6, 10, members) for members in (0, 5, 10, 20)),
        *((5, 3, 10, members) for members in (0, 5, 10, 20)),
    ],
)
def test_what_is_in_a_room_stays_there_and_empty_rooms_are_shared(
    within: str, rooms_of_queues: int, rooms_of_members: int, queues_each: int, members_each: int
) -> None:
    rooms = [f"IDC{room}" for room in range(1, rooms_of_queues + 1) for _ in range(queues_each)]
    members = in_rooms(rooms_of_members, members_each)
    hands = numbers("machine-room-nearby", len(rooms), members, rooms, within=within)
    assert sorted(number for hand in hands.values() for number in hand) == (list(range(len(rooms))) if members else [])
    manned = {member.zone for member in members.values()}
    for name, hand in hands.items():
        assert {rooms[number] for number in hand} & manned <= {members[name].zone}


def test_two_points_that_meet_belong_to_the_later_name() -> None:
    """The MD5 of `m14901-0` and of `m63437-0` begin with the same four bytes."""
    members = {"m14901": Member(TOPIC), "m63437": Member(TOPIC)}
    hands = numbers("consistent-hash", 50, members, virtualNodes=1, partitionKey=KEY)
    assert hands == {"m14901": [], "m63437": list(range(50))}
