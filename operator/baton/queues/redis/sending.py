"""How a producer's user says what to send, and hears what became of it."""

import logging
from collections.abc import Callable, Iterable
from inspect import CO_COROUTINE, iscoroutinefunction
from math import inf
from secrets import token_hex
from types import MethodType
from typing import Any, Self

from baton.model.options import function, number, whole
from baton.model.wording import counted
from baton.queues.producer_side import Given, Headers, Key, Sent
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis.add_script import AddScript
from baton.queues.redis.headers import pack, utf8
from baton.queues.redis.outbox import Failed, Outbox, SendListener, Waiting, to_partition
from baton.queues.redis.routing import slot_of
from baton.queues.redis.url import read

MOST_BYTES = 64 * 2**20
"""Limit of an entry. A reader gets an entry as a whole, and the server serves no other client while it copies one: half a second
for this much. Redis would accept eight times as much, which could not be read in time."""


def _named(queue: str) -> str:
    """Raises ValueError for a queue without its namespace: it would be waited for, as one that is not made yet. TypeError for
    what is no text."""
    if not isinstance(queue, str):
        raise TypeError(f"the queue is {queue!r}: give its name as a text, such as 'shop/orders'")
    namespace, slash, name = queue.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise ValueError(f"the queue is {queue!r}: name it with its namespace, as in shop/orders")
    return queue


def waiting_entry(
    key: Key,
    value: bytes | str,
    headers: Headers | None,
    partition: int | None,
    deadline: float,
    *,
    due: float = -inf,
    told: SendListener | None = None,
) -> Waiting:
    """Raises TypeError and ValueError for what is no entry."""
    coded = b"" if key is None else _bytes(key, "key")
    if partition is not None:
        if not isinstance(partition, int) or partition < 0:
            raise ValueError(f"a partition is a number from 0, not {partition!r}")
        slot: int | None = to_partition(partition)
    else:
        slot = None if key is None else slot_of(coded)
    payload, packed = _bytes(value, "value"), pack(headers) if headers else b""
    if (size := len(coded) + len(payload) + len(packed)) > MOST_BYTES:
        raise ValueError(
            f"an entry has {MOST_BYTES:,} bytes of key, value and headers at most, not {size:,}: put what is larger elsewhere, "
            "and send where it is"
        )
    return Waiting(slot, coded, payload, packed, deadline, due=due, told=told)


def waiting_entries(entries: Iterable[Given], deadline: float) -> list[Waiting]:
    """Likewise."""
    return [waiting_entry(*_parts(entry), None, deadline) for entry in entries]


def _parts(entry: object) -> tuple[Key, bytes | str, Headers | None]:
    if not isinstance(entry, (tuple, list)):
        raise TypeError(f"an entry is (key, value) or (key, value, headers), not {type(entry).__name__}")
    if not 2 <= len(entry) <= 3:
        raise TypeError(f"an entry is key, value and headers, not {counted(len(entry), 'thing')}")
    return entry[0], entry[1], entry[2] if len(entry) == 3 else None


def _bytes(text: bytes | str, what: str) -> bytes:
    if isinstance(text, str):
        return utf8(text, what)
    if isinstance(text, bytes):
        return text
    raise TypeError(f"a {what} is bytes or str, not {type(text).__name__}")


log = logging.getLogger(__name__)

_MOST = 1000
"""Failures that are kept until the program looks at them; further ones are only counted."""


class SendOutcome(SendListener):
    """What deliveries of threads and of tasks have in common."""

    def __init__(self, unseen: "UnseenFailures", on_delivery: "Callable[[Any], object] | None") -> None:
        self.entry: Waiting
        self.seen = False
        self._unseen = unseen
        self._callbacks: list[Callable[[Any], object]] = []
        if on_delivery is not None:
            _see_takes_a_delivery("on_delivery", on_delivery)
            self._callbacks.append(on_delivery)

    def done(self) -> bool:
        """Whether it is known: `result` answers at once."""
        return self.entry.outcome is not None

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        """It is called with this when the outcome is known, also where it is by now. What it raises is logged. Raises TypeError
        for what cannot be called so."""
        _see_takes_a_delivery("callback", callback)
        self._callbacks.append(callback)
        if self.done():
            self._call_back()

    def settled(self) -> None:
        """Also where it was called before: nothing is done twice."""
        if self._callbacks:
            self._call_back()
        if not self.seen and isinstance(self.entry.outcome, Failed):
            self._unseen.add(self)

    def _call_back(self) -> None:
        """Each of them once, though several threads do this."""
        self.seen = True
        while self._callbacks:
            try:
                callback = self._callbacks.pop(0)
            except IndexError:
                return
            try:
                callback(self)
            except Exception:
                log.exception("a callback for an entry that was sent has failed")

    def known(self) -> Sent:
        """Of one that is done."""
        self.seen = True
        assert self.entry.outcome is not None
        return sent(self.entry.outcome)


