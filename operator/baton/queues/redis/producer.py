"""A producer for threads: adds entries to a partitioned queue on Redis streams, in order per key and exactly once.

A signal handler can raise an exception in the main thread between any two steps of this code, even while another such exception
propagates. So nothing here relies on cleanup. Locks are only taken by `with` on the bare lock: Python runs no handler between
acquiring the lock and entering the block, nor between leaving the block and releasing it
(https://github.com/python/cpython/issues/74174). The sending thread holds a lock, so that other threads see when it has ended. An
interrupted change of the outbox is repaired before the next one (`_repair`), an interrupted request by the next sending thread
(`Outbox.next` and `_ask`).
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

from baton.queues.producer_side import CloseOnExit, Given, Headers, Sent
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis.connection import ask, client
from baton.queues.redis.keys import queue_key
from baton.queues.redis.outbox import OutgoingEntry, Round, all_known
from baton.queues.redis.routing import slot_of
from baton.queues.redis.sending import Sending, SendOutcome, UnseenFailures, all_sent, sent, waiting_entries, waiting_entry

log = logging.getLogger(__name__)

T = TypeVar("T")

_IDLE = 5.0
"""Seconds without work after which the background thread ends."""
_LOOK = 0.5
"""Seconds after which a waiting caller checks again, as an interrupted thread wakes no caller."""
_LAST_CALLBACKS = 1.0
"""Seconds for the callbacks of entries that `close` gives up."""
_MOST_CALLBACKS = 1000
"""Outcomes that may wait for callbacks; beyond that `produce` waits for the callbacks, up to `patience` seconds."""


class RedisProducer(Sending, CloseOnExit):
    """Sends entries to a queue (`namespace/name`); safe to use from several threads, and on both sides of a fork.

    ```python
    with RedisProducer("redis://redis.shop:6379/0", "shop/orders") as producer:
        producer.send("customer-17", b"shipped", {"traceparent": "00-…"})
    ```

    Entries of one key stay in the order in which they were sent. After a call has returned, its entries are in the queue exactly
    once: retries after a lost connection add no duplicates. A call that raised (QueueUnreachable, after `patience` seconds) may
    have added some of them. `produce` does not wait for the queue.
    """

    def _begin(self) -> None:
        super()._begin()
        self._client = client(self._url, queue_key(self._queue), once=True)
        self._lock = Lock()
        """Guards these fields and the outbox. No thread waits while it holds the lock."""
        self._interrupted = False
        """Whether a change of the outbox has begun and not ended."""
        self._turn = self._free = Lock()
        """Locked while a thread sends."""
        self._asking = False
        """Whether a request has begun and not ended."""
        self._alarms: set[Lock] = set()
        """Locks on which callers wait; releasing one wakes its caller."""
        self._thread: threading.Thread | None = None
        """The background thread, which sends produced entries and runs callbacks."""
        self._ended = False
        _producers.add(self)

    def send(
        self, key: bytes | str | None, value: bytes | str, headers: Headers | None = None, *, partition: int | None = None
    ) -> Sent:
        """Send one entry and return where it was stored.

        `key`: entries of a key go to one partition and stay in order; None: any partition. `headers`: names (str) with values
        (bytes or str), such as a trace's context. `partition`: use this partition instead of the key's. Raises ValueError if the
        queue has no such partition."""
        deadline = time.monotonic() + self._patience
        entry = waiting_entry(key, value, headers, partition, deadline)
        self._send([entry], deadline)
        assert entry.outcome is not None
        return sent(entry.outcome)

    def send_many(self, entries: Iterable[Given]) -> list[Sent]:
        """Send (key, value) or (key, value, headers); many at once cost far less each than one by one. Raises TypeError for
        values other than bytes or str, before anything is sent."""
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
        """Send one entry within `linger` seconds, together with others; waits only for room in the buffer.

        `on_delivery` is called with the delivery once the outcome is known, on the producer's thread: one call at a time, and in
        order for entries of a key. `flush` or `close` raise a failure that the program has not looked at. Raises QueueUnreachable
        if there was no room for `patience` seconds."""
        delivery = PendingSend(self, self._unseen, on_delivery)
        now = time.monotonic()
        deadline = now + self._patience
        entry = waiting_entry(key, value, headers, partition, deadline, due=now + self._linger, listener=delivery.settled)
        delivery.entry = entry
        while not self._add_lingering(entry):
            self._make_room(entry, deadline)
        if len(self._outbox.settled) > _MOST_CALLBACKS:
            self._wait_for_callbacks(deadline)
        return delivery

    def flush(self, within: float | None = None) -> None:
        """Send produced entries at once, and wait up to `within` seconds for their outcomes (None: limited by `patience`). Raises
        QueueUnreachable if an entry may not be in the queue and the program did not look at its delivery."""
        self._report(self._flushed(inf if within is None else time.monotonic() + within), within)

    def close(self, within: float | None = None) -> None:
        """`flush`, and give up on entries that were not sent in time."""
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
        """Send (name, key, value, packed headers), each under its own producer name. Within an hour the queue adds an entry only
        once per name, even if several producers send it."""
        deadline = time.monotonic() + self._patience
        waiting = [
            OutgoingEntry(slot_of(key), key, value, headers, deadline, producer=name) for name, key, value, headers in entries
        ]
        self._send(waiting, deadline)
        all_sent(waiting)

    @property
    def _name(self) -> str:
        return f"producer of {self._queue}"

    def _send(self, entries: Sequence[OutgoingEntry], deadline: float) -> None:
        """Send entries, and return when each has an outcome."""
        try:
            with self._lock:
                self._check_open()
                for entry in entries:
                    self._change(self._outbox.add, entry)
            self._until(all_known(entries), deadline)
        finally:
            if left := [entry for entry in entries if entry.outcome is None]:
                with self._lock:
                    self._change(self._outbox.give_up, left, self._why(left[0]))

    def _why(self, entry: OutgoingEntry) -> str:
        busy = f"{self._url.place}: other threads have kept this producer busy for {self._patience:g} s."
        return self._change(self._outbox.waits_for, entry) or busy

    def _add_lingering(self, entry: OutgoingEntry) -> bool:
        """Add an entry for the background thread. False: the buffer has no room."""
        with self._lock:
            self._check_open()
            if not self._room(entry):
                return False
            if self._thread is None or not self._thread.is_alive():
                # Before adding: if no thread can be started, the entry was not accepted.
                self._thread = threading.Thread(target=self._send_what_lingers, name=self._name, daemon=True)
                self._thread.start()
            before = self._outbox.due
            self._change(self._outbox.add, entry)
            if self._outbox.due < before or self._outbox.settled:
                self._wake()
        return True

    def _make_room(self, entry: OutgoingEntry, deadline: float) -> None:
        waiting = self._hurry()
        self._until(lambda: self._closed or self._room(entry), deadline)
        now = time.monotonic()
        if now >= deadline:
            first = next((each for each in waiting if each.outcome is None), entry)
            with self._lock:
                raise self._full(self._why(first))
        entry.deadline = now + self._patience

    def _hurry(self) -> list[OutgoingEntry]:
        with self._lock:
            return self._change(self._outbox.hurry)

    def _flushed(self, until: float) -> list[OutgoingEntry]:
        """Wait for the outcomes of all open entries, and return these; after `until` some may still have none."""
        waiting = self._hurry()
        self._until(all_known(waiting), until)
        self._wait_for_callbacks(until)
        return waiting

    def _wait_for_callbacks(self, until: float) -> None:
        """Wait until callbacks have run; a no-op inside a callback."""
        if threading.current_thread() is not self._thread:
            self._until(lambda: not self._outbox.settled or self._thread is None, until)

    def _until(self, done: Callable[[], bool], until: float) -> None:
        """Send, or wait for the sending thread, until `done` is true or the time is over."""
        alarm = Lock()
        while True:
            turn = Lock()
            with turn:
                with self._lock:
                    self._repair()
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
        if self._asking:  # the previous request was interrupted, and its answers may still arrive on the connection
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
        """Change the outbox. The caller holds the lock."""
        self._repair()
        self._interrupted = True
        answer = change(*arguments)
        self._interrupted = False
        return answer

    def _repair(self) -> None:
        """Repair the outbox if its last change was interrupted. The caller holds the lock."""
        if self._interrupted:
            self._outbox.repair()
            self._interrupted = False

    def _wake(self) -> None:
        for alarm in self._alarms:
            if alarm.locked():
                alarm.release()
        self._alarms = set()

    def _send_what_lingers(self) -> None:
        """Run the background thread: send produced entries and run callbacks, until there has been nothing to do for a while."""
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
        """Run callbacks, without holding the lock."""
        settled = list(self._outbox.settled)
        for listener in settled:
            try:
                listener()
            except BaseException:
                log.exception("a callback for an entry that was sent has failed")
        with self._lock:
            del self._outbox.settled[: len(settled)]
            self._wake()


class PendingSend(SendOutcome):
    """The outcome of an entry that was passed to `RedisProducer.produce`.

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
        """Wait for the outcome. Raises QueueUnreachable if the entry may not be in the queue, and TimeoutError if the outcome is
        not known after `timeout` seconds."""
        self.seen = True
        if self.entry.outcome is None:
            self._producer._until(self.done, inf if timeout is None else time.monotonic() + timeout)
        if self.entry.outcome is None:
            self.seen = False
            raise TimeoutError(f"the outcome of the entry is not known after {timeout:g} s")
        return self.known()

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Wait like `result`, and return what it raises, or None."""
        try:
            self.result(timeout)
        except (QueueUnreachable, ValueError) as error:
            return error
        return None


_producers: WeakSet[RedisProducer] = WeakSet()
"""The producers of this process, including copies from a process that it was forked from."""


def _forked() -> None:
    for producer in list(_producers):
        outbox = producer._outbox
        outbox.give_up(list(outbox.open), "The parent process, from which this one was forked, sends it.")
        producer._begin()


def _exit() -> None:
    for producer in list(_producers):
        producer.end()


os.register_at_fork(after_in_child=_forked)
atexit.register(_exit)
