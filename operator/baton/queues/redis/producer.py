"""Putting entries into a partitioned queue on Redis streams: in order per key, and once each, whatever happens on the way.

What a signal's handler raises comes up in the main thread between any two steps of what is here, also while another such
exception is on its way. So nothing here relies on being carried on, nor on cleaning up. Locks are taken by `with` on the bare
lock alone: between taking it and the block, and between the block and letting go, Python runs no handler
(https://github.com/python/cpython/issues/74174). Who sends, or calls back, holds a lock of its own meanwhile, so that all see
when it has ended, however. Where a change was begun and not ended (`Outbox.torn`), whoever comes next mends that.
"""

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from math import inf
from secrets import token_hex
from threading import Lock
from typing import NamedTuple
from weakref import WeakSet

from redis.exceptions import RedisError

from baton.queues.producer_side import Given, Headers, InWith, Sent
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis.add_script import AddScript
from baton.queues.redis.connection import KeptConnection, client
from baton.queues.redis.keys import queue_key
from baton.queues.redis.outbox import Outbox, ReadTable, Round, SendListener, Waiting, all_known
from baton.queues.redis.routing import slot_of
from baton.queues.redis.sending import (
    SendOptions,
    SendOutcome,
    UnseenFailures,
    all_sent,
    named,
    sent,
    still_wait,
    waiting_entries,
    waiting_entry,
)
from baton.queues.redis.url import read

_IDLE = 5.0
"""Seconds after which the thread that sends what lingers ends, where there is nothing to send."""
_LOOK = 0.5
"""Seconds after which whoever waits looks again: a thread that was interrupted wakes nobody."""


class _Telling(NamedTuple):
    """A thread that calls back."""

    by: Lock
    """Is locked meanwhile. Where it is free, the thread was interrupted."""
    thread: int
    listeners: list[SendListener]


