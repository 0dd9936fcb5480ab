"""The text of owner records: only Baton's own is accepted."""

import json
from dataclasses import replace
from typing import Any

import pytest

from baton.model.ids import Epoch, Uid
from baton.queues.kafka.record import LONGEST, Record, Token, read

RECORD = Record(
    group="g-1",
    queue="orders",
    uid=Uid("a"),
    epoch=Epoch(7),
    topic_id="0" * 32,
    token=Token(12, 3),
    first=4,
    reader="a-process",
    reserved=12,
    again=9,
    stale=5,
    tries={3: 1, 8: 2},
    ends={8: 4},
    released=True,
    most=2,
    unacked=500,
    dead_letters="dead",
    query=1_700_000_000_000_000,
)


EMPTY: tuple[object, ...] = ([], {}, 0, False)
TRIES: list[object] = [{}, [[1]], [[1, -1]], [[1, 2]] * 51]
ENDS: list[object] = [{}, [[1]], [[1, -1]], [[1, 2]] * 2]


def test_a_record_reads_back_as_written() -> None:
    assert read(RECORD.to_text()) == RECORD
    nobody = Record(group="", queue="q", uid=None, epoch=Epoch(1), topic_id="x", token=Token(0, 0), first=1)
    assert read(nobody.to_text()) == nobody
    assert len(RECORD.to_text()) < LONGEST // 4


def test_a_nul_from_clients_in_c_ends_the_record() -> None:
    assert read(RECORD.to_text() + "\0") == RECORD
    assert read(RECORD.to_text() + "\0rest") == RECORD


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "somebody else's",
        "[1]",
        "{}",
        '{"baton": 2}',
        '{"baton": 1}',
        "[" * 4000,
        "x" * 100_000,
        *(json.dumps(json.loads(RECORD.to_text()) | change) for change in ({"epoch": -1}, {"epoch": True}, {"token": [1]})),
        json.dumps(json.loads(RECORD.to_text()) | {"token": [1, 2**15]}),
        *(json.dumps(json.loads(RECORD.to_text()) | change) for change in ({"uid": 5}, {"topic": None}, {"first": "4"})),
        *(json.dumps(json.loads(RECORD.to_text()) | {"uid": uid}) for uid in EMPTY),
        *(json.dumps(json.loads(RECORD.to_text()) | change) for change in ({"reader": 1}, {"again": "9"}, {"first": 2**63})),
        *(json.dumps(json.loads(RECORD.to_text()) | change) for change in ({"epoch": 2**53}, {"query": 2**53}, {"baton": 2})),
        *(json.dumps(json.loads(RECORD.to_text()) | {"tries": tries}) for tries in TRIES),
        *(json.dumps(json.loads(RECORD.to_text()) | {"ends": ends}) for ends in ENDS),
    ],
)
def test_a_text_that_does_not_parse_is_not_batons(text: str | None) -> None:
    assert read(text) is None


def test_only_some_failures_are_written_so_the_record_stays_short() -> None:
    many = replace(RECORD, tries={10**12 + offset: 10**6 for offset in range(500)})
    text = many.to_text()
    found = read(text)
    assert len(text) < LONGEST and found is not None
    assert sorted(found.tries) == [10**12 + offset for offset in range(50)]


@pytest.mark.parametrize(
    ("change", "again"),
    [
        ({"query": 0}, 9),  # it released
        ({}, 12),  # a query never does
        ({"query": 0, "released": False}, 12),  # it may have handed out what it had reserved,
        ({"released": False, "reserved": 40}, 20),  # but no more than there was
        ({"query": 0, "released": False, "reader": ""}, 9),  # nobody read
        ({"again": 15}, 15),  # an owner before had more
    ],
)
def test_again_ends_at_the_reservation(change: dict[str, Any], again: int) -> None:
    assert replace(RECORD, **change).again_for_next(20) == again


@pytest.mark.parametrize(
    ("change", "ends"),
    [
        ({}, {8: 3}),
        ({"ends": {3: 1}}, {8: 1}),
        ({"ends": {12: 3}}, {8: 1}),  # the offset was set back since
        ({"released": True}, {8: 2}),  # it released
        ({"reader": ""}, {8: 2}),  # nobody read
        ({"reserved": 8}, {8: 2}),  # it was handed out nothing
        ({"reserved": 40, "end": 8}, {8: 2}),  # nothing was there
    ],
)
def test_a_process_without_a_last_record_counts_for_its_first_entry(change: dict[str, Any], ends: dict[int, int]) -> None:
    end = change.pop("end", 20)
    left = replace(RECORD, query=0, released=False, ends={8: 2})
    assert replace(left, **change).ends_for_next(8, end) == ends


@pytest.mark.parametrize(
    ("change", "stale"),
    [
        ({"query": 0}, 5),  # it released
        ({}, 12),  # a query never does
        ({"query": 0, "released": False, "reserved": 40}, 40),  # it may read on, also what comes yet
        ({"query": 0, "released": False, "reader": "", "stale": 30}, 30),  # nobody read since
        ({"query": 0, "released": False, "stale": 30}, 30),
    ],
)
def test_stale_covers_the_whole_reservation(change: dict[str, Any], stale: int) -> None:
    assert replace(RECORD, **change).stale_for_next() == stale


def test_again_and_stale_are_both_marked() -> None:
    assert (RECORD.marked, replace(RECORD, stale=30).marked) == (9, 30)


def test_counts_of_finished_entries_are_dropped() -> None:
    assert (RECORD.at(8).tries, RECORD.at(8).ends, RECORD.at(9).ends) == ({8: 2}, {8: 4}, {})
    assert RECORD.at(8).again == 9 and RECORD.at(9).again == 0
    late = replace(RECORD, stale=30)
    assert late.at(29).stale == 30 and late.at(30).stale == 0
