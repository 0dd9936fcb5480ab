"""The books of all groups' partitions."""

import pytest

from baton.controller.capacity import Capacity, GroupKey

A, B, C = ("shop", "a"), ("shop", "b"), ("bank", "c")


@pytest.mark.parametrize(
    ("shared", "booked", "room"),
    [
        (False, {}, {A: 100, C: 100}),
        (True, {}, {A: 50, C: 50}),
        (False, {A: 70}, {A: 100, B: 30, C: 30}),
        (True, {A: 30}, {A: 50, B: 20, C: 50}),
        (True, {A: 30, B: 20, C: 40}, {A: 30, B: 20, C: 50}),
        # what is there is booked also where there is no room
        (True, {A: 90}, {A: 90, B: 0, C: 10}),
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


def test_large_groups_do_not_shut_small_ones_of_other_namespaces_out() -> None:
    books = Capacity(200_000, shared=True)
    books.book(A, 100_000)
    books.book(("lab", "d"), 12)
    assert books.room(C) == 100_000
    books.book(C, 100_000)
    books.book(("mill", "e"), 3_000)
    assert {key: books.room(key) for key in (A, B, C, ("lab", "f"), ("mill", "e"))} == {
        A: 100_000,
        B: 0,
        C: 100_000,
        ("lab", "f"): 988,
        ("mill", "e"): 3_000,
    }
    books.forget(A)
    assert books.room(B) == 100_000


def test_whoever_waits_hears_when_there_is_more_room_and_only_then() -> None:
    books, heard = Capacity(100), list[GroupKey]()
    books.freed = heard.append
    books.book(A, 60)
    books.wait(C)
    books.wait(B)
    books.wait(C)
    books.book(A, 80)
    assert heard == []
    books.book(A, 70)
    assert heard == [C, B]
    assert books.waiting == {"shop": 1, "bank": 1}
    books.has_room(C)
    books.forget(A)
    assert heard == [C, B, B]


def test_room_is_kept_in_the_order_of_names_for_what_fits() -> None:
    books = Capacity(100)
    books.reserve({C: 20, B: 90, A: 30})
    assert {key: books.booked(key) for key in (A, B, C)} == {A: 30, B: 0, C: 20}


def test_whoever_leads_no_more_has_empty_books() -> None:
    books = Capacity(100)
    books.book(A, 60)
    books.wait(B)
    books.clear()
    assert (books.total, books.waiting, books.room(B)) == (0, {}, 100)