class SharedOutbox:
    """With its locks, and the connection that empties it."""

    def __init__(self, outbox: Outbox, adding: AddScript, connection: KeptConnection, name: str, busy: str) -> None:
        """`name`: of the thread that sends what lingers. `busy`: why an entry waits that waits for nothing else."""
        self.outbox = outbox
        self.closed = self.ended = False
        self._adding, self._connection, self._name, self._busy = adding, connection, name, busy
        self._lock = Lock()
        """Of all that is here, and of the outbox. Nobody waits while it is held."""
        self._turn = self._nobodys = Lock()
        """Is locked while somebody sends."""
        self._alarms: set[Lock] = set()
        """Each wakes somebody by being released."""
        self._telling: _Telling | None = None
        """The thread that calls back."""
        self._thread: threading.Thread | None = None

    def send(self, entries: Sequence[Waiting], until: float) -> None:
        """Adds them. Each has an outcome then, at that time at the latest. Raises RuntimeError where it is closed."""
        try:
            turn = Lock()
            with turn:
                round_ = None
                with self._lock:
                    outbox = self.outbox
                    if outbox.torn or self.closed:
                        self._mend()
                        self._see_open()
                    outbox.torn = True
                    if len(entries) == 1 and not self._turn.locked():
                        if round_ := outbox.straight(entries[0]):
                            self._turn = turn
                    else:
                        for entry in entries:
                            outbox.add(entry)
                    outbox.torn = False
                if round_:
                    self._take(turn, round_)
            if len(entries) != 1 or entries[0].outcome is None:
                self.work(entries, until)
        finally:
            for entry in entries:
                if entry.outcome is None:
                    self._give_up(entry)

    def _give_up(self, entry: Waiting) -> None:
        with self._lock:
            outbox = self._whole()
            outbox.torn = True
            outbox.give_up([entry], outbox.waits_for(entry) or self._busy)
            outbox.torn = False

    def work(self, entries: Iterable[Waiting], until: float) -> None:
        self.work_until(all_known(entries), until)

    def work_until(self, done: Callable[[], bool], until: float) -> None:
        """Sends, or waits for whoever sends, until this is so, or the time is over."""
        alarm = Lock()
        while True:
            turn = Lock()
            with turn:
                with self._lock:
                    outbox = self._whole()
                    self._alarms.discard(alarm)
                    now = time.monotonic()
                    if done() or now >= until:
                        return
                    what = self._next(outbox, turn, now)
                    if isinstance(what, float):
                        alarm.acquire(blocking=False)
                        self._alarms.add(alarm)
                if not isinstance(what, float):
                    self._take(turn, what)
                    continue
            alarm.acquire(timeout=max(0.0, min(until, what, now + _LOOK) - now))

    def hurry(self) -> list[Waiting]:
        """What is there now waits for no more: that."""
        with self._lock:
            outbox = self._whole()
            outbox.hurry()
            return list(outbox.open)

    def waits_for(self, entry: Waiting) -> str:
        with self._lock:
            return self._whole().waits_for(entry) or self._busy

    def linger(self, entry: Waiting, owner: object, room: Callable[[Outbox, Waiting], bool]) -> bool:
        """Adds an entry for which nobody waits; False where there is no room. `owner`: is kept while there is something to
        send. Raises RuntimeError where it is closed."""
        with self._lock:
            outbox = self.outbox
            if outbox.torn or self.closed:
                self._mend()
                self._see_open()
            if not room(outbox, entry):
                return False
            if self._thread is None:  # before the entry is added: where no thread can be made, nothing was taken
                thread = threading.Thread(target=self._send_what_lingers, args=(owner,), name=self._name, daemon=True)
                thread.start()
                self._thread = thread
            before = outbox.due
            outbox.torn = True
            outbox.add(entry)
            outbox.torn = False
            if self._alarms and outbox.due < before:
                self._wake()
        if outbox.settled:
            self.tell()
        return True

    def tell(self) -> None:
        """Calls back, without holding a lock that anybody waits for. One thread at a time does, in the order in which the
        outcomes were known: what others find out meanwhile, it calls back after that."""
        mine = Lock()
        with mine:
            while settled := self._untold(mine):
                for listener in settled:
                    listener.settled()

    def _untold(self, mine: Lock) -> list[SendListener]:
        """The listeners that the thread with this lock is to call back; none while another one does that."""
        with self._lock:
            outbox, before = self._whole(), self._telling
            left: list[SendListener] = []
            if before is not None:
                if before.by is mine:
                    self._wake()
                elif before.by.locked():
                    return []
                else:
                    left = before.listeners
            settled = left + outbox.settled
            self._telling = _Telling(mine, threading.get_ident(), settled) if settled else None
            outbox.settled = []
            return settled

    def told(self, until: float) -> None:
        """Waits until nobody calls back any more; within a callback it does not, for two of them would wait for each other."""
        self.tell()
        telling = self._telling
        if telling is None or telling.thread != threading.get_ident() or not telling.by.locked():
            self.work_until(lambda: self._telling is None or not self._telling.by.locked(), until)
            self.tell()

    def close(self) -> None:
        """Gives up what waits, lets whoever sends come to an end, and has nothing sent any more."""
        self.closed = True
        with self._lock:
            self._whole()
        self.work_until(lambda: not self._turn.locked(), inf)
        self.tell()
        self._connection.close()
        self.ended = True

    def _see_open(self) -> None:
        if self.closed:
            raise RuntimeError(f"the {self._name} is closed")

    def _whole(self) -> Outbox:
        """As nobody has left it in the midst of a change."""
        if self.outbox.torn or self.closed:
            self._mend()
        return self.outbox

    def _mend(self) -> None:
        outbox = self.outbox
        if outbox.torn:
            outbox.mend()
        if self.closed and outbox.open:
            outbox.torn = True
            outbox.give_up(list(outbox.open), f"The {self._name} was closed before it was sent.")
            outbox.torn = False
            self._wake()

    def _next(self, outbox: Outbox, turn: Lock, now: float) -> ReadTable | Round | float:
        """What to do by this turn; or when to look again."""
        if self._turn.locked():
            return inf
        if outbox.under_way:
            outbox.mend()
        outbox.torn = True
        what = outbox.next(now)
        outbox.torn = False
        if not isinstance(what, float):
            self._turn = turn
        return what

    def _take(self, turn: Lock, what: ReadTable | Round) -> None:
        """Does this by a turn."""
        outbox = self.outbox
        mended = outbox.mended
        flow = self._adding.step(outbox, what, time.monotonic)
        ask = next(flow)
        while True:
            answers: list[object] = []
            failed: Exception | None = None
            try:
                answers = self._connection.ask(ask)
            except (RedisError, OSError) as error:
                failed = error
            with self._lock:
                if outbox.torn or self.closed:
                    self._mend()
                self._turn = self._nobodys
                if outbox.mended != mended:  # somebody was interrupted meanwhile: all of it is sent again
                    self._wake()
                    break
                outbox.torn = True
                try:
                    ask = flow.send(answers) if failed is None else flow.throw(failed)
                except StopIteration:
                    outbox.torn = False
                    if self._alarms:
                        self._wake()
                    break
                outbox.torn = False
                self._turn = turn
        if outbox.settled or self._telling:
            self.tell()

    def _wake(self) -> None:
        """Everybody who waits."""
        for alarm in self._alarms:
            if alarm.locked():
                alarm.release()
        self._alarms = set()

    def _send_what_lingers(self, owner: object) -> None:
        """On a thread of its own, which ends after a while."""
        outbox, me = self.outbox, threading.current_thread()
        try:
            while self._thread_goes_on(me):
                self.work_until(lambda: not outbox.open, inf)
                self.work_until(lambda: bool(outbox.open) or self.closed, time.monotonic() + _IDLE)
                self.tell()  # whoever called back may have been interrupted
        except BaseException:
            self._thread = None
            raise

    def _thread_goes_on(self, me: threading.Thread) -> bool:
        with self._lock:
            if self.outbox.open or self.outbox.settled:
                return True
            if self._thread is me:
                self._thread = None
            return False


