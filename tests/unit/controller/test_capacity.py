"""The books of all groups' partitions."""

from random import Random

import pytest

from baton.controller.capacity import Capacity
from baton.controller.cluster_cache import GroupKey

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


def test_a_replica_that_lost_the_lead_has_empty_books() -> None:
    books = Capacity(100)
    books.book(A, 60)
    books.wait(B, 50)
    books.clear()
    assert (books.total, books.waiting, books.room(B)) == (0, {}, 100)
