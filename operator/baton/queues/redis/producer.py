"""Putting entries into a partitioned queue on Redis streams: in order per key, and once each, whatever happens on the way."""

import atexit
import logging
import os
import time
from collections.abc import Callable, Iterable
from math import inf
from secrets import token_hex
from typing import Self
from weakref import WeakSet

from baton.queues.protocol import QueueUnreachable
from baton.queues.redis.add_script import AddScript
from baton.queues.redis.connection import client
from baton.queues.redis.headers import Headers
from baton.queues.redis.kept_connection import KeptConnection
from baton.queues.redis.keys import queue_key
from baton.queues.redis.outbox import Outbox
from baton.queues.redis.outgoing import Sent, Waiting
from baton.queues.redis.routing import slot_of
from baton.queues.redis.send_options import Given, SendOptions, named, still_wait, waiting_entries, waiting_entry
from baton.queues.redis.send_outcome import SendOutcome, UnseenFailures, all_sent, sent
from baton.queues.redis.shared_outbox import SharedOutbox
from baton.queues.redis.url import read

log = logging.getLogger(__name__)

_MOST_UNTOLD = 1000
"""Outcomes that may wait for callbacks. Where more do, `produce` waits for those, for `patience` seconds."""


class RedisProducer:
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            self.close()
        else:
            self._end()

    def _end(self) -> None:
        """Closes it where something else is on its way to whoever is to hear of it."""
        try:
            self.close()
        except QueueUnreachable as why:
            log.error("%s", why)

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
        producer._end()


os.register_at_fork(after_in_child=_forked)
atexit.register(_exit)
