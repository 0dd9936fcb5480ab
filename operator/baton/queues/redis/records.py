"""Parses a server's answers and records, and trusts none of them: a queue's URL may name any server.

An answer of another form is an OddAnswerError, and nothing fails elsewhere; in one of the right form,
what Baton did not write is a ForeignRecord.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from re import ASCII, fullmatch
from typing import Any, TypeVar

from redis.exceptions import RedisError

from baton.model.ids import Epoch, Uid
from baton.queues.protocol import Ownership
from baton.queues.redis.routing import SLOTS, RoutingTable

T = TypeVar("T")


class OddAnswerError(RedisError):
    """A server answers as no Redis does. Names what came in words of Baton's own, and repeats nothing of it."""


def number(raw: object) -> int:
    """A whole number."""
    if not isinstance(raw, int):
        raise OddAnswerError("no number where one belongs")
    return raw


def text(raw: object) -> bytes | None:
    """A text, or nothing."""
    if raw is not None and not isinstance(raw, bytes):
        raise OddAnswerError("no text where one belongs")
    return raw


def fields(count: int) -> Callable[[object], list[bytes | None]]:
    """For an array of so many texts or nothings."""
    return lambda raw: [text(one) for one in _array(raw, count)]


def scalars(count: int) -> Callable[[object], list[bytes | int | None]]:
    """For an array of so many texts, numbers or nothings."""
    return lambda raw: [one if isinstance(one, int) else text(one) for one in _array(raw, count)]


def some(read: Callable[[object], T]) -> Callable[[object], list[T]]:
    """For an array of at least one, each read so."""
    return lambda raw: [read(one) for one in (raw if isinstance(raw, list) and raw else _array(raw, 1))]


def _array(raw: object, count: int) -> list[object]:
    if not isinstance(raw, list) or len(raw) != count:
        raise OddAnswerError(f"no array of {count} where one belongs")
    return raw


def info(raw: object) -> Mapping[str, str]:
    """The lines of INFO."""
    lines = (text(raw) or b"").decode(errors="replace").splitlines()
    return {name: value for name, colon, value in (line.partition(":") for line in lines) if colon}


def line(lines: Mapping[str, str], name: str, pattern: str, default: str | None = None) -> str:
    """The beginning of a line of INFO; the default where there is no such line."""
    found = fullmatch(rf"({pattern})([^0-9A-Za-z].*)?", lines.get(name, default or ""), ASCII)
    if found is None:
        raise OddAnswerError(f"INFO without a readable {name}")
    return found[1]


Way = tuple[int, int]
"""From which partition to which."""


@dataclass(frozen=True)
class ResizeRecord:
    """One change, as it is recorded at the queue."""

    before: RoutingTable
    after: RoutingTable
    partitions: int
    """How many there will be."""
    published: bool
    """Producers are told of the table after it: all slots that move have been opened at their new places."""

    @property
    def version(self) -> int:
        """Of the table after it: the version of all steps."""
        return self.after.version

    @cached_property
    def ways(self) -> Mapping[Way, Sequence[int]]:
        """The slots that move."""
        found: dict[Way, list[int]] = {}
        for slot, way in enumerate(zip(self.before.partitions, self.after.partitions, strict=True)):
            if way[0] != way[1]:
                found.setdefault(way, []).append(slot)
        return found

    @cached_property
    def leaving(self) -> Mapping[int, Sequence[int]]:
        """By partition, the slots that go from it."""
        found: dict[int, list[int]] = {}
        for (source, _), slots in self.ways.items():
            found.setdefault(source, []).extend(slots)
        return found


class ForeignRecord(Exception):  # noqa: N818 - what was found
    """Something else than Baton wrote this record. Says which it is, and not what stands there."""


def recorded(raw: object, what: str) -> int:
    """A whole number that JSON, Lua and Prometheus can hold; nothing is 0. Raises ForeignRecord."""
    if raw is None:
        return 0
    text = raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw)
    if not fullmatch(r"-?[0-9]{1,16}", text, ASCII):
        raise ForeignRecord(what)
    if abs(found := int(text)) > 2**53:
        raise ForeignRecord(what)
    return found


def count(raw: object) -> int:
    """Of partitions. Raises ForeignRecord."""
    found = recorded(raw, "partitions")
    if not 1 <= found <= SLOTS:
        raise ForeignRecord("partitions")
    return found


def word(raw: object, what: str) -> str:
    """An id: letters, digits and a few signs. Raises ForeignRecord."""
    text = raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw)
    if not fullmatch(r"[a-zA-Z0-9._:/-]{1,320}", text, ASCII):
        raise ForeignRecord(what)
    return text


def owner(raw: Sequence[object]) -> Ownership:
    """Of uid, epoch and paused. Raises ForeignRecord."""
    uid, epoch, paused = raw
    return Ownership(Uid(word(uid, "uid")) if uid else None, Epoch(recorded(epoch, "epoch")), paused in (1, b"1"))


def table(version: Any, text: Any, partitions: int) -> RoutingTable:
    """The routing table of so many partitions. Raises ForeignRecord."""
    try:
        found = RoutingTable.from_text(recorded(version, "version"), text[: 16 * SLOTS].decode())
    except (ValueError, TypeError, AttributeError):
        raise ForeignRecord("table") from None
    if not 0 <= min(found.partitions) <= max(found.partitions) < partitions:
        raise ForeignRecord("table")
    return found


def change(version: object, text: object, former: object, following: object, target: object) -> ResizeRecord | None:
    """The change of the number of partitions that is under way, from the version and text of the table in force, the table before
    it, the table that follows (nothing: it is in force), and the partitions after it. Raises ForeignRecord."""
    if former is None:
        return None
    partitions, published = count(target), following is None
    after = recorded(version, "version") + (not published)
    return ResizeRecord(
        before=table(after - 1, former, SLOTS),
        after=table(after, text if published else following, partitions),
        partitions=partitions,
        published=published,
    )
