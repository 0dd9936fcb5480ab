"""Records as lines of JSON. They come from outside: lines are limited, checked, and refused with their place and a cure."""

import heapq
import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, BinaryIO

from baton.model.wording import choose, one_line, quoted
from baton.order.checker import Processing

LONGEST = 65_536
"""The most bytes of a line."""
LONGEST_TEXT = 1_024
"""The most characters of a key, a member or a run."""
_FIELDS = frozenset(Processing._fields)
_HIGHEST = 2**63 - 1
_LATEST = 253_402_300_800
"""Seconds since 1970: the year 10,000."""


class RecordError(ValueError):
    """An invalid line. The message is one line, with its place and a cure."""


def processings(source: BinaryIO, name: str) -> Iterator[Processing]:
    """The records of a file, in its order, without empty lines."""
    for place, fields in _objects(source, name):
        yield _processing(fields, place)


def produced(source: BinaryIO, name: str) -> dict[str, tuple[int, int]]:
    """By key the lowest and the highest sequence in a producer's records."""
    found: dict[str, tuple[int, int]] = {}
    for place, fields in _objects(source, name):
        key, sequence = _text(fields, "key", place), _whole(fields, "sequence", place)
        low, high = found.get(key, (sequence, sequence))
        found[key] = min(low, sequence), max(high, sequence)
    return found


def in_order_of_time(files: Iterable[tuple[BinaryIO, str]]) -> Iterator[Processing]:
    """The records of several files, merged by their times. The order within a file is kept, even if its times go back."""
    timed = (_timed(source, name) for source, name in files)
    return (one for _, one in heapq.merge(*timed, key=itemgetter(0)))


def _timed(source: BinaryIO, name: str) -> Iterator[tuple[float, Processing]]:
    """The records, each with the latest time so far."""
    latest = float("-inf")
    for place, fields in _objects(source, name):
        one = _processing(fields, place)
        if one.time is None:
            raise RecordError(f'{place}: "time" is missing, by which several files are ordered: record it, or use one file')
        latest = max(latest, one.time)
        yield latest, one


def _objects(source: BinaryIO, name: str) -> Iterator[tuple[str, dict[str, object]]]:
    number = 0
    while line := source.readline(LONGEST + 1):
        number += 1
        place = f"{name}, line {number}"
        if len(line) > LONGEST:
            raise RecordError(f"{place}: longer than {LONGEST:,} bytes: write one record per line")
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            raise RecordError(f'{place}: not JSON: write a record such as {{"key": "a", "sequence": 1}}') from None
        if not isinstance(fields, dict):
            raise RecordError(f'{place}: not an object: write a record such as {{"key": "a", "sequence": 1}}')
        if not fields.keys() <= _FIELDS:  # a misspelt optional field would change the findings
            name = next(name for name in fields if name not in _FIELDS)
            raise RecordError(f"{place}: a record has no field {quoted(name, 60)}; {choose(name, _FIELDS)}")
        yield place, fields


def _processing(fields: dict[str, object], place: str) -> Processing:
    return Processing(
        _text(fields, "key", place),
        _whole(fields, "sequence", place),
        redelivered=_flag(fields, "redelivered", place),
        partition=_perhaps(_whole, fields, "partition", place),
        member=_perhaps(_text, fields, "member", place) or "",
        epoch=_perhaps(_whole, fields, "epoch", place),
        time=_perhaps(_time, fields, "time", place),
        run=_perhaps(_text, fields, "run", place) or "",
        late=_flag(fields, "late", place),
    )


def _perhaps(read: Callable[[dict[str, Any], str, str], Any], fields: dict[str, Any], name: str, place: str) -> Any:
    return None if fields.get(name) is None else read(fields, name, place)


def _text(fields: dict[str, object], name: str, place: str) -> str:
    value = fields.get(name)
    if isinstance(value, str) and len(value) <= LONGEST_TEXT:
        return value
    raise _wrong(fields, name, place, f"a text of at most {LONGEST_TEXT:,} characters")


def _whole(fields: dict[str, object], name: str, place: str) -> int:
    value = fields.get(name)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _HIGHEST:
        return value
    raise _wrong(fields, name, place, "a whole number from 0")


def _flag(fields: dict[str, object], name: str, place: str) -> bool:
    value = fields.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise _wrong(fields, name, place, "true or false")


def _time(fields: dict[str, object], name: str, place: str) -> float:
    value = fields.get(name)
    if isinstance(value, str) and len(value) <= LONGEST_TEXT:
        try:
            read = datetime.fromisoformat(value)
        except ValueError:
            read = None
        if read is not None:
            value = (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _LATEST:
        return float(value)
    raise _wrong(fields, name, place, "seconds since 1970, or a time such as 2026-11-22T09:00:00Z")


def _wrong(fields: dict[str, object], name: str, place: str, form: str) -> RecordError:
    if name not in fields:
        return RecordError(f'{place}: "{name}" is missing: write {form}')
    value = fields[name]
    shown = quoted(value, 60) if isinstance(value, str) else one_line(json.dumps(value), 60)
    return RecordError(f'{place}: "{name}" is {shown}: write {form}')
