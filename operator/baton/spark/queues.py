"""The driver's requests to the fleet's queues, many partitions at a time, with tracking of unreachable and slow queues."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
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
    """One partition's part of a batch: the entries after `start`, up to and including `end`."""

    partition: Partition
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.partition.queue}/{self.partition.number} from {self.start + 1} to {self.end}"

    @property
    def queue(self) -> QueueName:
        return self.partition.queue


# -- queues that are unreachable

AGAIN = 0.5
"""Seconds until an unreachable queue is asked again."""


class QueueAwayError(Exception):
    """A queue is unreachable for now. `QueueOutages` has already recorded it."""


class QueueOutages:
    """Records and logs which queues are unreachable. Thread-safe."""

    def __init__(self) -> None:
        self._away: dict[QueueName, tuple[float, str]] = {}
        """Since when each is unreachable (monotonic seconds), and why."""

    def queues(self) -> frozenset[QueueName]:
        return frozenset(self._away.copy())

    def since_before(self, then: float) -> Iterable[str]:
        """Return the reasons of outages that began before this time (monotonic)."""
        return [why for _, (begun, why) in sorted(self._away.copy().items()) if begun <= then]

    @contextmanager
    def recorded(self, queue: QueueName) -> Iterator[None]:
        """Record whether a request to the queue succeeds. Raises QueueAwayError if the queue is unreachable."""
        try:
            yield
        except QueueUnreachable as error:
            self.begin(queue, error)
            raise QueueAwayError(str(error)) from None
        if self._away.pop(queue, None):
            log.info("queue %s answers again", queue)

    def begin(self, queue: QueueName, error: QueueUnreachable) -> None:
        """Record that the queue is unreachable."""
        since, why = self._away.get(queue, (time.monotonic(), ""))
        if not why:
            log.warning("queue %s is unreachable: %s", queue, error)
        self._away[queue] = since, why if alike(why, str(error)) else str(error)


# -- queues that answer slowly

PATIENCE = 0.5
"""Least seconds that a queue has to answer. It has twice the time of its last answer to such a request if that is longer."""

T = TypeVar("T")
K = TypeVar("K", Partition, Range)
UnderWay = Mapping[QueueName, tuple[float, Future[Any]]]
"""Requests under way by queue, with their start (monotonic seconds)."""


class ParallelRequests:
    """Sends requests to several queues in parallel. A slow queue delays no other: it is left out until it has answered. For one
    thread; any thread may call `late`."""

    def __init__(self, queues: int, patience: float = PATIENCE) -> None:
        """`queues`: number of queues. `patience`: see `PATIENCE`."""
        self._alone = queues <= 1
        self._threads = ThreadPoolExecutor(max_workers=max(1, queues), thread_name_prefix="baton-ask")
        self._late: UnderWay = {}
        self._least = patience
        self._patience: dict[tuple[str, QueueName], float] = {}
        """By queue and kind of request, because some kinds take longer than others."""

    def ask(self, kind: str, asked: Mapping[QueueName, Callable[[], T]]) -> dict[QueueName, T]:
        """Return the answers of the queues that answer in time. A queue that does not gets no further request before it has
        answered or failed, and that answer is dropped."""
        found: dict[QueueName, T] = {}
        if self._alone:
            for name, what in asked.items():
                with suppress(QueueAwayError):
                    found[name] = what()
            return found
        late = unfinished(self._late)
        now = time.monotonic()
        answers = {name: self._threads.submit(self._timed, kind, name, what) for name, what in asked.items() if name not in late}
        answered, _ = wait(answers.values(), timeout=self.patience(kind, answers))
        self._late = {**late, **{name: (now, answer) for name, answer in answers.items() if answer not in answered}}
        for name, answer in answers.items():
            if answer in answered:
                with suppress(QueueAwayError):
                    found[name] = answer.result()
        return found

    def late(self) -> UnderWay:
        """Return the requests that were not answered in time, and not since."""
        return unfinished(self._late)

    def patience(self, kind: str, queues: Iterable[QueueName]) -> float:
        """Seconds for these queues to answer a request of this kind."""
        return max((self._patience.get((kind, name), self._least) for name in queues), default=self._least)

    def close(self) -> None:
        self._threads.shutdown(wait=False)

    def _timed(self, kind: str, name: QueueName, what: Callable[[], T]) -> T:
        began = time.monotonic()
        answer = what()
        self._patience[kind, name] = max(self._least, 2 * (time.monotonic() - began))
        return answer


def unfinished(requests: UnderWay) -> UnderWay:
    """The requests that have not ended yet."""
    return {name: (since, one) for name, (since, one) in requests.items() if not one.done()}


# -- the fleet's queues

_MOMENT = 0.001
"""Seconds: the shortest wait that a server supports."""


