"""The fleet's queues, as its driver asks them: many partitions at a time, and a queue that is away is noted and asked again."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from operator import methodcaller
from typing import Any, NamedTuple, TypeVar

from baton.consumer.queue_requests import TOLD_AFTER, alike
from baton.model.ids import Partition, QueueName
from baton.queues.logged_ranges import (
    AheadAnswer,
    AheadRequest,
    FinishAnswer,
    LogAnswer,
    LoggedRanges,
    OpenSparkSide,
    PartitionBounds,
    RangeToFinish,
    RangeToLog,
    RangeToSetAside,
    SetAsideAnswer,
    logged_ranges,
)
from baton.queues.protocol import QueueUnreachable

log = logging.getLogger("baton.spark")


class Range(NamedTuple):
    """One partition's part of a batch: the entries behind `start`, up to `end`."""

    partition: Partition
    start: int
    end: int

    @property
    def queue(self) -> QueueName:
        return self.partition.queue


# -- queues that are out of reach

AGAIN = 0.5
"""Seconds until a queue that is out of reach is asked again."""


class QueueAwayError(Exception):
    """A queue is out of reach for now. It is noted already."""


class QueueOutages:
    """Queues that are out of reach: noted when they are asked, told in the log and to the group, and over when they answer.
    Thread-safe."""

    def __init__(self) -> None:
        self._away: dict[QueueName, tuple[float, str]] = {}
        """Since when (monotonic), and why."""

    def queues(self) -> frozenset[QueueName]:
        """Those that are away."""
        return frozenset(self._away.copy())

    def longer_than(self, since: float) -> Iterable[str]:
        """Why the queues are away that were so by then (monotonic)."""
        return [why for _, (begun, why) in sorted(self._away.copy().items()) if begun <= since]

    @contextmanager
    def noted(self, queue: QueueName) -> Iterator[None]:
        """The queue is asked. Raises QueueAwayError where it is out of reach."""
        try:
            yield
        except QueueUnreachable as error:
            self.begin(queue, error)
            raise QueueAwayError(str(error)) from None
        if self._away.pop(queue, None):
            log.info("queue %s answers again", queue)

    def begin(self, queue: QueueName, error: QueueUnreachable) -> None:
        """It is out of reach."""
        since, why = self._away.get(queue, (time.monotonic(), ""))
        if not why:
            log.warning("queue %s is out of reach: %s", queue, error)
        self._away[queue] = since, why if alike(why, str(error)) else str(error)


# -- queues that answer late

PATIENCE = 0.5
"""Seconds for a queue to answer where others have; one that has needed more for such a question has twice that."""

T = TypeVar("T")
K = TypeVar("K", Partition, Range)
UnderWay = Mapping[QueueName, tuple[float, Future[Any]]]
"""By queue, since when (monotonic)."""


class AskedAtOnce:
    """Asks queues at the same time. One that answers late holds up no other: it is left behind until it has answered. For one
    thread; any may look at `late`."""

    def __init__(self, queues: int, patience: float = PATIENCE) -> None:
        """`queues`: how many there are. `patience`: see `PATIENCE`."""
        self._alone = queues <= 1
        self._threads = ThreadPoolExecutor(max_workers=max(1, queues), thread_name_prefix="baton-ask")
        self._behind: UnderWay = {}
        self._least = patience
        self._patience: dict[tuple[str, QueueName], float] = {}
        """By the kind of question: one that takes long is no reason to wait long for the answer to another."""

    def ask(self, kind: str, asked: Mapping[QueueName, Callable[[], T]]) -> dict[QueueName, T]:
        """The answers of those that answer: not of who is away, or takes longer than it did for the last question of this kind.
        Such a one is not asked again before it has answered or failed; what it answers then is dropped."""
        found: dict[QueueName, T] = {}
        if self._alone:
            for name, what in asked.items():
                with suppress(QueueAwayError):
                    found[name] = what()
            return found
        behind = left(self._behind)
        now = time.monotonic()
        answers = {
            name: self._threads.submit(self._timed, kind, name, what) for name, what in asked.items() if name not in behind
        }
        _, late = wait(answers.values(), timeout=self.patience(kind, answers))
        self._behind = {**behind, **{name: (now, answer) for name, answer in answers.items() if answer in late}}
        for name, answer in answers.items():
            if answer not in late:
                with suppress(QueueAwayError):
                    found[name] = answer.result()
        return found

    def late(self) -> UnderWay:
        """Those that have been left behind, and have not answered yet."""
        return left(self._behind)

    def patience(self, kind: str, queues: Iterable[QueueName]) -> float:
        """Seconds for all of these to answer a question of this kind."""
        return max((self._patience.get((kind, name), self._least) for name in queues), default=self._least)

    def close(self) -> None:
        """Ask no more."""
        self._threads.shutdown(wait=False)

    def _timed(self, kind: str, name: QueueName, what: Callable[[], T]) -> T:
        began = time.monotonic()
        answer = what()
        self._patience[kind, name] = max(self._least, 2 * (time.monotonic() - began))
        return answer


