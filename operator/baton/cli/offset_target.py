"""Where a group is to go on: earliest, latest, a time or an offset. Pure."""

from dataclasses import dataclass
from datetime import datetime
from re import ASCII, fullmatch

import click

from baton.cli.names import shown
from baton.queues.offsets import PartitionOffsets, Reached

EARLIEST, LATEST = "earliest", "latest"


@dataclass(frozen=True, slots=True)
class OffsetTarget:
    """As it was asked for; at most one of the numbers is there."""

    text: str
    offset: int | None = None
    since: int | None = None
    """Milliseconds since 1970."""

    def before(self, now: PartitionOffsets) -> int:
        """The offset that is meant, and for a time the one that it cannot be behind. Raises OutsideError."""
        if self.text == EARLIEST:
            return now.earliest
        if self.offset is None:
            return now.end
        if not now.earliest <= self.offset <= now.end:
            raise OutsideError(f"has the offsets {now.earliest} to {now.end}; earlier entries are gone")
        return self.offset

    def known(self, now: PartitionOffsets) -> Reached | None:
        """What is known without a look at entries. None: they have to be looked at, for a time or to be counted.

        Raises OutsideError.
        """
        offset = self.before(now)
        if offset == now.earliest and self.since is None:
            return Reached(offset, 0)
        return Reached(offset, now.lag) if offset == now.end and self.since is None else None


class OutsideError(ValueError):
    """There is no such offset. The message begins after the partition's name."""


class _Target(click.ParamType):  # type: ignore[type-arg] # it takes an argument only since click 8.4
    name = "target"

    def convert(self, value: "str | OffsetTarget", param: click.Parameter | None, ctx: click.Context | None) -> OffsetTarget:
        if isinstance(value, OffsetTarget):
            return value
        if value in (EARLIEST, LATEST):
            return OffsetTarget(value)
        if fullmatch(r"[0-9]{1,16}", value, ASCII):
            return OffsetTarget(value, offset=int(value))
        try:
            time = datetime.fromisoformat(value[:40])
            since = round(time.timestamp() * 1000)
            if time.tzinfo is not None and value.isascii() and since >= 0:
                return OffsetTarget(value, since=since)
        except (ValueError, OverflowError):
            pass
        self.fail(
            f"{shown(value)} is none of earliest, latest, an offset, and a time with its zone such as 2026-11-26T12:00:00Z.",
            param,
            ctx,
        )


TARGET = _Target()
