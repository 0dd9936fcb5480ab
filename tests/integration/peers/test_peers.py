"""Hundreds of random groups for each assignor, answered by Kafka's and RocketMQ's own classes and by ours."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

import pytest

from baton.assignors import Member, Request
from tests.ids import a_request, reading
from tests.peers import ask
from tests.peers.comparison import compare, differences
from tests.peers.groups import ZONES, a_group, a_strange_group, rebalanced

COUNT = 500
MakeGroup = Callable[[Random, int], Request]


def with_one_room(dice: Random) -> Request:
    """Every partition is in one room, and every member in one of three."""
    request = a_group(dice, zones=True)
    rooms = {q: tuple(frozenset(dice.sample((*ZONES, "south"), 1)) for _ in range(size)) for q, size in request.queues.items()}
    return replace(request, zones=rooms)


KEY = "MessageQueue [topic={queue}, brokerName=broker, queueId={partition}]"


def on_ring(dice: Random) -> Request:
    return replace(a_group(dice), options={"virtualNodes": dice.randint(0, 20), "partitionKey": KEY})


def in_rooms(dice: Random) -> Request:
    return replace(with_one_room(dice), options={"rooms": frozenset(dice.sample(ZONES, 2))})


def nearby(within: str, options: Mapping[str, object]) -> MakeGroup:
    return lambda dice, nth: replace(with_one_room(dice), options={"within": within, **options})


def strange_in_rooms(options: Mapping[str, object]) -> MakeGroup:
    def make(dice: Random, nth: int) -> Request:
        rooms = {"rooms": frozenset(dice.sample((*ZONES, "empty"), dice.randint(0, 3)))}
        return replace(a_strange_group(dice, one_room=True), options={**options, **rooms})

    return make


ANSWERED_ALIKE: list[tuple[str, MakeGroup]] = [
    ("range", lambda dice, nth: a_group(dice, zones=nth % 2 == 0, static=True)),
    ("round-robin", lambda dice, nth: a_group(dice, static=True)),
    ("sticky", lambda dice, nth: a_group(dice, zones=nth % 2 == 0)),
    ("cooperative-sticky", lambda dice, nth: a_group(dice, zones=nth % 2 == 0)),
    ("average", lambda dice, nth: a_group(dice)),
    ("circle", lambda dice, nth: a_group(dice)),
    ("consistent-hash", lambda dice, nth: on_ring(dice)),
    ("machine-room", lambda dice, nth: in_rooms(dice)),
    ("machine-room-nearby", nearby("average", {})),
    ("machine-room-nearby", nearby("circle", {})),
    ("machine-room-nearby", nearby("machine-room", {"rooms": frozenset(ZONES[:2])})),
]
"""Without owners: of these the originals have one answer."""
STRANGE: list[tuple[str, MakeGroup]] = [
    ("range", lambda dice, nth: a_strange_group(dice, zones=True, static=True)),
    ("round-robin", lambda dice, nth: a_strange_group(dice, static=True)),
    ("average", lambda dice, nth: a_strange_group(dice)),
    ("circle", lambda dice, nth: a_strange_group(dice)),
    ("machine-room", strange_in_rooms({})),
    ("machine-room-nearby", strange_in_rooms({"within": "machine-room"})),
]


@pytest.mark.parametrize(("assignor", "make"), [*ANSWERED_ALIKE, *STRANGE])
def test_an_assignor_answers_as_the_original_does(assignor: str, make: MakeGroup) -> None:
    dice = Random(1)
    assert not differences(assignor, [make(dice, nth) for nth in range(COUNT)])


@pytest.mark.parametrize(("points", "count"), [(0, 10), (1, COUNT), (1000, 20)])
def test_strange_groups_on_rings_of_all_sizes_are_answered_as_by_rocketmq(points: int, count: int) -> None:
    dice = Random(13)
    options = {"virtualNodes": points, "partitionKey": KEY}
    assert not differences("consistent-hash", [replace(a_strange_group(dice), options=options) for _ in range(count)])


def test_cooperative_sticky_withholds_what_kafkas_does_for_equal_subscriptions() -> None:
    """Who keeps one more than others is left to a HashMap, so not all answers can be equal."""
    dice = Random(4)
    requests = [a_group(dice, equal=True, claims=True, zones=place % 2 == 0) for place in range(COUNT)]
    assert len(differences("cooperative-sticky", requests)) < COUNT / 100


def test_members_with_colliding_points_are_answered_as_by_rocketmq() -> None:
    """The MD5 of `m14901-0` and of `m63437-0` begin with the same four bytes."""
    options = {"virtualNodes": 1, "partitionKey": KEY}
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
