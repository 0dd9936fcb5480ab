"""The producer for programs with an event loop. What it sends, when and how often is decided as for threads (outbox.py)."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from math import inf
from secrets import token_hex
from typing import Self

from baton.model.wording import counted
from baton.queues.producer_side import Given, Headers, Key, Sent
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis.add_script import AddScript
from baton.queues.redis.connection import KeptTaskConnection, async_client
from baton.queues.redis.keys import queue_key
from baton.queues.redis.outbox import Outbox, ReadTable, Round, Waiting, all_known
from baton.queues.redis.sending import (
    AllAwaited,
    AsyncPendingSend,
    Awaited,
    SendOptions,
    UnseenFailures,
    all_sent,
    named,
    still_wait,
    waiting_entries,
    waiting_entry,
)
from baton.queues.redis.url import read
from baton.queues.redis.url_files import TlsFiles

log = logging.getLogger(__name__)


class AsyncRedisProducer:
    """Sends entries to a queue (`namespace/name`), from the tasks of one event loop: `async with AsyncRedisProducer(…)`.

    It keeps what RedisProducer does: order per key, and each entry once. Tasks that send at the same time share a request. A
    task that is cancelled while it sends may have sent.
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
        """As of RedisProducer."""
        self._sending = SendOptions(patience, linger, max_entries, max_bytes, buffer_bytes, replicas)
        self._queue = named(queue)
        self._url = read(url, own=True)
        self._client = async_client(self._url, queue_key(queue), connections=1, files=TlsFiles())
        self._connection = KeptTaskConnection(self._client)
        self._adding = AddScript(self._url, queue, replicas)
        self._outbox = Outbox(queue, token_hex(6), max_entries, max_bytes)
        self._unseen = UnseenFailures()
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        """Whose tasks use it."""
        self._task: asyncio.Task[None] | None = None
        self._sooner: asyncio.Event = asyncio.Event()
        """Something was added that is to be sent before what was waited for."""
        self._watching: set[asyncio.Future[None]] = set()
        """Who waits for any change."""

    async def send(self, key: Key, value: bytes | str, headers: Headers | None = None, *, partition: int | None = None) -> Sent:
        """Where it is now. Arguments and errors are those of `RedisProducer.send`."""
        delivery = AsyncPendingSend(self._unseen, None)
        deadline = time.monotonic() + self._sending.patience
        delivery.entry = waiting_entry(key, value, headers, partition, deadline, told=delivery)
        delivery.seen = True
        self._see_open()
        await self._deliver([delivery.entry], delivery)
        return delivery.known()

    async def send_many(self, entries: Iterable[Given]) -> list[Sent]:
        """Likewise, of (key, value) or (key, value, headers)."""
        waiting = waiting_entries(entries, time.monotonic() + self._sending.patience)
        self._see_open()
        last = AllAwaited(waiting)
        await self._deliver(waiting, last)
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
        """Send it within `linger`, together with others, and wait for nothing but room in the buffer: `await` what is returned to
        hear what became of it. As `RedisProducer.produce`."""
        delivery = AsyncPendingSend(self._unseen, on_delivery)
        now = time.monotonic()
        deadline, due = now + self._sending.patience, now + self._sending.linger
        entry = delivery.entry = waiting_entry(key, value, headers, partition, deadline, due=due, told=delivery)
        self._see_open()
        if not self._sending.room(self._outbox, entry):
            await self._make_room(entry)
        self._add([entry])
        return delivery

    async def flush(self, within: float | None = None) -> None:
        """As `RedisProducer.flush`."""
        self._see_loop()
        left = await self._flushed(within)
        if left:
            raise QueueUnreachable(f"{self._url.place}: {still_wait(left, self._queue)} after {within:g} s.")
        if why := self._unseen.report():
            raise QueueUnreachable(why)

    async def close(self, within: float | None = None) -> None:
        """`flush`, and give up what was not sent in time."""
        if self._closed:
            return
        self._see_loop()
        try:
            await self._flushed(within)
        finally:
            self._closed = True
            self._outbox.give_up(list(self._outbox.open), f"The producer of {self._queue} was closed before it was sent.")
            self._tell()
            if self._task is not None:
                self._task.cancel()
                await asyncio.gather(self._task, return_exceptions=True)
            await self._connection.close()
            await self._client.aclose()
        if why := self._unseen.report():
            raise QueueUnreachable(why)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            await self.close()
        except QueueUnreachable as why:
            if error is None:
                raise
            log.error("%s", why)

    def _see_open(self) -> None:
        if self._closed:
            raise RuntimeError(f"the producer of {self._queue} is closed")
        self._see_loop()

    def _see_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None:
                raise RuntimeError(f"the producer of {self._queue} belongs to another event loop: make one in each")
            self._loop = loop

    def _add(self, entries: Sequence[Waiting]) -> None:
        before = self._outbox.due
        self._outbox.torn = True
        for entry in entries:
            self._outbox.add(entry)
        self._outbox.torn = False
        if self._outbox.settled:
            self._tell()
        if self._outbox.due < before:
            self._sooner.set()
        self._see_working()

    def _see_working(self) -> None:
        if self._outbox.open and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._work())

    async def _deliver(self, entries: Sequence[Waiting], known: "Awaited") -> None:
        """Each of them has an outcome then."""
        self._add(entries)
        try:
            async with asyncio.timeout(self._sending.patience):
                await known.wait()
        except TimeoutError:
            pass
        finally:
            for entry in entries:
                if entry.outcome is None:
                    busy = f"{self._url.place} has not answered for {self._sending.patience:g} s."
                    self._outbox.give_up([entry], self._outbox.waits_for(entry) or busy)

    async def _make_room(self, entry: Waiting) -> None:
        self._outbox.hurry()
        self._sooner.set()
        await self._until(lambda: self._sending.room(self._outbox, entry), self._sending.patience)
        self._see_open()
        if not self._sending.room(self._outbox, entry):
            first = next(iter(self._outbox.open), entry)
            raise QueueUnreachable(self._sending.full(self._outbox.waits_for(first) or f"{self._url.place} is slow."))
        entry.deadline = time.monotonic() + self._sending.patience

    async def _flushed(self, within: float | None) -> int:
        """How many still wait after that time."""
        self._outbox.hurry()
        self._sooner.set()
        waiting = list(self._outbox.open)
        await self._until(all_known(waiting), within)
        return sum(entry.outcome is None for entry in waiting)

    async def _until(self, done: Callable[[], bool], seconds: float | None) -> None:
        """Waits until this is so, or the time is over."""
        try:
            async with asyncio.timeout(seconds):
                while not done():
                    self._see_working()
                    changed = asyncio.get_running_loop().create_future()
                    self._watching.add(changed)
                    try:
                        await changed
                    finally:
                        self._watching.discard(changed)
        except TimeoutError:
            pass

    async def _work(self) -> None:
        """A task that sends while there is something to send."""
        try:
            while self._outbox.open:
                if self._outbox.torn or self._outbox.under_way:
                    self._outbox.mend()  # a task was cancelled, or interrupted by what a signal's handler raised
                now = time.monotonic()
                what = self._outbox.next(now)
                if isinstance(what, float):
                    await self._rest(what - now)
                else:
                    await self._step(what)
        except asyncio.CancelledError:
            if self._outbox.open:
                count = counted(len(self._outbox.open), "entry", "entries")
                log.error("%s to %s may not be sent: the event loop ended, and the producer was open", count, self._queue)
            self._tell()  # whoever waits has another task send
            raise
        except Exception as error:
            why = f"{self._url.place}: unexpected failure ({type(error).__name__}: {self._url.hidden(error)})."
            self._outbox.give_up(list(self._outbox.open), why)
            self._tell()

    async def _rest(self, seconds: float) -> None:
        self._sooner.clear()
        alarm = asyncio.get_running_loop().call_later(seconds, self._sooner.set) if seconds < inf else None
        try:
            await self._sooner.wait()
        finally:
            if alarm is not None:
                alarm.cancel()

    async def _step(self, what: ReadTable | Round) -> None:
        flow = self._adding.step(self._outbox, what, time.monotonic)
        try:
            ask = next(flow)
            while True:
                try:
                    answers: list[object] = await self._connection.ask(ask)
                except BaseException as error:
                    ask = flow.throw(error)
                else:
                    ask = flow.send(answers)
        except StopIteration:
            pass
        self._tell()

    def _tell(self) -> None:
        for each in self._outbox.settled:
            each.settled()
        self._outbox.settled = []  # only now: what is interrupted in here is told again
        for changed in self._watching:
            if not changed.done():
                changed.set_result(None)
