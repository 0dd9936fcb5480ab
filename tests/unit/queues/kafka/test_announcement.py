"""Announcements as they stand beside an offset."""

import pytest

from baton.queues.kafka.announcement import ANYBODY, LONGEST, Announcement, Said, mark, read


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
