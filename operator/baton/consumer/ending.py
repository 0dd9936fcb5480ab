"""The end of a consumer: signals, deadlines of hand-offs, and the grace period."""

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
"""Consumers that run in the main thread, one inside the other. A signal goes to all of them."""


@contextmanager
def ending(stop: Callable[[], None], leave: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on SIGTERM and `leave` on the first SIGINT (Ctrl-C); a second SIGINT raises KeyboardInterrupt. Outside of the
    main thread, which alone gets signals, or if SIGTERM has a handler that is not Python's and so could not be restored, log a
    warning instead: the program has to call `Consumer.stop()`."""
    one = _Running(stop, leave)
    ours: dict[int, Any] = {signal.SIGTERM: _terminate, signal.SIGINT: _interrupt}
    off_main = threading.current_thread() is not threading.main_thread()
    heard = {} if off_main else {number: ours[number] for number in ours if signal.getsignal(number) is not None}
    if signal.SIGTERM not in heard:
        where = "runs off the main thread" if off_main else "runs in a program with a SIGTERM handler that is not Python's"
        log.warning("the consumer %s, so SIGTERM does not end it: have the program call Consumer.stop() instead", where)
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


# Deadlines of revoked partitions, from the ledger's key `group` or from the queue


Left = Callable[[Partition, Epoch], float | None]
"""Returns the seconds until a revoked partition is taken away from its owner at this epoch; None: unknown."""

_LARGEST = 2**20
"""Maximum bytes of a ConfigMap."""


class _Due(NamedTuple):
    """The deadline of one hand-off of a partition."""

    epoch: Epoch
    """The receiver's epoch."""
    length: float
    """Seconds that the hand-off was given in total."""
    deadline: float
    """Unix seconds."""


class LedgerDeadlines:
    """Reads deadlines from the mounted ledger, and parses its key again only after a change. Any thread may use it."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        """`clock`: the API server's time in Unix seconds (`ApiConnection.clock`). It may differ from the operator's clock, so
        `left` never returns more than the hand-off was given in total."""
        self._file = directory / LEDGER_GROUP_KEY
        self._clock = clock
        self._read: tuple[tuple[int, ...], Mapping[Partition, Sequence[_Due]]] | None = None
        """The file's identity, and its deadlines."""

    def left(self, partition: Partition, epoch: Epoch) -> float | None:
        """Return the seconds until the partition is taken away from its owner at this epoch; None: the ledger has no deadline."""
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
"""Seconds for handlers to finish the entries in hand when time is up."""
_LAST_ANSWERS = 0.7
"""Seconds after that for the queues to accept acknowledgements and releases."""
_LAST_REPORT = 1.0
"""Seconds after that to report the releases to the operator."""
_LONGEST_REPORT = 3.0
"""Maximum seconds for the queues, or for the report, if more time is left."""
_LAST_SECONDS = 5.0
"""Seconds of the grace period that are reserved for these."""
_CUT_OFF = 0.8
"""Share of the grace period after which the process has ended if neither queues nor API server answer: going on helps no other
pod, and the kubelet's clock started before the consumer's."""


class GracePeriod:
    """The `seconds` from `stop` to the end of the process. The consumer keeps working except in the last few."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._serve_for = max(0.0, seconds - _LAST_SECONDS)
        self._serve_cut_off_for = max(0.0, _CUT_OFF * seconds - _LAST_SECONDS - 0.5)
        self._cut_off_at = inf
        self._stop_at: float | None = None
        self._leave_by: float | None = None
        self._begin_by = inf
        self._at_once = False
        self.aborted = False
        """Whether the consumer ends without finishing anything else."""

    def stop(self) -> None:
        """Start the grace period (idempotent)."""
        if self._stop_at is None:
            now = self._clock()
            self._stop_at, self._cut_off_at = now + self._serve_for, now + self._serve_cut_off_for

    def stop_if_cut_off(self, cut_off: Callable[[], bool]) -> None:
        """Stop working if it is late and neither queues nor API server answer."""
        now = self._clock()
        if self._stop_at is not None and not self.leaving and now >= self._cut_off_at and cut_off():
            self._stop_at = min(self._stop_at, now)

    def stop_now(self) -> None:
        """Stop immediately."""
        self._at_once = True
        self._stop_at = min(self._clock(), self._stop_at or inf)

    def abort(self) -> None:
        """End the grace period at once."""
        self._stop_at = self._clock()
        if self._leave_by is not None:
            self._leave_by = self._stop_at
        self.aborted = True

    def leave(self, per_entry: float) -> None:
        """Stop reading. Entries in hand still begin while the time left is at least twice `per_entry`, the seconds that an entry
        took recently: entries that are not finished go to the next owner marked redelivered."""
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
        """Whether entries in hand that were not begun are left to the next owner."""
        return self._at_once or self._clock() >= self._begin_by

    @property
    def next(self) -> float:
        """When the loop has to check the grace period again."""
        cut_off_at = self._cut_off_at if self._clock() < self._cut_off_at else inf
        return min(self.due, cut_off_at, inf if self.begins_nothing else self._begin_by)

    @property
    def due(self) -> float:
        """When the current stage ends."""
        if self._leave_by is not None:
            return self._leave_by
        return inf if self._stop_at is None else self._stop_at

    @property
    def over_at(self) -> float:
        """When waiting for running handlers ends."""
        return inf if self._stop_at is None else self._stop_at + _LAST_ENTRIES + _LAST_ANSWERS

    @property
    def for_handlers(self) -> float | None:
        """Seconds left for handlers; None: the grace period has not started."""
        return None if self._stop_at is None else max(0.0, self._stop_at + _LAST_ENTRIES - self._clock())

    @property
    def for_answers(self) -> float:
        """Seconds for queues to accept acknowledgements and releases: no limit while the process runs, and in the end all the
        time left."""
        now = self._clock()
        return max(0.0, (self._stop_at or inf) - now, min(_LONGEST_REPORT, self.over_at - now))

    @property
    def for_last_report(self) -> float:
        """Seconds left to report releases to the operator."""
        return max(0.0, min(_LONGEST_REPORT, self.over_at + _LAST_REPORT - self._clock()))
