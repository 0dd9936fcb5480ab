"""Putting entries into a partitioned queue on Redis streams: in order per key, and once each, whatever happens on the way.

What a signal's handler raises comes up in the main thread between any two steps of what is here, also while another such
exception is on its way. So nothing here relies on cleaning up. Locks are taken by `with` on the bare lock alone: between taking
it and the block, and between the block and letting go, Python runs no handler (https://github.com/python/cpython/issues/74174).
The thread that sends holds a lock, so that all see when it has ended. An interrupted change of the outbox is mended before the
next one (`_mend`), an interrupted request by the thread that sends next (`Outbox.next` and `_ask`).
"""

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from math import inf
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakSet

from redis.exceptions import RedisError

from baton.queues.producer_side import Given, Headers, InWith, Sent
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis.connection import ask, client
from baton.queues.redis.keys import queue_key
from baton.queues.redis.outbox import Round, Waiting, all_known
from baton.queues.redis.routing import slot_of
from baton.queues.redis.sending import Sending, SendOutcome, UnseenFailures, all_sent, sent, waiting_entries, waiting_entry

log = logging.getLogger(__name__)

T = TypeVar("T")

_IDLE = 5.0
"""Seconds after which the thread that sends what lingers ends, where there is nothing to send."""
_LOOK = 0.5
"""Seconds after which a waiting caller looks again, because an interrupted thread wakes no caller."""
_LAST_CALLBACKS = 1.0
"""Seconds for callbacks of what `close` gives up."""
_MOST_UNTOLD = 1000
"""Outcomes that may wait for callbacks. Where more do, `produce` waits for those, for `patience` seconds."""