def left(those: UnderWay) -> UnderWay:
    """Those that have not ended."""
    return {name: (since, one) for name, (since, one) in those.items() if not one.done()}


# -- all of them

_MOMENT = 0.001
"""Seconds: as short as a server can be asked to wait."""


class FleetQueues:
    """Any thread may ask: a queue is asked by one at a time, and another may be in `wait` meanwhile."""

    def __init__(
        self,
        urls: Mapping[QueueName, str],
        namespace: str,
        group: str,
        open_queue: OpenSparkSide = logged_ranges,
        sleep: Callable[[float], object] | None = None,
        patience: float = PATIENCE,
    ) -> None:
        """`sleep`: instead of a pause that an interrupt ends. `patience`: seconds for a queue to answer where others have. Raises
        QueueUnreachable for an address of no queue that Spark can read."""
        self._queues: dict[QueueName, LoggedRanges] = {
            name: open_queue(url, f"{namespace}/{name}", f"{namespace}/{group}") for name, url in urls.items()
        }
        self._interrupted = threading.Event()
        """Since the last pause."""
        self._sleep, self._patience = sleep or self._interrupted.wait, patience
        self._locks = {name: threading.Lock() for name in urls}
        self._pool = ThreadPoolExecutor(max_workers=max(1, len(urls)), thread_name_prefix="baton-wait")
        self._at_once = AskedAtOnce(len(urls), patience)
        self._hung: UnderWay = {}
        """Waits that an interrupt has not ended, as where a server takes connections and does not answer."""
        self._outages = QueueOutages()

    @property
    def names(self) -> frozenset[QueueName]:
        """The queues that the fleet reads."""
        return frozenset(self._queues)

    @property
    def without_sizes(self) -> frozenset[QueueName]:
        """Those that do not know how many bytes entries have."""
        return frozenset(name for name, queue in self._queues.items() if not queue.sizes_known)

    @property
    def without_dead_letters(self) -> frozenset[QueueName]:
        """Those that cannot set ranges aside."""
        return frozenset(name for name, queue in self._queues.items() if not queue.sets_aside)

    def answer(self) -> bool:
        """All of them, now: they are asked."""
        for name in self._queues:
            try:
                self._ask(name, lambda queue: queue.positions())
            except QueueAwayError:
                return False
        return True

    def late(self) -> frozenset[QueueName]:
        """Those that are away, or have not answered yet what they were asked: who asks them waits for long."""
        return self._outages.queues() | self._at_once.late().keys()

    def answering(self, those: Iterable[QueueName]) -> frozenset[QueueName]:
        """Those of these that answer now. One that does not holds up no other. For one thread."""
        return frozenset(self._ask_each("positions", dict.fromkeys(those, methodcaller("positions"))))

    def trouble(self) -> str:
        """What keeps the driver from its queues, where that is not over in a moment; empty: nothing."""
        told = time.monotonic() - TOLD_AFTER
        late = [*self._at_once.late().items(), *left(self._hung).items()]
        behind = {name for name, (since, _) in late if since <= told}
        slow = [f"Queue {name} does not answer within {TOLD_AFTER:g} s: see its server." for name in sorted(behind)]
        return " ".join(dict.fromkeys([*self._outages.longer_than(told), *slow]))

    def address(self, queue: QueueName) -> Mapping[str, Any]:
        """What an executor has to know of a queue, to be written as JSON. It has its password. Raises QueueAwayError where a file
        that it is in cannot be read."""
        try:
            return self._queues[queue].address()
        except QueueUnreachable as error:
            self._outages.begin(queue, error)
            raise QueueAwayError(str(error)) from None

    def begin(self, only: Collection[QueueName]) -> dict[QueueName, int]:
        """A query number from each of these queues that is not away."""
        return self._ask_each("begin", dict.fromkeys(only, methodcaller("begin")))

    def fence(self, query: Mapping[QueueName, int], partitions: Iterable[Partition]) -> int | None:
        """The number of a later query that reads one of these partitions; None: there is none. Raises QueueAwayError."""
        for name, those in _by_queue(partitions).items():
            latest = self._ask(name, methodcaller("fence", query[name], [one.number for one in those]))
            if latest != query[name]:
                return int(latest)
        return None

    def positions(self, only: Iterable[QueueName] | None = None) -> dict[Partition, PartitionBounds]:
        """Of all partitions that there are. Raises QueueAwayError."""
        return {
            Partition(name, number): bounds
            for name in (self._queues if only is None else set(only) & self._queues.keys())
            for number, bounds in self._ask(name, lambda queue: queue.positions()).items()
        }

    def ahead(self, query: Mapping[QueueName, int], questions: Mapping[Partition, AheadRequest]) -> dict[Partition, AheadAnswer]:
        """How far one may read; no answer for partitions of a queue that is away."""
        of = _by_queue(questions)
        asked = {name: methodcaller("ahead", query[name], [questions[one] for one in those]) for name, those in of.items()}
        found: dict[Partition, AheadAnswer] = {}
        for name, answers in self._ask_each("ahead", asked).items():
            found |= zip(of[name], answers, strict=True)
        return found

    def log(self, query: Mapping[QueueName, int], ranges: Sequence[Range], *, partly: bool = False) -> dict[Range, LogAnswer]:
        """Record ranges. `partly`: what is there of them is enough. Raises QueueAwayError; what was recorded by then may be
        recorded again."""
        return self._tell("log", query, ranges, lambda one: RangeToLog(one.partition.number, one.start, one.end, partly))

    def finish(self, query: Mapping[QueueName, int], ends: Mapping[Partition, int]) -> dict[Partition, FinishAnswer]:
        """Finish what was recorded up to these ends. Raises QueueAwayError; what was finished by then may be finished again."""
        return self._tell("finish", query, sorted(ends), lambda one: RangeToFinish(one.number, ends[one]))

    def set_aside(
        self, query: Mapping[QueueName, int], ranges: Sequence[Range], failures: int, why: str
    ) -> dict[Range, SetAsideAnswer]:
        """Move the entries of these ranges to the dead letters. Raises QueueAwayError; what was moved by then stays there."""

        def told(one: Range) -> RangeToSetAside:
            return RangeToSetAside(one.partition.number, one.start, one.end, failures)

        return self._tell("set_aside", query, ranges, told, why)

    def wait(self, partitions: Iterable[Partition], seconds: float) -> set[Partition]:
        """Those of the partitions that may have something new, as soon as one has; none after an `interrupt`, or so long. All of
        a queue that has gone away: it may have forgotten who waits."""
        of, away = self._reachable(partitions)
        if not of:
            self._pause(seconds)
            return away
        return away | self._hear(of, seconds, seconds, FIRST_COMPLETED)

    def woken(self, partitions: Iterable[Partition]) -> set[Partition]:
        """Those of the partitions that may have something new, now. One queue's news keeps no other from being heard."""
        of, _ = self._reachable(partitions)
        return self._hear(of, _MOMENT, self._at_once.patience("ahead", of), ALL_COMPLETED)

    def interrupt(self) -> None:
        """End the wait that is going on, or the next one."""
        self._interrupted.set()
        for queue in self._queues.values():
            queue.interrupt()

    def close(self) -> None:
        """Close the connections to all queues."""
        self._pool.shutdown(wait=True)
        self._at_once.close()
        for queue in self._queues.values():
            queue.close()

    def _pause(self, seconds: float) -> None:
        """Where there is no queue to wait at."""
        self._sleep(seconds)
        self._interrupted.clear()

    def _reachable(self, partitions: Iterable[Partition]) -> tuple[dict[QueueName, list[int]], set[Partition]]:
        """By queue; and those of queues that are away."""
        of: dict[QueueName, list[int]] = {}
        away: set[Partition] = set()
        away_now = self._outages.queues()
        for partition in partitions:
            if partition.queue in away_now:
                away.add(partition)
            else:
                of.setdefault(partition.queue, []).append(partition.number)
        return of, away

    def _hear(self, of: Mapping[QueueName, Sequence[int]], seconds: float, within: float, until: str) -> set[Partition]:
        """Each queue is waited for so many `seconds`; `within` so many, or when one of them or all have answered (`until`), the
        others are interrupted. One that this does not end is left alone until it has ended."""
        if len(self._queues) == 1:
            return {one for queue, numbers in of.items() for one in self._wait(queue, numbers, seconds)}
        self._hung = left(self._hung)
        waiting = {
            self._pool.submit(self._wait, queue, numbers, seconds): queue
            for queue, numbers in of.items()
            if queue not in self._hung
        }
        if not waiting:
            self._pause(min(seconds, self._patience))
        _, others = wait(waiting, timeout=within, return_when=until)
        for one in others:  # not those that have ended: an interrupt would end their next wait
            self._queues[waiting[one]].interrupt()
        _, hung = wait(others, timeout=self._patience)
        now = time.monotonic()
        self._hung = {**self._hung, **{waiting[one]: (now, one) for one in hung}}
        return {one for future in waiting if future not in hung for one in future.result()}

    def _wait(self, name: QueueName, numbers: Sequence[int], seconds: float) -> set[Partition]:
        try:
            return {Partition(name, number) for number in self._queues[name].wait(numbers, seconds)}
        except QueueUnreachable as error:
            self._outages.begin(name, error)
            return {Partition(name, number) for number in numbers}

    def _tell(
        self, kind: str, query: Mapping[QueueName, int], those: Iterable[K], told: Callable[[K], object], *more: object
    ) -> dict[K, Any]:
        """The answers, by what each queue was told its part of. Raises QueueAwayError."""
        found: dict[K, Any] = {}
        for name, mine in _by_queue(those).items():
            found |= zip(mine, self._ask(name, methodcaller(kind, query[name], [told(one) for one in mine], *more)), strict=True)
        return found

    def _ask_each(self, kind: str, asked: Mapping[QueueName, Callable[[LoggedRanges], T]]) -> dict[QueueName, T]:
        """The answers of those that answer. For one thread."""

        def ask(name: QueueName, what: Callable[[LoggedRanges], T]) -> Callable[[], T]:
            return lambda: self._ask(name, what)

        return self._at_once.ask(kind, {name: ask(name, what) for name, what in asked.items()})

    def _ask(self, name: QueueName, what: Callable[[LoggedRanges], T]) -> T:
        with self._locks[name], self._outages.noted(name):
            return what(self._queues[name])


def _by_queue(those: Iterable[K]) -> dict[QueueName, list[K]]:
    found: dict[QueueName, list[K]] = {}
    for one in those:
        found.setdefault(one.queue, []).append(one)
    return found