log = logging.getLogger(__name__)

_MOST_UNTOLD = 1000
"""Outcomes that may wait for callbacks. Where more do, `produce` waits for those, for `patience` seconds."""


class RedisProducer(InWith):
    """Sends entries to a queue (`namespace/name`); safe to use from several threads, and on both sides of a fork.

    Entries of one key stay in the order in which they were sent. A call that returned has its entries in the queue, once:
    retries after a lost connection make no duplicates. A call that raised (QueueUnreachable, after `patience` seconds) may have
    put some of them there. `produce` does not wait: see there.
    """

    def __init__(
        self,
        url: str,
        queue: str,
        *,
        patience: float = 30.0,
        linger: float = 0.005,
        max_entries: int = 1000,
        max_bytes: int = 1_000_000,
        buffer_bytes: int = 32_000_000,
        replicas: int = 0,
    ) -> None:
        """`patience`: for how long an entry is tried again while the server is down, full, or the queue not made yet. Seconds.

        `linger`, `max_entries`, `max_bytes`: what is given to `produce` is sent after so many seconds, or when so much has come.
        `buffer_bytes`: so much may wait; then `produce` waits for room. `replicas`: so many are to have an entry (WAIT) before
        it counts as sent.
        """
        self._sending = SendOptions(patience, linger, max_entries, max_bytes, buffer_bytes, replicas)
        self._queue = named(queue)
        self._url = read(url, own=True)
        self._client = client(self._url, queue_key(queue))
        self._adding = AddScript(self._url, queue, replicas)
        self._begin()
        _producers.add(self)

    def _begin(self) -> None:
        """In a new process. The queue would take what two processes send under one name and sequence for one entry."""
        self._outbox = Outbox(self._queue, token_hex(6), self._sending.max_entries, self._sending.max_bytes)
        self._unseen = UnseenFailures()
        name, patience = f"producer of {self._queue}", self._sending.patience
        busy = f"{self._url.place}: other threads have kept this producer busy for {patience:g} s."
        self._shared = SharedOutbox(self._outbox, self._adding, KeptConnection(self._client), name, busy)

    def send(
        self, key: bytes | str | None, value: bytes | str, headers: Headers | None = None, *, partition: int | None = None
    ) -> Sent:
        """Where it is now. `key`: entries of a key go to one partition, and stay in order; None: to any. `headers`: what goes
        beside them, such as a trace's context: names (str) and values (bytes or str). `partition`: where it goes instead of where
        its key does. Raises ValueError where there is no such partition."""
        deadline = time.monotonic() + self._sending.patience
        entry = waiting_entry(key, value, headers, partition, deadline)
        self._shared.send([entry], deadline)
        assert entry.outcome is not None
        return sent(entry.outcome)

    def send_many(self, entries: Iterable[Given]) -> list[Sent]:
        """Send (key, value) or (key, value, headers); many at once cost far less each than one by one. Raises TypeError for
        anything else than bytes or str, before anything is sent."""
        deadline = time.monotonic() + self._sending.patience
        waiting = waiting_entries(entries, deadline)
        self._shared.send(waiting, deadline)
        return all_sent(waiting)

    def produce(
        self,
        key: bytes | str | None,
        value: bytes | str,
        headers: Headers | None = None,
        *,
        partition: int | None = None,
        on_delivery: "Callable[[PendingSend], object] | None" = None,
    ) -> "PendingSend":
        """Send it within `linger`, together with others, and wait for nothing but room in the buffer. `on_delivery` is called
        when it is known what became of it, on whichever thread finds out: one at a time, and for entries of a key in their order.
        A failure that nobody looks at is raised by `flush` or `close`. Raises QueueUnreachable where there was no room for
        `patience` seconds."""
        delivery = PendingSend(self._shared, self._unseen, on_delivery)
        now = time.monotonic()
        deadline = now + self._sending.patience
        entry = delivery.entry = waiting_entry(
            key, value, headers, partition, deadline, due=now + self._sending.linger, told=delivery
        )
        while not self._shared.linger(entry, self, self._sending.room):
            self._make_room(entry, deadline)
        if len(self._outbox.settled) > _MOST_UNTOLD:
            self._shared.told(deadline)
        return delivery

    def flush(self, within: float | None = None) -> None:
        """Send at once what was given to `produce` by now, and wait until it is known what became of it, for so many seconds at
        most (None: `patience` ends it). Raises QueueUnreachable where an entry may not be in the queue and nobody looked at its
        delivery."""
        if left := self._flushed(within):
            raise QueueUnreachable(f"{self._url.place}: {still_wait(left, self._queue)} after {within:g} s.")
        if why := self._unseen.report():
            raise QueueUnreachable(why)

    def close(self, within: float | None = None) -> None:
        """`flush`, and give up what was not sent in time."""
        if self._shared.ended:
            return
        try:
            if not self._shared.closed:
                self._flushed(within)
        finally:
            self._shared.close()
        self._client.close()
        if why := self._unseen.report():
            raise QueueUnreachable(why)

    def send_again(self, entries: Iterable[tuple[str, bytes, bytes, bytes]]) -> None:
        """Send (name, key, value, packed headers), each under a name of its own: the queue takes it once within an hour, whoever
        sends it under this name, however often."""
        deadline = time.monotonic() + self._sending.patience
        waiting = [Waiting(slot_of(key), key, value, headers, deadline, producer=name) for name, key, value, headers in entries]
        self._shared.send(waiting, deadline)
        all_sent(waiting)

    def _make_room(self, entry: Waiting, deadline: float) -> None:
        waiting = self._shared.hurry()
        self._shared.work_until(lambda: self._shared.closed or self._sending.room(self._outbox, entry), deadline)
        now = time.monotonic()
        if now >= deadline:
            first = next((each for each in waiting if each.outcome is None), entry)
            raise QueueUnreachable(self._sending.full(self._shared.waits_for(first)))
        entry.deadline = now + self._sending.patience

    def _flushed(self, within: float | None) -> int:
        """How many still wait after that time."""
        until = inf if within is None else time.monotonic() + within
        waiting = self._shared.hurry()
        self._shared.work(waiting, until)
        self._shared.told(until)
        return sum(entry.outcome is None for entry in waiting)


