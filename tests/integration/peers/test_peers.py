"""Hundreds of random groups for each assignor, answered by Kafka's and RocketMQ's own classes and by ours."""

from dataclasses import replace
from random import Random

import pytest

from baton.assignors import Member, Request
from tests.ids import a_request, reading
from tests.peers import ask
from tests.peers.comparison import compare, differences
from tests.peers.groups import ZONES, a_group, a_strange_group, rebalanced

COUNT = 500


def with_one_room(dice: Random) -> Request:
    """Every partition is in one room, and every member in one of three."""
    request = a_group(dice, zones=True)
    rooms = {q: tuple(frozenset(dice.sample((*ZONES, "south"), 1)) for _ in range(size)) for q, size in request.queues.items()}
    return replace(request, zones=rooms)


def test_range_answers_as_kafkas_does_with_zones_and_static_members() -> None:
    dice = Random(1)
    assert not differences("range", [a_group(dice, zones=place % 2 == 0, static=True) for place in range(COUNT)])


def test_round_robin_answers_as_kafkas_does_with_static_members() -> None:
    dice = Random(2)
    assert not differences("round-robin", [a_group(dice, static=True) for _ in range(COUNT)])


@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky"])
def test_sticky_ones_answer_as_kafkas_do_where_nobody_holds_anything(assignor: str) -> None:
    dice = Random(3)
    assert not differences(assignor, [a_group(dice, zones=place % 2 == 0) for place in range(COUNT)])


def test_cooperative_sticky_withholds_what_kafkas_does_where_subscriptions_are_equal() -> None:
    """Who keeps one more than others is left to a HashMap, so not all answers can be equal."""
    dice = Random(4)
    requests = [a_group(dice, equal=True, claims=True, zones=place % 2 == 0) for place in range(COUNT)]
    assert len(differences("cooperative-sticky", requests)) < COUNT / 100


@pytest.mark.parametrize("assignor", ["average", "circle"])
def test_rocketmqs_simple_ones_answer_as_its_classes_do(assignor: str) -> None:
    dice = Random(5)
    assert not differences(assignor, [a_group(dice) for _ in range(COUNT)])


def test_consistent_hash_answers_as_rocketmqs_does() -> None:
    dice = Random(6)
    key = "MessageQueue [topic={queue}, brokerName=broker, queueId={partition}]"
    requests = [replace(a_group(dice), options={"virtualNodes": dice.randint(0, 20), "partitionKey": key}) for _ in range(COUNT)]
    assert not differences("consistent-hash", requests)


def test_machine_room_answers_as_rocketmqs_does() -> None:
    dice = Random(7)
    requests = [replace(with_one_room(dice), options={"rooms": frozenset(dice.sample(ZONES, 2))}) for _ in range(COUNT)]
    assert not differences("machine-room", requests)


@pytest.mark.parametrize("within", ["average", "circle", "machine-room"])
def test_machine_room_nearby_answers_as_rocketmqs_does(within: str) -> None:
    dice = Random(8)
    options = {"within": within} | ({"rooms": frozenset(ZONES[:2])} if within == "machine-room" else {})
    assert not differences("machine-room-nearby", [replace(with_one_room(dice), options=options) for _ in range(COUNT)])


@pytest.mark.parametrize("assignor", ["range", "round-robin", "average", "circle"])
def test_strange_groups_are_answered_as_by_the_originals(assignor: str) -> None:
    dice = Random(11)
    zones = assignor == "range"
    static = assignor in ("range", "round-robin")
    assert not differences(assignor, [a_strange_group(dice, zones=zones, static=static) for _ in range(COUNT)])


@pytest.mark.parametrize("assignor", ["machine-room", "machine-room-nearby"])
def test_strange_groups_in_rooms_are_answered_as_by_rocketmq(assignor: str) -> None:
    dice = Random(12)
    requests = []
    for _ in range(COUNT):
        rooms = {"rooms": frozenset(dice.sample((*ZONES, "empty"), dice.randint(0, 3)))}
        options = rooms if assignor == "machine-room" else {"within": "machine-room"} | rooms
        requests.append(replace(a_strange_group(dice, one_room=True), options=options))
    assert not differences(assignor, requests)


@pytest.mark.parametrize(("points", "count"), [(0, 10), (1, COUNT), (1000, 20)])
def test_strange_groups_on_rings_of_all_sizes_are_answered_as_by_rocketmq(points: int, count: int) -> None:
    dice = Random(13)
    options = {"virtualNodes": points, "partitionKey": "MessageQueue [topic={queue}, brokerName=broker, queueId={partition}]"}
    assert not differences("consistent-hash", [replace(a_strange_group(dice), options=options) for _ in range(count)])


def test_members_whose_points_meet_are_answered_as_by_rocketmq() -> None:
    """The MD5 of `m14901-0` and of `m63437-0` begin with the same four bytes."""
    options = {"virtualNodes": 1, "partitionKey": "MessageQueue [topic={queue}, brokerName=broker, queueId={partition}]"}
    members = {name: Member(reading("orders")) for name in ("m63437", "m14901", "m5", "m6")}
    assert not differences("consistent-hash", [a_request({"orders": 100}, members, options=options)])


@pytest.mark.parametrize("equal", [True, False], ids=["equal subscriptions", "different subscriptions"])
@pytest.mark.parametrize("contested", [False, True], ids=["plain claims", "claims that contradict"])
def test_sticky_is_never_less_even_than_kafkas_and_never_moves_more(equal: bool, contested: bool) -> None:
    dice = Random(9)
    result = compare("sticky", "sticky", [a_group(dice, equal=equal, claims=True, contested=contested) for _ in range(COUNT)])
    assert not result.refused
    assert not result.worse


@pytest.mark.parametrize("peer", ["uniform", "sticky"])
def test_minimal_is_never_less_even_than_kafkas_and_never_moves_more(peer: str) -> None:
    dice = Random(10)
    before = [a_group(dice, zones=place % 2 == 0) for place in range(COUNT)]
    answers = ask(("uniform", request) for request in before)
    changed = []
    for request, answer in zip(before, answers, strict=True):
        assert not isinstance(answer, str), answer
        changed.append(rebalanced(dice, request, answer.owners()))
    result = compare("minimal", peer, [a_group(dice, claims=True) for _ in range(COUNT)] + changed)
    assert not result.refused
    assert not result.worse
    assert result.more_even
    assert result.fewer_moves