class RedisProducer(Sending, InWith):
    """Sends entries to a queue (`namespace/name`); safe to use from several threads, and on both sides of a fork.

    ```python
    with RedisProducer("redis://redis.shop:6379/0", "shop/orders") as producer:
        producer.send("customer-17", b"shipped", {"traceparent": "00-…"})
    ```

    Entries of one key stay in the order in which they were sent. A call that returned has its entries in the queue, once:
    retries after a lost connection make no duplicates. A call that raised (QueueUnreachable, after `patience` seconds) may have
    put some of them there. `produce` does not wait: see there.
    """

    def _begin(self) -> None:
        super()._begin()
        self._client = client(self._url, queue_key(self._queue), once=True)
        self._lock = Lock()
        """Guards these fields and the outbox. No holder waits."""
        self._torn = False
        """A change of the outbox has begun, and not ended."""
        self._turn = self._free = Lock()
        """Is locked while a thread sends."""
        self._asking = False
        """A request has begun, and not ended."""
        self._alarms: set[Lock] = set()
        """Locks on which callers wait; releasing one wakes its caller."""
        self._thread: threading.Thread | None = None
        """Sends what lingers, and calls back."""
        self._ended = False
        _producers.add(self)

    def send(
        self, key: bytes | str | None, value: bytes | str, headers: Headers | None = None, *, partition: int | None = None
    ) -> Sent:
        """Where it is now. `key`: entries of a key go to one partition, and stay in order; None: to any. `headers`: what goes
        beside them, such as a trace's context: names (str) and values (bytes or str). `partition`: where it goes instead of where
        its key does. Raises ValueError where there is no such partition."""
        deadline = time.monotonic() + self._patience
        entry = waiting_entry(key, value, headers, partition, deadline)
        self._send([entry], deadline)
        assert entry.outcome is not None
        return sent(entry.outcome)

    def send_many(self, entries: Iterable[Given]) -> list[Sent]:
        """Send (key, value) or (key, value, headers); many at once cost far less each than one by one. Raises TypeError for
        anything else than bytes or str, before anything is sent."""
        deadline = time.monotonic() + self._patience
        waiting = waiting_entries(entries, deadline)
        self._send(waiting, deadline)
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
        when it is known what became of it, on a thread of the producer's: one at a time, and for entries of a key in their order.
        A failure that the program does not look at is raised by `flush` or `close`. Raises QueueUnreachable where there was no
        room for `patience` seconds."""
        delivery = PendingSend(self, self._unseen, on_delivery)
        now = time.monotonic()
        deadline = now + self._patience
        entry = waiting_entry(key, value, headers, partition, deadline, due=now + self._linger, told=delivery)
        delivery.entry = entry
        while not self._add_lingering(entry):
            self._make_room(entry, deadline)
        if len(self._outbox.settled) > _MOST_UNTOLD:
            self._wait_for_callbacks(deadline)
        return delivery

    def flush(self, within: float | None = None) -> None:
        """Send at once what was given to `produce` by now, and wait until it is known what became of it, for so many seconds at
        most (None: `patience` ends it). Raises QueueUnreachable where an entry may not be in the queue and the program did not
        look at its delivery."""
        self._report(self._flushed(inf if within is None else time.monotonic() + within), within)

    def close(self, within: float | None = None) -> None:
        """`flush`, and give up what was not sent in time."""
        if self._ended:
            return
        until = inf if within is None else time.monotonic() + within
        try:
            if not self._closed:
                self._flushed(until)
        finally:
            with self._lock:
                self._closed = True
                self._change(self._outbox.give_up, list(self._outbox.open), f"The {self._name} was closed before it was sent.")
                self._wake()
            self._until(lambda: not self._turn.locked(), inf)
            self._wait_for_callbacks(time.monotonic() + _LAST_CALLBACKS)
            self._client.close()
            self._ended = True
        self._report()

    def send_again(self, entries: Iterable[tuple[str, bytes, bytes, bytes]]) -> None:
        """Send (name, key, value, packed headers), each under a separate name: the queue takes an entry once within an hour,
        however often, and by which producer, it is sent under this name."""
        deadline = time.monotonic() + self._patience
        waiting = [Waiting(slot_of(key), key, value, headers, deadline, producer=name) for name, key, value, headers in entries]
        self._send(waiting, deadline)
        all_sent(waiting)

    @property
    def _name(self) -> str:
        return f"producer of {self._queue}"

    def _send(self, entries: Sequence[Waiting], deadline: float) -> None:
        """Each has an outcome then."""
        try:
            with self._lock:
                self._see_open()
                for entry in entries:
                    self._change(self._outbox.add, entry)
            self._until(all_known(entries), deadline)
        finally:
            if left := [entry for entry in entries if entry.outcome is None]:
                with self._lock:
                    self._change(self._outbox.give_up, left, self._why(left[0]))

    def _why(self, entry: Waiting) -> str:
        busy = f"{self._url.place}: other threads have kept this producer busy for {self._patience:g} s."
        return self._change(self._outbox.waits_for, entry) or busy

    def _add_lingering(self, entry: Waiting) -> bool:
        """False: there is no room."""
        with self._lock:
            self._see_open()
            if not self._room(entry):
                return False
            if self._thread is None:  # before the entry is added: where no thread can be made, nothing was taken
                thread = threading.Thread(target=self._send_what_lingers, name=self._name, daemon=True)
                thread.start()
                self._thread = thread
            before = self._outbox.due
            self._change(self._outbox.add, entry)
            if self._outbox.due < before or self._outbox.settled:
                self._wake()
        return True

    def _make_room(self, entry: Waiting, deadline: float) -> None:
        waiting = self._hurry()
        self._until(lambda: self._closed or self._room(entry), deadline)
        now = time.monotonic()
        if now >= deadline:
            first = next((each for each in waiting if each.outcome is None), entry)
            with self._lock:
                raise self._full(self._why(first))
        entry.deadline = now + self._patience

    def _hurry(self) -> list[Waiting]:
        with self._lock:
            return self._change(self._outbox.hurry)

    def _flushed(self, until: float) -> list[Waiting]:
        """What there was; some may wait after that time."""
        waiting = self._hurry()
        self._until(all_known(waiting), until)
        self._wait_for_callbacks(until)
        return waiting

    def _wait_for_callbacks(self, until: float) -> None:
        """Within a callback it does not."""
        if threading.current_thread() is not self._thread:
            self._until(lambda: not self._outbox.settled or self._thread is None, until)

    def _until(self, done: Callable[[], bool], until: float) -> None:
        """Sends, or waits for the thread that sends, until this is so, or the time is over."""
        alarm = Lock()
        while True:
            turn = Lock()
            with turn:
                with self._lock:
                    self._mend()
                    self._alarms.discard(alarm)
                    now = time.monotonic()
                    if done() or now >= until:
                        return
                    what = inf if self._turn.locked() else self._change(self._outbox.next, now)
                    if isinstance(what, float):
                        alarm.acquire(blocking=False)
                        self._alarms.add(alarm)
                    else:
                        self._turn = turn
                if not isinstance(what, float):
                    self._ask(what)
                    continue
            alarm.acquire(timeout=max(0.0, min(until, what, now + _LOOK) - now))

    def _ask(self, what: Round | None) -> None:
        answers: list[object] | Exception
        if self._asking:  # the request before was interrupted: its answers may come, and nothing has read them
            self._client.connection_pool.disconnect()
            self._client.connection_pool.reset()
        self._asking = True
        try:
            answers = ask(self._client, self._adding.request(what))
        except (RedisError, OSError) as error:
            answers = error
        self._asking = False
        with self._lock:
            self._change(self._adding.answered, self._outbox, what, answers, time.monotonic())
            self._turn = self._free
            self._wake()

    def _change(self, change: Callable[..., T], *arguments: Any) -> T:
        """Of the outbox. The lock is held."""
        self._mend()
        self._torn = True
        answer = change(*arguments)
        self._torn = False
        return answer

    def _mend(self) -> None:
        """The outbox, where its last change was interrupted. The lock is held."""
        if self._torn:
            self._outbox.mend()
            self._torn = False

    def _wake(self) -> None:
        """Everybody who waits."""
        for alarm in self._alarms:
            if alarm.locked():
                alarm.release()
        self._alarms = set()

    def _send_what_lingers(self) -> None:
        """On a thread of its own, which calls back too, and ends after a while."""
        outbox, idle = self._outbox, False
        try:
            while not idle:
                self._until(lambda: bool(outbox.settled) or not outbox.open, inf)
                self._call_back()
                if not outbox.open:
                    something = time.monotonic() + _IDLE
                    self._until(lambda: bool(outbox.open or outbox.settled) or self._closed, something)
                with self._lock:
                    if idle := not (outbox.open or outbox.settled):
                        self._thread = None
        except BaseException:
            self._thread = None
            raise

    def _call_back(self) -> None:
        """Without holding the lock."""
        settled = list(self._outbox.settled)
        for listener in settled:
            try:
                listener.settled()
            except BaseException:
                log.exception("a callback for an entry that was sent has failed")
        with self._lock:
            del self._outbox.settled[: len(settled)]
            self._wake()


class PendingSend(SendOutcome):
    """The outcome of an entry that was given to `RedisProducer.produce`.

    ```python
    delivery = producer.produce("customer-17", b"shipped")
    print(delivery.result(timeout=5).offset)
    ```
    """

    def __init__(
        self, producer: RedisProducer, unseen: UnseenFailures, on_delivery: "Callable[[PendingSend], object] | None"
    ) -> None:
        super().__init__(unseen, on_delivery)
        self._producer = producer

    def result(self, timeout: float | None = None) -> Sent:
        """Waits for it. Raises QueueUnreachable where the entry may not be in the queue, and TimeoutError after so many seconds:
        it is under way still."""
        self.seen = True
        if self.entry.outcome is None:
            self._producer._until(self.done, inf if timeout is None else time.monotonic() + timeout)
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