class UnseenFailures:
    """Entries that may not be in the queue, unknown to the program so far."""

    def __init__(self) -> None:
        self._failed: dict[SendOutcome, None] = {}
        self._more = 0

    def add(self, outcome: SendOutcome) -> None:
        if len(self._failed) >= _MOST:
            self._failed = {each: None for each in self._failed if not each.seen}
        if len(self._failed) < _MOST:
            self._failed[outcome] = None
        else:
            self._more += 1

    def report(self) -> str | None:
        """A sentence about them, once; None where there are none."""
        failed, self._failed = self._failed, {}
        found = [each for each in failed if not each.seen]
        count, self._more = len(found) + self._more, 0
        if not count:
            return None
        first = found[0].entry.outcome if found else None
        why = f" The first: {first.why}" if isinstance(first, Failed) else ""
        return f"{counted(count, 'entry', 'entries')} of produce() may not be in the queue.{why}"


def _see_takes_a_delivery(name: str, value: Any) -> None:
    """Raises TypeError. Mostly it is a function of one argument, and nothing needs to be asked that takes longer than a send."""
    code = getattr(value, "__code__", None)
    arguments = 2 if isinstance(value, MethodType) else 1
    if code is None or code.co_argcount != arguments or code.co_kwonlyargcount or code.co_flags & CO_COROUTINE:
        function(name, value, "delivery")
        if iscoroutinefunction(value):
            raise TypeError(f"{name} is {value!r}, which is called and not awaited: give a plain function")


def sent(outcome: Sent | Failed) -> Sent:
    """Raises what it failed with."""
    if isinstance(outcome, Sent):
        return outcome
    raise outcome.error(outcome.why)


def all_sent(entries: Iterable[Waiting]) -> list[Sent]:
    """Raises QueueUnreachable, with how many may not have been sent."""
    found: list[Sent] = []
    failed: list[Failed] = []
    for entry in entries:
        if isinstance(entry.outcome, Sent):
            found.append(entry.outcome)
        elif entry.outcome is not None:
            failed.append(entry.outcome)
    if not failed:
        return found
    first = failed[0]
    if first.error is not QueueUnreachable:
        raise first.error(first.why)
    raise QueueUnreachable(f"{first.why} {counted(len(failed), 'entry', 'entries')} may not have been sent.")


class Sending:
    """What producers of threads and of tasks have in common."""

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

        `linger`, `max_entries`, `max_bytes`: what is given to `produce` is sent after `linger` seconds, or when so much has come.
        `buffer_bytes`: so much may wait; then `produce` waits for room. `replicas`: so many are to have an entry (WAIT) before
        it counts as sent. Raises TypeError for what is no number or text, and ValueError for what nothing could be sent with.
        """
        number("patience", patience, 0)
        number("linger", linger, 0)
        whole("max_entries", max_entries, 1)
        number("max_bytes", max_bytes, 1)
        number("buffer_bytes", buffer_bytes, 1)
        whole("replicas", replicas, 0)
        self._patience, self._linger, self._buffer_bytes = patience, linger, buffer_bytes
        self._most = max_entries, max_bytes
        self._queue = _named(queue)
        self._url = read(url, own=True)
        self._adding = AddScript(self._url, queue, replicas)
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        """Under a name of its own: the queue takes what two processes send under one name and sequence for one entry."""
        self._outbox = Outbox(self._queue, token_hex(6), *self._most)
        self._unseen = UnseenFailures()

    def _room(self, entry: Waiting) -> bool:
        """Whether an entry may wait, too. One that is larger than the whole buffer may, by itself."""
        return not self._outbox.open or self._outbox.bytes + entry.size <= self._buffer_bytes

    def _full(self, why: str) -> QueueUnreachable:
        full = f"The producer's buffer is full ({self._buffer_bytes:,} bytes), so it took nothing new for {self._patience:g} s."
        return QueueUnreachable(f"{why} {full}")

    def _report(self, waiting: Iterable[Waiting] = (), within: float | None = None) -> None:
        """Raises QueueUnreachable where some of these still wait after so many seconds, or something failed unseen."""
        if left := sum(entry.outcome is None for entry in waiting):
            wait = "waits" if left == 1 else "wait"
            entries = counted(left, "entry", "entries")
            raise QueueUnreachable(f"{self._url.place}: {entries} to {self._queue} still {wait} after {within:g} s.")
        if why := self._unseen.report():
            raise QueueUnreachable(why)

    def _see_open(self) -> None:
        if self._closed:
            raise RuntimeError(f"the producer of {self._queue} is closed")
