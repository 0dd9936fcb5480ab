"""Parses a server's answers and records without trusting them, as a queue's URL may name any server.

An answer of the wrong shape raises OddAnswerError. An answer of the right shape that Baton did not write raises ForeignRecord.
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
    """The server's answer is not one that Redis gives. The message describes it and quotes nothing of it."""


def number(raw: object) -> int:
    """Parse an integer."""
    if not isinstance(raw, int):
        raise OddAnswerError("no number where one belongs")
    return raw


def text(raw: object) -> bytes | None:
    """Parse a text or nil."""
    if raw is not None and not isinstance(raw, bytes):
        raise OddAnswerError("no text where one belongs")
    return raw


def fields(count: int) -> Callable[[object], list[bytes | None]]:
    """Return a parser of an array of `count` texts or nils."""
    return lambda raw: [text(one) for one in _array(raw, count)]


def scalars(count: int) -> Callable[[object], list[bytes | int | None]]:
    """Return a parser of an array of `count` texts, integers or nils."""
    return lambda raw: [one if isinstance(one, int) else text(one) for one in _array(raw, count)]


def some(read: Callable[[object], T]) -> Callable[[object], list[T]]:
    """Return a parser of a non-empty array whose elements `read` parses."""
    return lambda raw: [read(one) for one in (raw if isinstance(raw, list) and raw else _array(raw, 1))]


def _array(raw: object, count: int) -> list[object]:
    if not isinstance(raw, list) or len(raw) != count:
        raise OddAnswerError(f"no array of {count} where one belongs")
    return raw


def info(raw: object) -> Mapping[str, str]:
    """Parse INFO into its lines by name."""
    lines = (text(raw) or b"").decode(errors="replace").splitlines()
    return {name: value for name, colon, value in (line.partition(":") for line in lines) if colon}


def line(lines: Mapping[str, str], name: str, pattern: str, default: str | None = None) -> str:
    """Return the beginning of a line of INFO that matches; the default if the line is missing."""
    found = fullmatch(rf"({pattern})([^0-9A-Za-z].*)?", lines.get(name, default or ""), ASCII)
    if found is None:
        raise OddAnswerError(f"INFO without a readable {name}")
    return found[1]


Way = tuple[int, int]
"""The partitions that a slot moves from and to."""


@dataclass(frozen=True)
class ResizeRecord:
    """A change of the number of partitions, as recorded at the queue."""

    before: RoutingTable
    after: RoutingTable
    partitions: int
    """The number of partitions after the change."""
    published: bool
    """Whether producers see the table `after`: all moving slots have been opened at their new partitions."""

    @property
    def version(self) -> int:
        """The version of the table `after`, which all steps carry."""
        return self.after.version

    @cached_property
    def ways(self) -> Mapping[Way, Sequence[int]]:
        """The moving slots, by their way."""
        found: dict[Way, list[int]] = {}
        for slot, way in enumerate(zip(self.before.partitions, self.after.partitions, strict=True)):
            if way[0] != way[1]:
                found.setdefault(way, []).append(slot)
        return found

    @cached_property
    def leaving(self) -> Mapping[int, Sequence[int]]:
        """The moving slots, by the partition that they leave."""
        found: dict[int, list[int]] = {}
        for (source, _), slots in self.ways.items():
            found.setdefault(source, []).extend(slots)
        return found


class ForeignRecord(RedisError):  # noqa: N818 - what was found
    """A record that Baton did not write. The message names the record and does not quote it."""


def recorded(raw: object, what: str) -> int:
    """Parse an integer that JSON, Lua and Prometheus can represent; nil is 0. Raises ForeignRecord."""
    if raw is None:
        return 0
    text = raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw)
    if not fullmatch(r"-?[0-9]{1,16}", text, ASCII):
        raise ForeignRecord(what)
    if abs(found := int(text)) > 2**53:
        raise ForeignRecord(what)
    return found


def count(raw: object) -> int:
    """Parse a number of partitions. Raises ForeignRecord."""
    found = recorded(raw, "partitions")
    if not 1 <= found <= SLOTS:
        raise ForeignRecord("partitions")
    return found


def word(raw: object, what: str) -> str:
    """Parse an id of letters, digits and `._:/-`. Raises ForeignRecord."""
    text = raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw)
    if not fullmatch(r"[a-zA-Z0-9._:/-]{1,320}", text, ASCII):
        raise ForeignRecord(what)
    return text


def owner(raw: Sequence[object]) -> Ownership:
    """Parse an owner record: uid, epoch and paused. Raises ForeignRecord."""
    uid, epoch, paused = raw
    return Ownership(Uid(word(uid, "uid")) if uid else None, Epoch(recorded(epoch, "epoch")), paused in (1, b"1"))


def table(version: Any, text: Any, partitions: int) -> RoutingTable:
    """Parse a routing table for this number of partitions. Raises ForeignRecord."""
    try:
        found = RoutingTable.from_text(recorded(version, "version"), text[: 16 * SLOTS].decode())
    except (ValueError, TypeError, AttributeError):
        raise ForeignRecord("table") from None
    if not 0 <= min(found.partitions) <= max(found.partitions) < partitions:
        raise ForeignRecord("table")
    return found


def change(version: object, text: object, former: object, following: object, target: object) -> ResizeRecord | None:
    """Parse the record of a change in progress: version and text of the table in force, the table before the change, the next
    table (nil: it is in force), and the number of partitions after the change. Raises ForeignRecord."""
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
