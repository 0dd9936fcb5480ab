"""The time that a consumer has from the moment when it is asked to stop, by the monotonic clock."""

import json
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from baton.model.ids import Epoch, Partition
from baton.model.names import LEDGER_GROUP_KEY
from baton.model.ranges import parse_grants

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Running:
    stop: Callable[[], None]
    leave: Callable[[], None]
    interrupted: bool = False


_running: list[_Running] = []
"""All that run in the main thread, one within the other: a signal is for each of them."""


@contextmanager
def ending(stop: Callable[[], None], leave: Callable[[], None]) -> Iterator[None]:
    """SIGTERM asks to `stop`. The first SIGINT (Ctrl-C) asks to `leave`, the second raises KeyboardInterrupt at once. Python
    gives signals to the main thread, and could not put back a handler that is not Python's: then a warning says that the program
    has to call `Consumer.stop()`."""
    one = _Running(stop, leave)
    ours: dict[int, Any] = {signal.SIGTERM: _terminate, signal.SIGINT: _interrupt}
    off_main = threading.current_thread() is not threading.main_thread()
    heard = {} if off_main else {number: ours[number] for number in ours if signal.getsignal(number) is not None}
    if signal.SIGTERM not in heard:
        where = "runs off the main thread" if off_main else "runs in a program with a SIGTERM handler that is not Python's"
        log.warning("the consumer %s, so it hears no SIGTERM: have the program call Consumer.stop() when it is to end", where)
    if off_main:
        yield
        return
    _running.append(one)
    before = {number: signal.signal(number, handler) for number, handler in heard.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _running.remove(one)


def _terminate(*_: object) -> None:
    for one in reversed(_running):
        one.stop()


def _interrupt(*_: object) -> None:
    if _running[-1].interrupted:
        raise KeyboardInterrupt
    for one in reversed(_running):
        one.interrupted = True
        one.leave()


# Until when a partition that is called back may be finished with: the ledger's key `group` says so, or the queue.


Left = Callable[[Partition, Epoch], float | None]
"""Seconds until a partition that is called back is taken away from who owns it at this epoch; None: not known."""

_LARGEST = 2**20
"""Bytes. No ConfigMap is larger."""


class _Due(NamedTuple):
    """Of one move of a partition."""

    epoch: Epoch
    """Its receiver's."""
    length: float
    deadline: float
    """Since 1970."""


class LedgerDeadlines:
    """Reads the key as it is mounted, when it is asked, and once for all partitions until it is another. Any thread may ask."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        """`clock`: seconds since 1970, as the API server has it (`ApiConnection.clock`). It may differ all the same, so no answer
        is beyond what the hand-off was given in all."""
        self._file = directory / LEDGER_GROUP_KEY
        self._clock = clock
        self._read: tuple[tuple[int, ...], Mapping[Partition, Sequence[_Due]]] | None = None
        """Which file it was, and what it said."""

    def left(self, partition: Partition, epoch: Epoch) -> float | None:
        """Seconds until it is taken away from who owns it at this epoch; None: the ledger does not say."""
        try:
            moves = self._moves()
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        for due in moves.get(partition, ()):
            if due.epoch > epoch:
                return max(0.0, min(due.length, due.deadline - self._clock()))
        return None

    def _moves(self) -> Mapping[Partition, Sequence[_Due]]:
        with self._file.open(encoding="utf-8") as file:
            about = os.fstat(file.fileno())
            which = about.st_dev, about.st_ino, about.st_mtime_ns, about.st_size
            if self._read is not None and self._read[0] == which:
                return self._read[1]
            found = _parsed(json.loads(file.read(_LARGEST)))
        self._read = which, found
        return found


def _parsed(group: dict[str, Any]) -> Mapping[Partition, Sequence[_Due]]:
    found: dict[Partition, list[_Due]] = {}
    for move in group.get("moves", ()):
        length, deadline = float(move["length"]), float(move["deadline"])
        for by_queue in move["to"].values():
            for queue, grants in by_queue.items():
                for number, epoch in parse_grants(grants).items():
                    found.setdefault(Partition(queue, number), []).append(_Due(epoch, length, deadline))
    return found


_LAST_ENTRIES = 3.0
"""Seconds that handlers have for what is in hand when time is up;"""
_LAST_ANSWERS = 0.7
"""that queues have, after that, to hear what was handled;"""
_LAST_WORD = 1.0
"""and that the operator has to hear of it"""
_LONGEST_WORD = 3.0
"""(or this, where there is time)."""
_LAST_SECONDS = 5.0
"""Of the grace period, kept for these."""
_UNHEARD = 0.8
"""Of the grace period, after which the process has ended where neither queues nor operator hear of it: going on longer helps no
other pod, and the kubelet's clock began before the consumer's."""


class GracePeriod:
    """`seconds` from `stop` to the end of the process; it goes on as before for all of them but the last few."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._serve_for = max(0.0, seconds - _LAST_SECONDS)
        self._serve_unheard_for = max(0.0, _UNHEARD * seconds - _LAST_SECONDS - 0.5)
        self._unheard_at = inf
        self._stop_at: float | None = None
        self._leave_by: float | None = None
        self._begin_by = inf
        self._at_once = False
        self.aborted = False
        """Nothing more is done at all."""

    def stop(self) -> None:
        """It begins, unless it has."""
        if self._stop_at is None:
            now = self._clock()
            self._stop_at, self._unheard_at = now + self._serve_for, now + self._serve_unheard_for

    def stop_unheard(self, unheard: Callable[[], bool]) -> None:
        """Go on no longer, if it is late and neither queues nor operator hear of this consumer."""
        now = self._clock()
        if self._stop_at is not None and not self.leaving and now >= self._unheard_at and unheard():
            self._stop_at = min(self._stop_at, now)

    def stop_now(self) -> None:
        """Without what would be left of it."""
        self._at_once = True
        self._stop_at = min(self._clock(), self._stop_at or inf)

    def abort(self) -> None:
        """End the grace period at once."""
        self._stop_at = self._clock()
        if self._leave_by is not None:
            self._leave_by = self._stop_at
        self.aborted = True

    def leave(self, per_entry: float) -> None:
        """Nothing more is read. What is in hand is still begun, as long as an entry takes less than half of what is left, by the
        seconds that one took lately: the next owner would get it marked as redelivered."""
        self._leave_by = self._clock() + _LAST_ENTRIES
        self._begin_by = self._leave_by - 2 * per_entry

    @property
    def stopping(self) -> bool:
        return self._stop_at is not None

    @property
    def leaving(self) -> bool:
        return self._leave_by is not None

    @property
    def begins_nothing(self) -> bool:
        """What is in hand and was not begun is the next owner's."""
        return self._at_once or self._clock() >= self._begin_by

    @property
    def next(self) -> float:
        """When something of this is to be looked at."""
        unheard_at = self._unheard_at if self._clock() < self._unheard_at else inf
        return min(self.due, unheard_at, inf if self.begins_nothing else self._begin_by)

    @property
    def due(self) -> float:
        """When what goes on now has to end."""
        if self._leave_by is not None:
            return self._leave_by
        return inf if self._stop_at is None else self._stop_at

    @property
    def over_at(self) -> float:
        """When waiting for unfinished work ends."""
        return inf if self._stop_at is None else self._stop_at + _LAST_ENTRIES + _LAST_ANSWERS

    @property
    def for_handlers(self) -> float | None:
        """Seconds that handlers still have; None: it has not begun."""
        return None if self._stop_at is None else max(0.0, self._stop_at + _LAST_ENTRIES - self._clock())

    @property
    def for_answers(self) -> float:
        """Seconds that queues have to hear what was handled of partitions that are let go of: any number while the process goes
        on, and once all else is done, all that is left."""
        now = self._clock()
        return max(0.0, (self._stop_at or inf) - now, min(_LONGEST_WORD, self.over_at - now))

    @property
    def for_last_word(self) -> float:
        """Seconds that the operator still has to hear what was let go of."""
        return max(0.0, min(_LONGEST_WORD, self.over_at + _LAST_WORD - self._clock()))
