"""An entry in a consumer's hands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from baton.queues.entry import Entry

if TYPE_CHECKING:
    from baton.consumer.lane import Lane


@dataclass(frozen=True, slots=True)
class HeldEntry(Entry):
    """What a handler gets: the entry, and where it belongs among what this consumer has in hand."""

    lane: Lane = field(repr=False, compare=False)

    @classmethod
    def of(cls, entry: Entry, lane: Lane) -> Self:
        return cls(
            entry.queue,
            entry.partition,
            entry.offset,
            entry.key,
            entry.value,
            entry.timestamp,
            entry.epoch,
            entry.redelivered,
            lane,
        )
