"""An outbox that threads share: whoever waits for an entry does what is next, where nobody else is about it."""

import threading
import time
from collections.abc import Callable, Sequence
from math import inf

from baton.queues.redis.adding import Adding
from baton.queues.redis.kept import KeptConnection
from baton.queues.redis.outbox import Outbox, ReadTable, Round
from baton.queues.redis.outgoing import Waiting, all_known

_IDLE = 5.0
"""Seconds after which the thread that sends what lingers ends, where there is nothing to send."""


class SharedOutbox:
    """With its lock, and the connection that empties it. `with shared:` holds it, as all of its methods want."""

    def __init__(self, outbox: Outbox, adding: Adding, connection: KeptConnection, name: str) -> None:
        """`name`: of the thread that sends what lingers."""
        self.outbox = outbox
        self.connection = connection
        self.asking = False
        """Somebody sends."""
        self.closed = False
        self._adding, self._name = adding, name
        self._changed = threading.Condition(threading.Lock())
        self._waiting = 0
        self._telling: set[int] = set()
        """Threads that call back."""
        self._thread: threading.Thread | None = None

    def __enter__(self) -> None:
        self._changed.acquire()

    def __exit__(self, *exception: object) -> None:
        self._changed.release()

    def work(self, entries: Sequence[Waiting], until: float) -> None:
        if len(entries) == 1 and entries[0].outcome is not None:
            return
        self.work_until(all_known(entries), until)

    def work_until(self, done: Callable[[], bool], until: float) -> None:
        """Sends, or waits for whoever sends, until this is so, or the time is over."""
        while not done():
            now = time.monotonic()
            if now >= until:
                return
            if self.asking:
                self._wait(until - now)
                continue
            what = self.outbox.next(now)
            if isinstance(what, float):
                self._wait(min(until, what) - now)
            else:
                self.step(what)

    def _wait(self, seconds: float) -> None:
        self._waiting += 1
        try:
            self._changed.wait(min(seconds, threading.TIMEOUT_MAX))
        finally:
            self._waiting -= 1

    def step(self, what: ReadTable | Round) -> None:
        flow = self._adding.step(self.outbox, what, time.monotonic)
        self.asking = True
        try:
            ask = next(flow)
            while True:
                self._changed.release()
                try:
                    try:
                        answers: list[object] = self.connection.ask(ask)
                    finally:
                        self._changed.acquire()
                except BaseException as error:
                    ask = flow.throw(error)
                else:
                    ask = flow.send(answers)
        except StopIteration:
            pass
        finally:
            self.asking = False
            if self._waiting:
                self._changed.notify_all()
        self.tell()

    def tell(self) -> None:
        """Calls back, without holding the outbox."""
        if not self.outbox.settled:
            return
        settled, self.outbox.settled = self.outbox.settled, []
        me = threading.get_ident()
        nested = me in self._telling
        self._telling.add(me)
        self._changed.release()
        try:
            for each in settled:
                each.settled()
        finally:
            self._changed.acquire()
            if not nested:
                self._telling.discard(me)
            if self._waiting:
                self._changed.notify_all()

    def told(self, until: float) -> None:
        """Waits until nobody calls back any more; within a callback it does not, for two of them would wait for each other."""
        if threading.get_ident() not in self._telling:
            self.work_until(lambda: not self._telling, until)

    def linger(self, entry: Waiting, owner: object) -> None:
        """Adds an entry for which nobody waits. `owner`: is kept while there is something to send."""
        before = self.outbox.due
        if self._thread is None:  # before the entry is added: where no thread can be made, nothing was taken
            thread = threading.Thread(target=self._send_what_lingers, args=(owner,), name=self._name, daemon=True)
            thread.start()
            self._thread = thread
        self.outbox.add(entry)
        if self._waiting and self.outbox.due < before:
            self._changed.notify_all()
        self.tell()

    def close(self) -> None:
        """Waits for whoever sends, and has nothing sent any more."""
        self.closed = True
        self.tell()
        self._changed.notify_all()
        while self.asking:
            self._wait(inf)
        self.connection.close()

    def _send_what_lingers(self, owner: object) -> None:
        """On a thread of its own, which ends after a while."""
        with self:
            try:
                while self.outbox.entries:
                    self.work_until(lambda: not self.outbox.entries, inf)
                    idle_until = time.monotonic() + _IDLE
                    while not self.outbox.entries and not self.closed and time.monotonic() < idle_until:
                        self._wait(idle_until - time.monotonic())
            finally:
                self._thread = None
