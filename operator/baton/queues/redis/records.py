"""What a server has recorded, taken as what it should be. The server may be anybody's, so nothing of it is believed unseen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from re import ASCII, fullmatch
from typing import Any

from baton.model.ids import Epoch, Uid
from baton.queues.protocol import Owner
from baton.queues.redis.routing import SLOTS, RoutingTable

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


def number(raw: object, what: str) -> int:
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
    found = number(raw, "partitions")
    if not 1 <= found <= SLOTS:
        raise ForeignRecord("partitions")
    return found


def word(raw: object, what: str) -> str:
    """An id: letters, digits and a few signs. Raises ForeignRecord."""
    text = raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw)
    if not fullmatch(r"[a-zA-Z0-9._:/-]{1,320}", text, ASCII):
        raise ForeignRecord(what)
    return text


def owner(raw: Sequence[object]) -> Owner:
    """Of uid, epoch and paused. Raises ForeignRecord."""
    uid, epoch, paused = raw
    return Owner(Uid(word(uid, "uid")) if uid else None, Epoch(number(epoch, "epoch")), paused in (1, b"1"))


def table(version: Any, text: Any, partitions: int) -> RoutingTable:
    """The routing table of so many partitions. Raises ForeignRecord."""
    try:
        found = RoutingTable.from_text(number(version, "version"), text[: 16 * SLOTS].decode())
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
    after = number(version, "version") + (not published)
    return ResizeRecord(
        before=table(after - 1, former, SLOTS),
        after=table(after, text if published else following, partitions),
        partitions=partitions,
        published=published,
    )