class PendingSend(SendOutcome):
    """What becomes of an entry that was given to `RedisProducer.produce`."""

    def __init__(
        self, shared: SharedOutbox, unseen: UnseenFailures, on_delivery: "Callable[[PendingSend], object] | None"
    ) -> None:
        super().__init__(unseen, on_delivery)
        self._shared = shared

    def result(self, timeout: float | None = None) -> Sent:
        """Waits for it. Raises QueueUnreachable where the entry may not be in the queue, and TimeoutError after so many seconds:
        it is under way still."""
        self.seen = True
        if self.entry.outcome is None:
            self._shared.work([self.entry], inf if timeout is None else time.monotonic() + timeout)
        if self.entry.outcome is None:
            self.seen = False
            raise TimeoutError(f"the entry is under way still after {timeout:g} s")
        return self.known()

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Likewise: what `result` raises, or None."""
        try:
            self.result(timeout)
        except (QueueUnreachable, ValueError) as error:
            return error
        return None


_producers: WeakSet[RedisProducer] = WeakSet()
"""Of this process, and what it has of the one that it was forked from."""


def _forked() -> None:
    for producer in list(_producers):
        outbox = producer._outbox
        outbox.give_up(list(outbox.open), "The process that this one was forked from sends it.")
        producer._begin()


def _exit() -> None:
    for producer in list(_producers):
        producer.end()


os.register_at_fork(after_in_child=_forked)
atexit.register(_exit)
