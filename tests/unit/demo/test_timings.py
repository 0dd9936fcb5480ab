"""Durations and moves are counted from what the ledger said and when."""

from dataclasses import replace

from demo.picture import Member, Picture
from demo.timings import Timings, milliseconds


def member(name: str, *, owned: tuple[int, ...] = (), revoking: tuple[int, ...] = (), listed: bool = True) -> Member:
    grants, taken = dict.fromkeys(owned, 1), dict.fromkeys(revoking, 1)
    return Member(name, f"uid-{name}", "ready", registered=True, listed=listed, owned=grants, revoking=taken)


def seen(*moments: tuple[float, tuple[Member, ...]]) -> Timings:
    timings = Timings()
    for at, members in moments:
        timings.see(Picture(members=members), at)
    return timings


def test_a_pod_is_in_the_ledger_so_long_after_it_serves() -> None:
    timings = seen((1.0, (member("a", listed=False),)), (1.25, (member("a"),)), (9.0, (member("a", owned=(1,)),)))
    assert timings.ready_to_ledger == [0.25]


def test_the_delay_that_is_asked_for_does_not_count() -> None:
    held = Picture(members=(member("a", listed=False),), held_until=9.0)
    timings = Timings()
    timings.see(Picture(members=held.members), 1.0)
    timings.see(held, 1.1)
    timings.see(Picture(members=(member("a"),)), 9.2)
    assert [round(each, 6) for each in timings.ready_to_ledger] == [0.2]


def test_a_pod_that_the_ledger_named_first_waited_for_nothing() -> None:
    early = Member("a", "uid-a", "starting", listed=True)
    assert seen((1.0, (early,)), (2.0, (member("a"),))).ready_to_ledger == [0.0]


def test_a_hand_off_is_a_pause_from_taking_back_to_the_next_owner_and_one_move() -> None:
    timings = seen(
        (1.0, (member("a", owned=(1, 2)), member("b"))),
        (2.0, (member("a", owned=(1,), revoking=(2,)), member("b"))),
        (3.5, (member("a", owned=(1,)), member("b", owned=(2,)))),
    )
    assert (timings.pauses, timings.orphaned, timings.moves) == ([1.5], [], 1)


def test_a_partition_that_goes_back_to_its_giver_is_a_pause_and_no_move() -> None:
    timings = seen((1.0, (member("a", owned=(1,)),)), (2.0, (member("a", revoking=(1,)),)), (3.0, (member("a", owned=(1,)),)))
    assert (timings.pauses, timings.moves) == ([1.0], 0)


def test_a_partition_whose_owner_died_is_orphaned_until_the_next() -> None:
    dead = replace(member("a", owned=(1,)), phase="gone")
    timings = seen((1.0, (member("a", owned=(1,)), member("b"))), (2.0, (dead, member("b"))), (8.0, (member("b", owned=(1,)),)))
    assert (timings.pauses, timings.orphaned, timings.moves) == ([], [6.0], 1)


def test_a_new_owner_has_its_first_row_so_long_after_the_ledger_names_it() -> None:
    timings = seen(
        (1.0, (member("a", owned=(1, 2)), member("b"))),
        (2.0, (member("a", owned=(1,), revoking=(2,)), member("b"))),
        (3.5, (member("a", owned=(1,)), member("b", owned=(2,)))),
    )
    timings.first_rows({(1, 1, "a"): 1.5, (2, 1, "a"): 1.5, (2, 1, "b"): 4.0})
    assert timings.ledger_to_executor == [0.5]


def test_milliseconds_of_nothing_are_zero() -> None:
    assert milliseconds([]) == (0, 0)
    assert milliseconds([0.1, 0.2, 1.0]) == (200, 1000)
