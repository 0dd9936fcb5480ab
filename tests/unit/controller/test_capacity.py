"""The books of all groups' partitions: what a group books, and which of its queues find no room."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from baton.api import PartitionedQueueSpec
from baton.controller.capacity import Capacity, GroupCapacity, holds
from baton.controller.cluster_cache import GroupKey
from baton.controller.group_observation import QueueFacts, QueueSight
from baton.controller.problems import Reason
from baton.engine import GroupState, dump
from baton.engine.ledger import MOST_PARTITIONS, partitions_named
from baton.engine.state import KnownMember, KnownQueue, PartitionRecord, Unreleased
from baton.kube.objects import QueueView
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid

A, B, C = ("shop", "a"), ("shop", "b"), ("bank", "c")


@pytest.mark.parametrize(
    ("shared", "booked", "room"),
    [
        (False, {}, {A: 100, C: 100}),
        (True, {}, {A: 50, C: 50}),
        (False, {A: 70}, {A: 100, B: 30, C: 30}),
        # a tenth is kept for others
        (True, {A: 30}, {A: 50, B: 20, C: 50}),
        (True, {A: 30, B: 20, C: 30}, {A: 30, B: 20, C: 40}),
        # what is there is booked also where there is no room
        (True, {A: 90}, {A: 90, B: 0, C: 0}),
        (False, {A: 90, C: 30}, {A: 90, B: 0, C: 30}),
    ],
)
def test_the_room_of_a_group(shared: bool, booked: dict[GroupKey, int], room: dict[GroupKey, int]) -> None:
    books = Capacity(100, shared=shared)
    for key, partitions in booked.items():
        books.book(key, partitions)
    assert {key: books.room(key) for key in room} == room
    for key in booked:
        books.forget(key)
    assert (books.total, books.by_namespace) == (0, {})


def test_large_groups_leave_room_for_small_ones_in_other_namespaces() -> None:
    books = Capacity(200_000, shared=True)
    books.book(A, 100_000)
    books.book(("lab", "d"), 12)
    assert books.room(C) == 180_000 - 99_000 + 1_000
    books.book(C, books.room(C))
    assert {key: books.room(key) for key in (A, B, C, ("lab", "f"), ("mill", "e"))} == {
        A: 100_000,
        B: 0,
        C: 82_000,
        ("lab", "f"): 988,
        ("mill", "e"): 1_000,
    }
    books.forget(A)
    assert books.room(B) == 100_000


@pytest.mark.parametrize("order", ["large first", "small first"])
def test_small_shares_of_many_namespaces_are_bounded_together(order: str) -> None:
    books = Capacity(200_000, shared=True)
    large = [("shop", "a"), ("bank", "c")]
    small = [(f"small-{number}", "g") for number in range(1_000)]
    for key in large + small if order == "large first" else small + large:
        books.book(key, min(books.room(key), 1_000 if key in small else 100_000))
    assert books.total == 200_000
    assert [books.room(key) - books.booked(key) for key in (*large, *small, ("other", "z"))] == [0] * 1_003
    served = sum(books.booked(key) == 1_000 for key in small)
    assert served == (18 if order == "large first" else 200), "first come, first served"


def test_groups_that_have_room_keep_it_in_any_order() -> None:
    """So that another replica admits the same groups."""
    books = Capacity(2_000, shared=True)
    keys = [(f"small-{number}", "g") for number in range(100)]
    random = Random(1)
    for key in keys:
        books.book(key, min(books.room(key), random.randrange(1, 60)))
    had = {key: books.booked(key) for key in keys if books.booked(key)}
    for _ in range(20):
        random.shuffle(keys)
        books.clear()
        for key in keys:
            if key in had:
                assert books.room(key) >= had[key]
                books.book(key, had[key])


def test_a_waiting_group_is_named_once_when_enough_room_is_freed() -> None:
    books = Capacity(100)
    books.book(A, 80)
    books.wait(C, 60)
    books.wait(B, 30)
    books.wait(C, 40)
    books.book(A, 85)
    assert books.fitting() == []
    books.book(A, 75)
    assert books.fitting() == []
    books.book(A, 70)
    assert books.fitting() == [B]
    assert books.fitting() == [], "it was told"
    assert books.waiting == {"shop": 1, "bank": 1}
    books.has_room(B)
    books.forget(A)
    assert books.fitting() == [C]


def test_room_is_reserved_in_the_order_of_names() -> None:
    books = Capacity(100)
    books.reserve({C: 20, B: 90, A: 30})
    assert {key: books.booked(key) for key in (A, B, C)} == {A: 30, B: 0, C: 20}


# -- A group books its partitions there.


KEY = ("shop", "orders")
REDIS = {"type": "Redis", "redis": {"url": "redis://r"}}


def sight(name: str, spec: int, recorded: int | None = None, source: dict[str, Any] = REDIS, **changes: Any) -> QueueSight:
    made = QueueView("shop", name, "u", 1, PartitionedQueueSpec.model_validate({"source": source, "partitions": spec}))
    known = None if recorded is None else KnownQueue(recorded)
    return replace(QueueSight(QueueName(name), True, made, QueueFacts(), known=known), **changes)


def external(name: str, spec: int, recorded: int | None = None) -> QueueSight:
    return sight(name, spec, recorded, {"type": "External"})


def having(*queues: QueueSight, withdrawn: int = 0) -> GroupState:
    """What these have recorded; of the first, partitions were `withdrawn` besides."""
    records = {
        Partition(one.name, n): PartitionRecord(Epoch(1), MemberId("a")) for one in queues for n in range(one.recorded or 0)
    }
    first = queues[0]
    epoch_tombstones = {Partition(first.name, (first.recorded or 0) + n): Epoch(1) for n in range(withdrawn)}
    return replace(GroupState("shop/orders"), records=records, epoch_tombstones=epoch_tombstones)


@pytest.mark.parametrize(
    ("sights", "members", "without", "booked"),
    [
        ([sight("a", 60), sight("b", 50)], True, {"b"}, 60),
        ([sight("a", 101), sight("b", 50)], True, {"a"}, 50),
        ([sight("a", 60, 60), sight("b", 50)], True, {"b"}, 60),
        ([sight("a", 60), sight("b", 50, 50)], True, {"a"}, 50),
        ([sight("a", 90, 60, facts=QueueFacts(partitions=90)), sight("b", 40, 40)], True, {"a"}, 100),
        ([sight("a", 30, 60), sight("b", 40)], True, set(), 100),
        # as its spec asks for, or as it has answered if that is more
        ([sight("a", 4, None, facts=QueueFacts(partitions=101))], True, {"a"}, 0),
        ([sight("a", 101, None, facts=QueueFacts(partitions=4))], True, {"a"}, 0),
        # one that was recorded, and has not answered this operator yet
        ([sight("a", 101, 60)], True, {"a"}, 60),
        # an external queue books nothing without members
        ([external("a", 101)], False, set(), 0),
        ([external("a", 101)], True, {"a"}, 0),
        ([external("a", 90, 90)], False, set(), 90),
        ([sight("a", 90)], False, set(), 90),
        # not the group's (any more)
        ([sight("a", 101, named=False)], True, set(), 0),
        ([sight("a", 101, view=None)], True, set(), 0),
        # what no group may have is told as that
        ([sight("a", 4, None, facts=QueueFacts(partitions=MOST_PARTITIONS + 1)), sight("b", 4)], True, set(), 4),
    ],
)
def test_what_is_booked_and_which_queues_find_no_room(
    sights: list[QueueSight], members: bool, without: set[str], booked: int
) -> None:
    books = Capacity(100)
    booking = GroupCapacity(KEY, books)
    assert booking.take(having(*sights), sights, members=members) == without
    assert books.booked(KEY) == booked
    assert (booking.problem is not None) is bool(without)
    assert bool(books.waiting) is bool(without)
    if booking.problem is not None:
        assert booking.problem.reason is Reason.OPERATOR_FULL
        assert f"{', '.join(sorted(without))}, which spec.queues names" in booking.problem.message


def test_withdrawn_partitions_count_a_quarter_until_they_come_back() -> None:
    books = Capacity(100)
    booking = GroupCapacity(KEY, books)
    small = sight("a", 20, 20, facts=QueueFacts(partitions=20))
    shrunk = having(small, withdrawn=80)
    assert holds(shrunk) == 40
    assert booking.take(shrunk, [small], members=True) == set()
    assert books.booked(KEY) == 40
    grows = sight("a", 100, 20, facts=QueueFacts(partitions=20))
    assert booking.take(shrunk, [grows], members=True) == set()
    assert books.booked(KEY) == 100


def test_unreleased_partitions_count_a_half_also_in_an_unread_ledger() -> None:
    books = Capacity(100)
    booking = GroupCapacity(KEY, books)
    small = sight("a", 20, 20, facts=QueueFacts(partitions=20))
    shrunk = having(small, withdrawn=80)
    unreleased = {one: Unreleased(MemberId("a"), Uid("uid-a"), epoch) for one, epoch in shrunk.epoch_tombstones.items()}
    shrunk = replace(shrunk, queues={small.name: KnownQueue(20)}, unreleased=unreleased)
    shrunk = replace(shrunk, known={MemberId("a"): KnownMember(Uid("uid-a"), active=True)})
    assert holds(shrunk) == partitions_named(dump(shrunk)) == 60
    assert booking.take(shrunk, [sight("a", 100, 20, facts=QueueFacts(partitions=20))], members=True) == set()
    assert books.booked(KEY) == 100


def test_a_ledger_is_read_if_there_is_room_or_the_group_ends() -> None:
    books = Capacity(100)
    books.book(("shop", "other"), 50)
    booking = GroupCapacity(KEY, books)
    told = booking.begin(51, at_all_events=False)
    assert told is not None
    assert "the operator has no room for the group's 51 partitions" in told.message
    assert (books.booked(KEY), books.waiting) == (0, {"shop": 1})
    assert booking.begin(50, at_all_events=False) is None
    assert (books.booked(KEY), books.waiting, booking.problem) == (50, {}, None)
    assert booking.begin(60, at_all_events=True) is None
    assert books.booked(KEY) == 60


@pytest.mark.parametrize(
    ("others", "told"),
    [
        ({("shop", "other"): 40}, "the groups of namespace shop have 40 of the 50 partitions that one may have"),
        (
            {("bank", "other"): 50, ("lab", "other"): 45},
            "the groups of this operator have 95 of the 100 partitions that it takes (10 of these are kept for",
        ),
    ],
)
def test_a_refused_group_is_told_which_limit_it_hit(others: dict[tuple[str, str], int], told: str) -> None:
    books = Capacity(100, shared=True)
    for key, partitions in others.items():
        books.book(key, partitions)
    booking = GroupCapacity(KEY, books)
    booking.take(having(sight("a", 20)), [sight("a", 20)], members=True)
    assert booking.problem is not None
    assert told in booking.problem.message