class FleetQueues:
    """The fleet's queues. Any thread may call. Requests to a queue run one at a time, except for `wait`."""

    def __init__(
        self,
        urls: Mapping[QueueName, str],
        namespace: str,
        group: str,
        open_queue: OpenSparkSide = logged_ranges,
        sleep: Callable[[float], object] | None = None,
        patience: float = PATIENCE,
    ) -> None:
        """`sleep`: replaces a pause that `interrupt` ends. `patience`: see `PATIENCE`. Raises QueueUnreachable for a URL of a
        queue that Spark cannot read."""
        self._queues: dict[QueueName, LoggedRanges] = {
            name: open_queue(url, f"{namespace}/{name}", f"{namespace}/{group}") for name, url in urls.items()
        }
        self._interrupted = threading.Event()
        """Set by `interrupt`, cleared after a pause."""
        self._sleep, self._patience = sleep or self._interrupted.wait, patience
        self._locks = {name: threading.Lock() for name in urls}
        self._pool = ThreadPoolExecutor(max_workers=max(1, len(urls)), thread_name_prefix="baton-wait")
        self._requests = ParallelRequests(len(urls), patience)
        self._hung: UnderWay = {}
        """Waits that an interrupt has not ended, such as at a server that accepts connections and does not answer."""
        self._outages = QueueOutages()

    @property
    def names(self) -> frozenset[QueueName]:
        return frozenset(self._queues)

    @property
    def without_sizes(self) -> frozenset[QueueName]:
        """Queues that do not know the sizes of entries."""
        return frozenset(name for name, queue in self._queues.items() if not queue.sizes_known)

    @property
    def without_dead_letters(self) -> frozenset[QueueName]:
        return frozenset(name for name, queue in self._queues.items() if not queue.sets_aside)

    def answer(self) -> bool:
        """Ask all queues; whether all of them answer."""
        for name in self._queues:
            try:
                self._ask(name, methodcaller("check"))
            except QueueAwayError:
                return False
        return True

    def late(self) -> frozenset[QueueName]:
        """Return queues that are unreachable or late with an answer. A request to them may take long."""
        return self._outages.queues() | self._requests.late().keys()

    def answering(self, those: Iterable[QueueName]) -> frozenset[QueueName]:
        """Ask these queues in parallel, and return those that answer in time. For one thread."""
        return frozenset(self._ask_each("check", dict.fromkeys(those, methodcaller("check"))))

    def trouble(self) -> str:
        """Describe the queues that have been unreachable or silent for some time; empty if there are none."""
        then = time.monotonic() - TOLD_AFTER
        late = [*self._requests.late().items(), *unfinished(self._hung).items()]
        names = {name for name, (since, _) in late if since <= then}
        slow = [f"Queue {name} does not answer within {TOLD_AFTER:g} s: check its server." for name in sorted(names)]
        return " ".join(dict.fromkeys([*self._outages.since_before(then), *slow]))

    def address(self, queue: QueueName) -> Mapping[str, Any]:
        """Return what an executor needs to connect to a queue, including its password. Raises QueueAwayError if a file with
        credentials cannot be read."""
        try:
            return self._queues[queue].address()
        except QueueUnreachable as error:
            self._outages.begin(queue, error)
            raise QueueAwayError(str(error)) from None

    def begin(self, only: Collection[QueueName]) -> dict[QueueName, int]:
        """Take a query number from each of these queues that answers."""
        return self._ask_each("begin", dict.fromkeys(only, methodcaller("begin")))

    def log_id(self, queue: QueueName) -> str:
        """Return `LoggedRanges.log_id` of a queue."""
        return self._queues[queue].log_id

    def fence(self, query: Mapping[QueueName, int], partitions: Iterable[Partition]) -> int | None:
        """Fence earlier queries off these partitions. Returns the number of a later query that reads one of them, or None. Raises
        QueueAwayError."""
        for name, those in _by_queue(partitions).items():
            latest = self._ask(name, methodcaller("fence", query[name], [one.number for one in those]))
            if latest != query[name]:
                return int(latest)
        return None

    def positions(self, only: Iterable[QueueName] | None = None) -> dict[Partition, PartitionBounds]:
        """Return the bounds of all existing partitions, of these queues or of all. Raises QueueAwayError."""
        return {
            Partition(name, number): bounds
            for name in (self._queues if only is None else set(only) & self._queues.keys())
            for number, bounds in self._ask(name, lambda queue: queue.positions()).items()
        }

    def ahead(self, query: Mapping[QueueName, int], questions: Mapping[Partition, AheadRequest]) -> dict[Partition, AheadAnswer]:
        """Ask how far partitions can be read. Partitions of queues that do not answer are missing in the result."""
        of = _by_queue(questions)
        asked = {name: methodcaller("ahead", query[name], [questions[one] for one in those]) for name, those in of.items()}
        found: dict[Partition, AheadAnswer] = {}
        for name, answers in self._ask_each("ahead", asked).items():
            found |= zip(of[name], answers, strict=True)
        return found

    def log(self, query: Mapping[QueueName, int], ranges: Sequence[Range], *, partly: bool = False) -> dict[Range, LogAnswer]:
        """Record ranges. `partly`: accept ranges of which some entries are gone. Raises QueueAwayError; recorded ranges may be
        recorded again."""
        return self._send("log", query, ranges, lambda one: RangeToLog(one.partition.number, one.start, one.end, partly))

    def finish(self, query: Mapping[QueueName, int], ends: Mapping[Partition, int]) -> dict[Partition, FinishAnswer]:
        """Finish the recorded ranges up to these ends. Raises QueueAwayError; finished ranges may be finished again."""
        return self._send("finish", query, sorted(ends), lambda one: RangeToFinish(one.number, ends[one]))

    def set_aside(
        self, query: Mapping[QueueName, int], ranges: Sequence[Range], failures: int, why: str
    ) -> dict[Range, SetAsideAnswer]:
        """Move the entries of these ranges to the dead letters. Raises QueueAwayError; moved entries stay there."""

        def request(one: Range) -> RangeToSetAside:
            return RangeToSetAside(one.partition.number, one.start, one.end, failures)

        return self._send("set_aside", query, ranges, request, why)

    def wait(self, partitions: Iterable[Partition], seconds: float) -> set[Partition]:
        """Wait for a notice of new entries in one of the partitions, for an `interrupt`, or for `seconds`. Returns the partitions
        that may have new entries, including all of unreachable queues, which may have lost the notice."""
        of, away = self._reachable(partitions)
        if not of:
            self._pause(seconds)
            return away
        return away | self._wait_at(of, seconds, seconds, FIRST_COMPLETED)

    def woken(self, partitions: Iterable[Partition]) -> set[Partition]:
        """Return the partitions for which a notice of new entries has arrived. Asks all reachable queues."""
        of, _ = self._reachable(partitions)
        return self._wait_at(of, _MOMENT, self._requests.patience("ahead", of), ALL_COMPLETED)

    def interrupt(self) -> None:
        """End the current wait, or else the next one."""
        self._interrupted.set()
        for queue in self._queues.values():
            queue.interrupt()

    def close(self) -> None:
        self._pool.shutdown(wait=True)
        self._requests.close()
        for queue in self._queues.values():
            queue.close()

    def _pause(self, seconds: float) -> None:
        self._sleep(seconds)
        self._interrupted.clear()

    def _reachable(self, partitions: Iterable[Partition]) -> tuple[dict[QueueName, list[int]], set[Partition]]:
        """Return the partitions' numbers by reachable queue, and the partitions of unreachable queues."""
        of: dict[QueueName, list[int]] = {}
        away: set[Partition] = set()
        away_now = self._outages.queues()
        for partition in partitions:
            if partition.queue in away_now:
                away.add(partition)
            else:
                of.setdefault(partition.queue, []).append(partition.number)
        return of, away

    def _wait_at(self, of: Mapping[QueueName, Sequence[int]], seconds: float, within: float, until: str) -> set[Partition]:
        """Wait at several queues, at each for `seconds`. After `within` seconds, or once one or all of them have answered
        (`until`), the other waits are interrupted. A queue whose wait does not end then is left out until it ends."""
        if len(self._queues) == 1:
            return {one for queue, numbers in of.items() for one in self._wait(queue, numbers, seconds)}
        self._hung = unfinished(self._hung)
        waiting = {
            self._pool.submit(self._wait, queue, numbers, seconds): queue
            for queue, numbers in of.items()
            if queue not in self._hung
        }
        if not waiting:
            self._pause(min(seconds, self._patience))
        _, others = wait(waiting, timeout=within, return_when=until)
        for one in others:  # an interrupt after a wait has ended would end the queue's next wait
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

    def _send(
        self, kind: str, query: Mapping[QueueName, int], items: Iterable[K], request: Callable[[K], object], *more: object
    ) -> dict[K, Any]:
        """Send each queue the requests for its items, and return the answers by item. Raises QueueAwayError."""
        found: dict[K, Any] = {}
        for name, mine in _by_queue(items).items():
            requests = [request(one) for one in mine]
            found |= zip(mine, self._ask(name, methodcaller(kind, query[name], requests, *more)), strict=True)
        return found

    def _ask_each(self, kind: str, asked: Mapping[QueueName, Callable[[LoggedRanges], T]]) -> dict[QueueName, T]:
        """Return the answers of the queues that answer in time. For one thread."""
        return self._requests.ask(kind, {name: partial(self._ask, name, what) for name, what in asked.items()})

    def _ask(self, name: QueueName, what: Callable[[LoggedRanges], T]) -> T:
        with self._locks[name], self._outages.recorded(name):
            return what(self._queues[name])


def _by_queue(items: Iterable[K]) -> dict[QueueName, list[K]]:
    found: dict[QueueName, list[K]] = {}
    for one in items:
        found.setdefault(one.queue, []).append(one)
    return found
