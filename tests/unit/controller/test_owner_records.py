"""What a look at a queue's owners finds, told from what this operator does there at the same time."""

from typing import Any

from baton.controller.owner_records import OwnerRecords
from baton.model.ids import Epoch, Uid
from baton.queues.protocol import Ownership

A1, A2 = Ownership(Uid("a"), Epoch(1)), Ownership(Uid("a"), Epoch(2))
B9, B10 = Ownership(Uid("b"), Epoch(9)), Ownership(Uid("b"), Epoch(10))


def finds(
    records: OwnerRecords, found: dict[int, Ownership], afresh: bool = False, next_owners: dict[int, set[Ownership]] | None = None
) -> bool:
    """Whether it is news that the look which was begun last finds these."""
    return records.found(found, afresh=afresh, next_owners=next_owners or {})


def surprised(records: OwnerRecords, found: dict[int, Ownership], **more: Any) -> bool:
    """Whether it is news that a look finds these, with nothing else done meanwhile."""
    records.look()
    return finds(records, found, **more)


def looked(*owners: Ownership) -> OwnerRecords:
    records = OwnerRecords()
    records.look()
    assert records.found(dict(enumerate(owners)), afresh=True, next_owners={})
    return records


def test_the_same_records_are_no_surprise_and_others_are() -> None:
    records = looked(A1, A1)
    assert not surprised(records, {0: A1, 1: A1})
    assert surprised(records, {0: A1, 1: B9})
    assert (records.known[1], records.surprises) == (B9, 2)


def test_an_own_grant_is_no_surprise() -> None:
    records = looked(A1, A1)
    with records.changing(0):
        records.granted(0, A2)
    assert not surprised(records, {0: A2, 1: A1})


def test_a_record_read_beside_a_concurrent_grant_does_not_count() -> None:
    records = looked(A1, A1)
    with records.changing(0):
        records.look()
        with records.changing(1):
            records.granted(1, A2)
        assert not finds(records, {0: A2, 1: A1}), "0 is under way still, 1 was read before its grant"
        records.granted(0, A2)
    assert records.known == {0: A2, 1: A2}


def test_a_grant_is_under_way_until_it_ends_though_its_pause_has_ended() -> None:
    records = looked(A1)
    pausing, granting = records.changing(0), records.changing(0)
    with granting:
        with pausing:
            records.paused(0, Epoch(1))
        records.look()
        records.granted(0, B9)
    assert not finds(records, {0: A1._replace(paused=True)}), "read before the grant"
    assert records.known == {0: B9}
    assert surprised(records, {0: B10}), "nothing is under way any more"


def test_an_older_record_counts_when_it_is_found_twice() -> None:
    records = looked(B9, B9)
    for found in ({0: A1, 1: B9}, {0: A2, 1: B9}, {0: B9, 1: B9}, {0: A2, 1: B9}):
        assert not surprised(records, found)
    assert surprised(records, {0: A2, 1: B9})
    assert records.known == {0: A2, 1: B9}


def test_a_missing_record_counts_at_once() -> None:
    records = looked(B9)
    assert surprised(records, {0: Ownership(None, Epoch(0))})
    records = looked(B9)
    assert surprised(records, {})


def test_an_own_pause_is_no_surprise_and_another_is() -> None:
    records = looked(A1, A1)
    with records.changing(0):
        records.paused(0, Epoch(1))
    records.paused(1, Epoch(7))
    assert not surprised(records, {0: A1._replace(paused=True), 1: A1})
    assert surprised(records, {0: A1._replace(paused=True), 1: A1._replace(paused=True)})


def test_a_record_read_before_a_concurrent_pause_does_not_count() -> None:
    records = looked(A1)
    records.look()
    with records.changing(0):
        records.paused(0, Epoch(1))
    assert not finds(records, {0: A1})
    assert records.known == {0: A1._replace(paused=True)}


def test_after_a_restart_of_the_server_only_what_is_read_counts() -> None:
    records = looked(A2)
    with records.changing(0):
        assert surprised(records, {0: A1}, afresh=True)
    assert records.known == {0: A1}


def test_a_partition_handed_to_its_next_owner_is_no_surprise() -> None:
    records, b2 = looked(A1, A1), Ownership(Uid("b"), Epoch(2))
    assert not surprised(records, {0: b2, 1: A1}, next_owners={0: {b2}})
    assert records.known[0] == A1, "the answer to the grant will tell"
    assert surprised(records, {0: A2, 1: A1}, next_owners={0: {b2}}), "that one was not next"
    assert surprised(records, {0: b2, 1: A1}), "nor is this one any more"


def test_the_owner_that_a_look_found_is_seen_until_another_is_known() -> None:
    records, b2 = looked(A1, A1), Ownership(Uid("b"), Epoch(2))
    for _ in range(2):
        records.look()
        with records.changing(1):  # a pause of it says nothing
            assert not finds(records, {0: b2, 1: A1}, next_owners={0: {b2}})
    assert (records.known[0], records.seen(0), records.seen(1), records.seen(2)) == (A1, b2, A1, None)
    records.look()
    with records.changing(0):
        finds(records, {0: b2, 1: A1}, next_owners={0: {b2}})
    assert records.seen(0) == b2
    records.granted(0, B9)
    assert records.seen(0) == B9
    records.look()
    finds(records, {0: b2, 1: A1}, next_owners={0: {b2}})
    finds(records, {0: A1, 1: A1}, afresh=True)
    assert records.seen(0) == A1


def test_a_record_read_before_a_reported_hand_over_does_not_count() -> None:
    records, b2 = looked(A1, A1), Ownership(Uid("b"), Epoch(2))
    records.look()
    records.granted(0, b2)
    assert not finds(records, {0: A1, 1: A1})
    assert records.known[0] == b2
