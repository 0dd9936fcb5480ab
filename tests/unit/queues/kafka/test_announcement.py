"""Announcements as they stand beside an offset."""

import pytest

from baton.model.ids import Uid
from baton.queues.kafka.announcements import ANYBODY, LONGEST, Announcement, Said, mark, read


def test_what_is_written_is_read() -> None:
    announcement = Announcement("orders", (Said(3, 0, 7, -1, 0, 12), Said(4, 5, 8, 2500, ANYBODY, 13)))
    assert read(announcement.to_text() + "\0") == announcement


def test_what_was_said_first_is_left_out_where_there_is_too_much() -> None:
    announcement = Announcement("q" * 200, tuple(Said(10**6 + number, 9999, 10**9, 10**6, 9999, 9999) for number in range(300)))
    text = announcement.to_text()
    found = read(text)
    assert len(text) <= LONGEST and found is not None
    assert found.said and found.said == announcement.said[-len(found.said) :]


@pytest.mark.parametrize("partition", [-1, 2**31])
def test_a_partition_that_kafka_cannot_have_is_not_batons(partition: int) -> None:
    good, forged = Said(1, 2**31 - 1, 1, -1, 0, 0), Said(1, partition, 1, -1, 0, 0)
    assert read(Announcement("q", (good,)).to_text()) == Announcement("q", (good,))
    assert read(Announcement("q", (good, forged)).to_text()) is None


@pytest.mark.parametrize(
    "text", [None, "", "{}", "[1]", '{"baton":1}', '{"baton":1,"queue":"q","said":[[1]]}', "[" * 4000, "x" * 10**6]
)
def test_what_does_not_parse_is_not_batons(text: str | None) -> None:
    assert read(text) is None


def test_pods_are_told_apart_by_short_marks() -> None:
    marks = {mark(f"0b4f8c{number:02}-uid") for number in range(20)}
    assert len(marks) == 20 and all(0 < one < 10_000 for one in marks)
    assert mark(None) == mark("") == 0, "nobody"


B = Uid("0b4f8c11-uid")


def handed(partition: int, uid: Uid = B, then: int = 9) -> Said:
    return Said(4, partition, 8, 2500, 12, mark(uid), then)


def test_to_whom_an_owner_is_to_hand_its_partition_is_said_with_the_uid() -> None:
    by_operator = Said(4, 1, 8, 2500, 12, mark(B))
    found = read(Announcement("orders", (handed(0), by_operator), {mark(B): B}).to_text())
    assert found is not None
    assert [found.receiver(one) for one in found.said] == [B, None]
    assert found.said == (handed(0), by_operator)


def test_a_uid_is_said_once_and_only_of_those_that_get_something() -> None:
    text = Announcement("orders", tuple(handed(number) for number in range(64)), {mark(B): B, 7: Uid("nobody")}).to_text()
    assert (text.count(B), text.count("nobody")) == (1, 0)


def test_who_is_not_told_apart_gets_nothing_from_its_owner() -> None:
    found = read(Announcement("orders", (handed(0),)).to_text())
    assert found is not None and found.receiver(found.said[0]) is None


def test_a_uid_that_is_not_that_of_its_mark_is_not_believed() -> None:
    found = read(Announcement("orders", (handed(0),), {mark(B): Uid("another")}).to_text())
    assert found is not None and found.receiver(found.said[0]) is None


@pytest.mark.parametrize("then", [8, 7, 2**53])
def test_an_epoch_that_no_grant_would_have_is_not_handed_on(then: int) -> None:
    found = read(Announcement("orders", (handed(0, then=then),), {mark(B): B}).to_text())
    assert found is not None and found.receiver(found.said[0]) is None


def test_what_is_too_long_for_a_uid_is_none() -> None:
    long = Uid("x" * 300)
    found = read(Announcement("orders", (handed(0, long),), {mark(long): long}).to_text())
    assert found is not None and found.receiver(found.said[0]) is None
