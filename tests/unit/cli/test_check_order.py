"""`baton check-order`, as it is called."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from baton.cli.main import main


def call(*arguments: str | Path, given: bytes | str | None = None) -> Result:
    return CliRunner().invoke(main, ["check-order", *map(str, arguments)], input=given)


def lines(*sequences: int, **fields: Any) -> str:
    return "".join(json.dumps({"key": "k", "sequence": number, **fields}) + "\n" for number in sequences)


def test_a_clean_record_on_standard_input_exits_0() -> None:
    result = call(given=lines(1, 2, 3))
    assert result.exit_code == 0, result.output
    assert "3 records of 1 key: 3 messages processed" in result.output


@pytest.mark.parametrize("sequences", [(1, 3), (1, 3, 2), (1, 2, 2)])
def test_lost_reordered_or_duplicate_records_exit_1(sequences: tuple[int, ...]) -> None:
    assert call(given=lines(*sequences)).exit_code == 1


def test_redelivered_records_exit_0() -> None:
    result = call("-o", "json", given=lines(1, 2) + lines(2, redelivered=True))
    assert result.exit_code == 0
    assert json.loads(result.output)["redelivered"] == 1


def test_json_has_members_and_times() -> None:
    given = lines(1, member="a", epoch=1, time=1.5) + lines(3, member="b", epoch=2, time="2026-11-22T09:00:00Z", partition=4)
    result = call("-o", "json", "-", given=given)
    report = json.loads(result.output)
    gap, early = report["findings"]
    assert (report["gaps"], report["out_of_order"], report["keys_at_fault"]) == (1, 1, 1)
    assert gap["before"] == {
        "member": "a",
        "partition": None,
        "epoch": 1,
        "since": "1970-01-01T00:00:01.500Z",
        "until": "1970-01-01T00:00:01.500Z",
    }
    assert (early["by"]["member"], early["by"]["since"]) == ("b", "2026-11-22T09:00:00.000Z")
    assert report["worst"] == [{"key": "k", "processed": 2, "gaps": 1, "duplicates": 0, "out_of_order": 1, "redelivered": 0}]


def test_several_files_are_put_in_order_by_time(tmp_path: Path) -> None:
    former, next_owner = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    former.write_text(lines(1, time=1) + lines(2, time=2))
    next_owner.write_text(lines(3, time=3) + lines(4, time=4))
    assert call(next_owner, former).exit_code == 0
    next_owner.write_text(lines(3))
    result = call(next_owner, former)
    assert result.exit_code == 2
    assert 'b.jsonl, line 1: "time" is missing' in result.output


def test_a_list_of_sent_messages_shows_losses_at_the_end(tmp_path: Path) -> None:
    sent = tmp_path / "sent.jsonl"
    sent.write_text(lines(1, 2, 3))
    assert call(given=lines(1, 2)).exit_code == 0
    assert call("--produced", sent, given=lines(1, 2)).exit_code == 1
    assert call("--produced", sent, given="").exit_code == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "nothing was checked"),
        ("nonsense\n", "line 1: not JSON"),
        ("\n[1]\n", "line 2: not an object"),
        ('{"sequence": 1}', '"key" is missing'),
        ('{"key": 7, "sequence": 1}', '"key" is 7: write a text'),
        ('{"key": "k", "sequence": "1"}', "\"sequence\" is '1': write a whole number"),
        ('{"key": "k", "sequence": 1, "redeliverd": true}', "no field 'redeliverd'; did you mean redelivered?"),
        ('{"key": "k", "sequence": 1, "batch": 7}', "no field 'batch'; choose one of epoch, key, late"),
        ('{"key": "k", "sequence": -1}', '"sequence" is'),
        ('{"key": "k", "sequence": true}', '"sequence" is'),
        ('{"key": "k", "sequence": 1, "redelivered": "yes"}', "write true or false"),
        ('{"key": "k", "sequence": 1, "time": "soon"}', "write seconds since 1970"),
        ('{"key": "k", "sequence": 1, "time": NaN}', "write seconds since 1970"),
        ('{"key": "k", "sequence": 1, "partition": "\\u001b[2J"}', "write a whole number"),
        (b"\xff\xfe\n", "line 1: not JSON"),
        ('{"key": "%s"}' % ("k" * 70_000), "longer than 65,536 bytes"),
        ("[" * 60_000, "not JSON"),
    ],
)
def test_an_invalid_line_is_reported_with_its_place_and_the_cure(given: bytes | str, words: str) -> None:
    result = call(given=given)
    assert result.exit_code == 2
    assert words in result.stderr and len(result.stderr.splitlines()) == 1 and "\x1b" not in result.stderr
    assert not result.stdout


def test_a_missing_file_is_reported_in_one_line(tmp_path: Path) -> None:
    for path in (tmp_path / "none.jsonl", tmp_path):
        result = call(path)
        assert result.exit_code == 2 and str(path) in result.stderr and len(result.stderr.splitlines()) == 1


def test_standard_input_is_read_once() -> None:
    assert "only once" in call("-", "--produced", "-", given="").output


def test_a_sent_message_with_an_unknown_field_is_rejected(tmp_path: Path) -> None:
    sent = tmp_path / "sent.jsonl"
    sent.write_text(lines(1, sequnce=2))
    assert "line 1: a record has no field 'sequnce'; did you mean sequence?" in call("--produced", sent, given=lines(1)).stderr


def test_a_hostile_key_colours_nothing() -> None:
    result = call(given=lines(1, 3).replace('"k"', '"\\u001b[31m[red]k"'))
    assert result.exit_code == 1
    assert "\x1b" not in result.output and "[red]k" in result.output
