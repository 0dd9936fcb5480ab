"""A producer for programs with an event loop. It shares its decisions with the producer for threads (outbox.py)."""

import asyncio
import logging
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from math import inf
from typing import Self

from redis.exceptions import RedisError

from baton.model.wording import counted
from baton.queues.producer_side import Given, Headers, Key, Sent
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis.connection import ask_by_task, async_client
from baton.queues.redis.keys import queue_key
from baton.queues.redis.outbox import OutgoingEntry, Round, all_known
from baton.queues.redis.sending import Sending, SendOutcome, UnseenFailures, all_sent, waiting_entries, waiting_entry
from baton.queues.redis.url_files import TlsFiles

log = logging.getLogger(__name__)


class AsyncRedisProducer(Sending):
    """Sends entries to a queue (`namespace/name`), from the tasks of one event loop.

    ```python
    async with AsyncRedisProducer("redis://redis.shop:6379/0", "shop/orders") as producer:
        await producer.send("customer-17", b"shipped")
    ```

    Like RedisProducer it keeps the order per key and adds each entry once. Tasks that send at the same time share a request. A
    task that is cancelled while it sends may have sent the entry.
    """

    def _begin(self) -> None:
        super()._begin()
        self._client = async_client(self._url, queue_key(self._queue), connections=1, files=TlsFiles(), once=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop of its callers."""
        self._task: asyncio.Task[None] | None = None
        self._sooner = asyncio.Event()
        """Set when an entry was added that is due before the time that the sending task waits for."""
        self._changed = asyncio.Event()
        """Set briefly to wake tasks that wait for a change."""

    async def send(self, key: Key, value: bytes | str, headers: Headers | None = None, *, partition: int | None = None) -> Sent:
        """Send one entry and return where it was stored. Arguments and errors are those of `RedisProducer.send`."""
        delivery = AsyncPendingSend(self._unseen, None)
        deadline = time.monotonic() + self._patience
        delivery.entry = waiting_entry(key, value, headers, partition, deadline, listener=delivery.settled)
        delivery.seen = True
        self._check_open()
        self._add([delivery.entry])
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience):
                    await delivery.settled_by_now.wait()
        finally:
            self._give_up([delivery.entry])
        return delivery.known()

    async def send_many(self, entries: Iterable[Given]) -> list[Sent]:
        """Send (key, value) or (key, value, headers). Errors are those of `RedisProducer.send_many`."""
        waiting = waiting_entries(entries, time.monotonic() + self._patience)
        self._check_open()
        self._add(waiting)
        try:
            await self._until(all_known(waiting), self._patience)
        finally:
            self._give_up(waiting)
        return all_sent(waiting)

    async def produce(
        self,
        key: Key,
        value: bytes | str,
        headers: Headers | None = None,
        *,
        partition: int | None = None,
        on_delivery: "Callable[[AsyncPendingSend], object] | None" = None,
    ) -> "AsyncPendingSend":
        """Send one entry within `linger` seconds, together with others; waits only for room in the buffer. Await the returned
        delivery for the outcome. Otherwise as `RedisProducer.produce`."""
        delivery = AsyncPendingSend(self._unseen, on_delivery)
        now = time.monotonic()
        deadline = now + self._patience
        entry = waiting_entry(key, value, headers, partition, deadline, due=now + self._linger, listener=delivery.settled)
        delivery.entry = entry
        self._check_open()
        if not self._room(entry):
            await self._make_room(entry)
        self._add([entry])
        return delivery

    async def flush(self, within: float | None = None) -> None:
        """As `RedisProducer.flush`."""
        self._check_loop()
        self._report(await self._flushed(within), within)

    async def close(self, within: float | None = None) -> None:
        """`flush`, and give up on entries that were not sent in time."""
        if self._closed:
            return
        self._check_loop()
        try:
            await self._flushed(within)
        finally:
            self._closed = True
            self._outbox.give_up(list(self._outbox.open), f"The producer of {self._queue} was closed before it was sent.")
            self._notify()
            if self._task is not None:
                self._task.cancel()
                await asyncio.gather(self._task, return_exceptions=True)
            await self._client.aclose()
        self._report()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            await self.close()
        except QueueUnreachable as why:
            if error is None:
                raise
            log.error("%s", why)

    def _check_open(self) -> None:
        super()._check_open()
        self._check_loop()

    def _check_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None:
                raise RuntimeError(f"the producer of {self._queue} belongs to another event loop: make one in each")
            self._loop = loop

    def _add(self, entries: Sequence[OutgoingEntry]) -> None:
        before = self._outbox.due
        try:
            for entry in entries:
                self._outbox.add(entry)
        except BaseException:  # an interrupt by a signal handler, after which the event loop may continue
            self._outbox.repair()
            raise
        if self._outbox.settled:
            self._notify()
        if self._outbox.due < before:
            self._sooner.set()
        self._ensure_working()

    def _give_up(self, entries: Sequence[OutgoingEntry]) -> None:
        """Fail those of these entries that have no outcome."""
        if left := [entry for entry in entries if entry.outcome is None]:
            silent = f"{self._url.place} has not answered for {self._patience:g} s."
            self._outbox.give_up(left, self._outbox.waits_for(left[0]) or silent)

    def _ensure_working(self) -> None:
        if self._outbox.open and (self._task is None or self._task.done()):
            if self._task is not None and (self._task.cancelled() or self._task.exception() is not None):
                self._outbox.repair()  # an exception of a signal handler may have ended the event loop during a change
            self._task = asyncio.create_task(self._work())

    async def _make_room(self, entry: OutgoingEntry) -> None:
        self._hurry()
        await self._until(lambda: self._room(entry), self._patience)
        self._check_open()
        if not self._room(entry):
            first = next(iter(self._outbox.open), entry)
            raise self._full(self._outbox.waits_for(first) or f"{self._url.place} is slow.")
        entry.deadline = time.monotonic() + self._patience

    async def _flushed(self, within: float | None) -> list[OutgoingEntry]:
        """Wait for the outcomes of all open entries, and return these; after `within` seconds some may still have none."""
        waiting = self._hurry()
        await self._until(all_known(waiting), within)
        return waiting

    def _hurry(self) -> list[OutgoingEntry]:
        self._sooner.set()
        return self._outbox.hurry()

    async def _until(self, done: Callable[[], bool], seconds: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not done():
                    self._ensure_working()
                    self._changed.clear()
                    await self._changed.wait()

    async def _work(self) -> None:
        """Send until no entry is open."""
        try:
            while self._outbox.open:
                now = time.monotonic()
                what = self._outbox.next(now)
                if isinstance(what, float):
                    self._sooner.clear()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(what - now if what < inf else None):
                            await self._sooner.wait()
                else:
                    await self._ask(what)
        except asyncio.CancelledError:
            if self._outbox.open:
                count = counted(len(self._outbox.open), "entry", "entries")
                log.error("%s to %s may not be sent: the event loop ended, and the producer was open", count, self._queue)
            self._notify()  # a waiting caller starts another task that sends
            raise
        except Exception as error:
            why = f"{self._url.place}: unexpected failure ({type(error).__name__}: {self._url.hidden(error)})."
            self._outbox.give_up(list(self._outbox.open), why)
            self._notify()

    async def _ask(self, what: Round | None) -> None:
        answers: list[object] | Exception
        try:
            answers = await ask_by_task(self._client, self._adding.request(what))
        except (RedisError, OSError) as error:
            answers = error
        self._adding.answered(self._outbox, what, answers, time.monotonic())
        self._notify()

    def _notify(self) -> None:
        for listener in self._outbox.settled:
            listener()
        self._outbox.settled.clear()
        self._changed.set()


class AsyncPendingSend(SendOutcome):
    """The outcome of an entry that was passed to `AsyncRedisProducer.produce`.

    ```python
    delivery = await producer.produce("customer-17", b"shipped")
    print((await delivery).offset)
    ```

    Awaiting it raises QueueUnreachable if the entry may not be in the queue. Cancelling the wait does not cancel the send."""

    def __init__(self, unseen: UnseenFailures, on_delivery: "Callable[[AsyncPendingSend], object] | None") -> None:
        super().__init__(unseen, on_delivery)
        self.settled_by_now = asyncio.Event()

    def __await__(self) -> Generator[object, None, Sent]:
        return self._result().__await__()

    async def _result(self) -> Sent:
        self.seen = True
        await self.settled_by_now.wait()
        return self.known()

    def result(self) -> Sent:
        """Return the outcome without waiting, as in a callback. Raises asyncio.InvalidStateError while the outcome is not
        known."""
        if not self.done():
            raise asyncio.InvalidStateError("the outcome of the entry is not known yet: await the delivery")
        return self.known()

    def exception(self) -> Exception | None:
        """Return what `result` raises for an entry that may not be in the queue, or None."""
        try:
            self.result()
        except (QueueUnreachable, ValueError) as error:
            return error
        return None

    def settled(self) -> None:
        super().settled()
        self.settled_by_now.set()
