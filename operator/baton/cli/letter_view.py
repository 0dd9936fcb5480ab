"""Dead letters for people and for programs. Keys, values and reasons are anybody's: none of them reaches a terminal as it is."""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from baton.cli.printing import table
from baton.model.wording import counted
from baton.queues.dead_letters import Letter, LetterLine

if TYPE_CHECKING:
    from rich.table import Table

MOST_SHOWN = 4_096
"""Bytes of a value on a terminal."""
_KEY, _WHY = 32, 80
"""Characters in a list."""
_LINE = 1_000
"""Characters of a line about one letter."""
_ROW = 16


def letter_table(lines: Sequence[LetterLine]) -> "Table":
    """For people: a row for each dead letter."""
    rows = (
        (
            one.letter,
            one.offset,
            _cut(_shown(one.key), _KEY),
            "?" if one.deliveries is None else f"{one.deliveries:,}",
            f"{one.size:,}",
            _died(one),
            _cut(one.why, _WHY),
        )
        for one in lines
    )
    return table(("LETTER", "OFFSET", "KEY", "TRIES", "BYTES", "DIED", "WHY"), rows, right=("TRIES", "BYTES"))


def line_json(one: LetterLine) -> dict[str, object]:
    """For programs: a dead letter without its value, in the CLI's words."""
    return {
        "letter": str(one.letter),
        "partition": one.letter.partition,
        "offset": one.offset,
        "key": one.key.decode(errors="replace"),
        "keySize": one.key_size,
        "size": one.size,
        "timestamp": one.timestamp,
        "deliveries": one.deliveries,
        "why": one.why,
    }


def lines(one: Letter, *, as_hex: bool) -> Iterator[str]:
    """One letter, with the beginning of its value."""
    yield f"letter      {one.letter}"
    yield f"offset      {one.offset}"
    yield f"key         {_cut(_shown(one.key), _LINE)}"
    sent = "by no producer of Baton: it cannot be sent again" if one.timestamp is None else _moment(one.timestamp)
    yield f"sent        {sent}"
    yield f"died        {_died(one)}"
    yield f"deliveries  {'?' if one.deliveries is None else one.deliveries}"
    yield f"why         {_cut(one.why, _LINE)}"
    for name, value in one.headers.items():
        yield f"header      {_cut(f'{name}: {_shown(value)}', _LINE)}"
    text = None if as_hex else readable(one.value)
    yield f"value       {counted(len(one.value), 'byte')}, {'in hexadecimal' if text is None else 'text'}"
    yield from _dump(one.value[:MOST_SHOWN]) if text is None else text[:MOST_SHOWN].split("\n")
    if len(one.value if text is None else text) > MOST_SHOWN:
        yield "… the rest is left out: --save FILE writes all of it"


def letter_json(one: Letter) -> dict[str, object]:
    """Texts where the bytes are UTF-8, and the bytes always."""
    return {
        "letter": str(one.letter),
        "partition": one.letter.partition,
        "offset": one.offset,
        "key": _text(one.key),
        "keyBase64": b64encode(one.key).decode(),
        "value": _text(one.value),
        "valueBase64": b64encode(one.value).decode(),
        "headers": {name: _text(value) for name, value in one.headers.items()},
        "headersBase64": {name: b64encode(value).decode() for name, value in one.headers.items()},
        "timestamp": one.timestamp,
        "deliveries": one.deliveries,
        "why": one.why,
    }


def readable(value: bytes) -> str | None:
    """As text, if it is one that a terminal shows as it is."""
    text = _text(value)
    return text if text is not None and all(char.isprintable() or char in "\n\t" for char in text) else None


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _shown(value: bytes) -> str:
    text = readable(value)
    return repr(value)[1:] if text is None or "\n" in text else text


def _dump(value: bytes) -> Iterator[str]:
    for begin in range(0, len(value), _ROW):
        row = value[begin : begin + _ROW]
        seen = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        yield f"{begin:08x}  {row.hex(' '):<{3 * _ROW}} {seen}"


def _died(one: LetterLine | Letter) -> str:
    """Its id begins with the time."""
    return _moment(one.letter.died()[0])


def _moment(milliseconds: int) -> str:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return "?"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
