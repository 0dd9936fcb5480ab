"""Announcements as they stand beside an offset."""

import pytest

from baton.queues.kafka.announcement import LONGEST, Announcement, Said, read


def test_what_is_written_is_read() -> None:
    announcement = Announcement("orders", (Said(3, 0, 7, -1), Said(4, 5, 8, 2500)))
    assert read(announcement.to_text() + "\0") == announcement


def test_what_was_said_first_is_left_out_where_there_is_too_much() -> None:
    announcement = Announcement("q" * 200, tuple(Said(10**6 + number, 9999, 10**9, 10**6) for number in range(300)))
    text = announcement.to_text()
    found = read(text)
    assert len(text) <= LONGEST and found is not None
    assert found.said and found.said == announcement.said[-len(found.said) :]


@pytest.mark.parametrize(
    "text", [None, "", "{}", "[1]", '{"baton":1}', '{"baton":1,"queue":"q","said":[[1]]}', "[" * 4000, "x" * 10**6]
)
def test_what_does_not_parse_is_not_batons(text: str | None) -> None:
    assert read(text) is None
