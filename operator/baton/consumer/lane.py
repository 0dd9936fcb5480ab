"""Entries that are worked on in order: those of one partition."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from baton.consumer.held import HeldEntry
from baton.consumer.outcome import Ack, Nack, Outcome

if TYPE_CHECKING:
    from baton.consumer.holding import Holding

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


@dataclass(slots=True, eq=False)
class Lane:
    """What is in hand of a partition, in order. Only the consumer's loop changes it."""

    holding: Holding
    waiting: deque[HeldEntry] = field(default_factory=deque)
    """Read and not handed out, or handed out and given back."""
    out: dict[str, HeldEntry] = field(default_factory=dict)
    """Handed out and without an outcome, by offset."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why it failed, by the offset of an entry that waits to be tried again."""
    failures: int = 0
    """In a row."""
    not_before: float = 0.0
    """After a failure: when to try again (monotonic)."""

    @property
    def empty(self) -> bool:
        return not self.waiting and not self.out

    def ready(self, now: float) -> bool:
        """The first that waits may be handed out: nothing before it is being worked on."""
        return bool(self.waiting) and not self.out and now >= self.not_before

    def hand_out(self, most: int) -> list[HeldEntry]:
        """The first entries, up to one that has failed before: the queue has to count that one first."""
        entries: list[HeldEntry] = []
        while self.waiting and len(entries) < most and self.waiting[0].offset not in self.failed:
            entry = self.waiting.popleft()
            self.out[entry.offset] = entry
            entries.append(entry)
        return entries

    def settle(self, entry: HeldEntry, outcome: Outcome, now: float) -> None:
        """What became of an entry that was handed out. A second word on it is passed over."""
        if self.out.pop(entry.offset, None) is None:
            return
        match outcome:
            case Ack():
                self.holding.handled.append(entry.offset)
                self.failures = 0
            case Nack(_) if self.holding.phase is not self.holding.phase.SERVING:
                self.waiting.clear()  # its next owner gets it, marked redelivered
                self.failed.clear()
            case Nack(why):
                self.failures += 1
                self.failed[entry.offset] = why
                self.not_before = now + backoff(self.failures)
                self.put_back([entry])

    def give_back(self, entries: Iterable[HeldEntry]) -> None:
        """Those that were handed out and not begun."""
        self.put_back([entry for entry in entries if self.out.pop(entry.offset, None)])

    def put_back(self, entries: list[HeldEntry]) -> None:
        """In order, before those that wait."""
        self.waiting.extendleft(reversed(entries))

    def clear(self) -> None:
        self.waiting.clear()
        self.out.clear()
        self.failed.clear()


def backoff(tries: int) -> float:
    """Seconds until the next try."""
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(tries - 1, 10))
