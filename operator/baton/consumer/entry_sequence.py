"""Entries that are worked on in order: those of a partition, or of one of its keys."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from baton.consumer.held_entry import HeldEntry
from baton.consumer.outcome import Ack, DeadLetter, Kept, Nack, Outcome

if TYPE_CHECKING:
    from baton.consumer.delivery import Delivery
    from baton.consumer.held_partition import HeldPartition

_OFFSET, _NTH = attrgetter("offset"), attrgetter("nth")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_LONGEST_TURN = 60.0


class Failure(NamedTuple):
    """Of an entry that waits to be tried again."""

    why: str
    due: float
    """When (monotonic)."""


@dataclass(slots=True, eq=False)
class EntrySequence:
    """What is in hand, in order. Only the consumer's loop changes it."""

    holding: HeldPartition
    waiting: deque[HeldEntry] = field(default_factory=deque)
    """Read and not handed out, or handed out and given back."""
    out: dict[str, HeldEntry] = field(default_factory=dict)
    """Handed out and without an outcome, by offset."""
    kept: dict[str, HeldEntry] = field(default_factory=dict)
    """Whose handler has returned, to be acknowledged later."""
    failed: dict[str, Failure] = field(default_factory=dict)
    """By offset; of entries among `waiting` that the queue has not yet been told of."""
    tries: dict[str, int] = field(default_factory=dict)
    """Failed ones, by offset."""
    at_work: set[Delivery] = field(default_factory=set)
    """That have some of its entries, and are not back: whatever became of these, their worker may still be at one."""
    dropped: bool = False
    """Nothing of it is begun any more."""

    @property
    def idle(self) -> bool:
        """Nobody works on it, or is about to."""
        return not self.waiting and not self.busy

    @property
    def busy(self) -> bool:
        """Whether a worker has an entry of it."""
        return bool(self.out or self.at_work)

    @property
    def due(self) -> float:
        """When the first that waits may be handed out (monotonic)."""
        if not self.waiting:
            return inf
        if (times := self.waiting[0].times) and not self.holding.letting_go:
            return self.holding.left_over + (turn_of(times) / 8 if times > 1 else 0.0)  # entries of others may be on their way
        failure = self.failed.get(self.waiting[0].offset)
        return 0.0 if failure is None else failure.due

    @property
    def left_over(self) -> bool:
        """An earlier process was handed out the first that waits, and did not finish it."""
        return bool(self.waiting) and self.waiting[0].times > 0

    @property
    def latest(self) -> float:
        """Until when others go before one that is left over (monotonic): the longer the more often it was handed out."""
        return 0.0 if self.holding.letting_go else self.holding.left_over + turn_of(self.waiting[0].times)

    def ready(self, now: float, *, shared: bool = False) -> bool:
        """The first that waits may be handed out; what is left over is not, before its turn. `shared`: also while earlier ones
        are out."""
        return bool(self.waiting) and (shared or not self.busy) and not self.waiting[0].times and now >= self.due

    def turn_has_come(self, most: int) -> None:
        """So many of those that are left over may be handed out."""
        for entry in islice(self.waiting, most):
            entry.times = 0

    def hand_out(self, most: int, most_bytes: float = inf) -> list[HeldEntry]:
        """The first entries, up to one that has failed before or is left over: the queue has to count that one first."""
        now = time.monotonic()
        if not self.tries and not self.holding.left_over and len(self.waiting) <= most and most_bytes == inf:
            entries = list(self.waiting)
            self.waiting.clear()
            for entry in entries:
                entry.since = now
            self.out.update(zip(map(_OFFSET, entries), entries, strict=True))
            return entries
        entries = []
        while self.waiting and len(entries) < most and self.waiting[0].offset not in self.failed:
            most_bytes -= self.waiting[0].size if most_bytes < inf else 0
            if most_bytes < 0 or self.waiting[0].times or (entries and self.waiting[0].alone):
                break
            entry = self.waiting.popleft()
            entry.since = now
            self.out[entry.offset] = entry
            entries.append(entry)
            if entry.alone:
                break
        return entries

    def settle(self, entries: Iterable[HeldEntry], outcome: Outcome, now: float) -> bool:
        """What became of entries that were handed out. False: none of them is in hand; a second word on one is passed over."""
        found = [(entry, raw) for entry in entries if (raw := _taken(self.out, entry) or _taken(self.kept, entry)) is not None]
        if not found:
            return False
        match outcome:
            case Ack():
                self._finished([entry.offset for entry, _ in found])
            case DeadLetter(why):
                for entry, _ in found:
                    self.holding.aside.append((entry.offset, why))
                    self.tries.pop(entry.offset, None)
            case Kept():
                self.kept.update((entry.offset, raw) for entry, raw in found)
            case Nack() if not self.holding.letting_go:
                self.hold_up()
                self._put_back(sorted((self._again(raw, outcome, now) for _, raw in found), key=_NTH))
            case _:
                self.drop()  # its next owner gets it, marked redelivered, and what is behind it
        return True

    def acknowledge(self, entries: Iterable[HeldEntry]) -> bool:
        """These are done with: as `settle`, for all of them at once. False: none of them is in hand."""
        if self.tries:
            found = [entry.offset for entry in entries if _taken(self.out, entry) or _taken(self.kept, entry)]
        else:  # all are in their first try
            out, kept = self.out, self.kept
            found = [offset for offset in map(_OFFSET, entries) if out.pop(offset, None) or kept.pop(offset, None)]
        self._finished(found)
        return bool(found)

    def has(self, entry: HeldEntry) -> bool:
        """It is in hand, in this try, and nothing was said of it."""
        raw = self.out.get(entry.offset) or self.kept.get(entry.offset)
        return raw is not None and raw.attempt == entry.attempt

    def comes_again(self, entry: HeldEntry) -> bool:
        """It has failed since it was handed out."""
        return self.tries.get(entry.offset, 0) > entry.attempt

    def give_back(self, entries: Iterable[HeldEntry]) -> None:
        """Those that were handed out and not begun."""
        if self.out:
            self._put_back([raw for entry in entries if (raw := _taken(self.out, entry))])

    def hold_up(self) -> None:
        """Nothing that is handed out is begun before what is to come again. From any thread."""
        for delivery in list(self.at_work):
            delivery.held_up = True

    def try_at_once(self) -> None:
        for offset, failure in self.failed.items():
            self.failed[offset] = failure._replace(due=0.0)

    def drop(self) -> None:
        """Nothing of it is begun any more, whatever comes back."""
        self.dropped = True
        self.waiting.clear()
        self.failed.clear()

    def keep_all(self) -> None:
        """Nobody works on what is out any more; it may still be acknowledged."""
        self.kept.update(self.out)
        self.out.clear()
        self.at_work.clear()

    def clear(self) -> None:
        self.drop()
        self.out.clear()
        self.kept.clear()
        self.tries.clear()
        self.at_work.clear()

    def _finished(self, offsets: Sequence[str]) -> None:
        self.holding.handled += offsets
        for offset in self.tries.keys() & offsets if self.tries else ():
            del self.tries[offset]

    def _again(self, raw: HeldEntry, outcome: Nack, now: float) -> HeldEntry:
        """For another try."""
        tries = self.tries[raw.offset] = self.tries.get(raw.offset, 0) + 1
        delay = backoff(tries) if outcome.delay is None else outcome.delay
        self.failed[raw.offset] = Failure(outcome.why, now + delay)
        return raw.again(tries, outcome.why, alone=raw.alone or outcome.alone)

    def _put_back(self, entries: list[HeldEntry]) -> None:
        if self.dropped:
            return
        if entries and self.waiting and entries[-1].nth > self.waiting[0].nth:
            self.waiting = deque(sorted([*entries, *self.waiting], key=_NTH))
        else:
            self.waiting.extendleft(reversed(entries))


def _taken(place: dict[str, HeldEntry], entry: HeldEntry) -> HeldEntry | None:
    """From there; None: it is not there, or in a later try."""
    raw = place.pop(entry.offset, None)
    if raw is None or raw.attempt == entry.attempt:
        return raw
    place[entry.offset] = raw
    return None


def turn_of(times: int) -> float:
    """Seconds for which others go first."""
    return min(_LONGEST_TURN, 2.0 ** min(times - 1, 10))


def backoff(tries: int) -> float:
    """Seconds until the next try."""
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(tries - 1, 10))
