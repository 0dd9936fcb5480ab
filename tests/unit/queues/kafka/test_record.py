"""The owner record as it stands beside an offset: what is Baton's is read, and nothing else."""

import json

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
    again=9,
    released=True,
    most=2,
    dead_letters="dead",
)


def test_what_is_written_is_read() -> None:
    assert read(RECORD.to_text()) == RECORD
    nobody = Record(group="", queue="q", uid=None, epoch=Epoch(1), topic_id="x", token=Token(0, 0), first=1)
    assert read(nobody.to_text()) == nobody
    assert len(RECORD.to_text()) < LONGEST // 4


def test_what_clients_in_c_put_behind_it_is_no_part_of_it() -> None:
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
        *(json.dumps(json.loads(RECORD.to_text()) | change) for change in ({"uid": 5}, {"topic": None}, {"first": "4"})),
        json.dumps(json.loads(RECORD.to_text()) | {"epoch": 2**63}),
    ],
)
def test_what_does_not_parse_is_not_batons(text: str | None) -> None:
    assert read(text) is None
