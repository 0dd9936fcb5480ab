"""Waits for a queue in a thread of its own, for readers who ask their server to answer when there is something. So one consumer
can wait for several queues, its ledger and its end at the same time."""

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from baton.queues.protocol import QueueUnreachable

log = logging.getLogger(__name__)

_LONGEST_WAIT = 30.0
_PAUSE = 0.5
_CLOSE_WITHIN = 1.0
"""Seconds. The thread of a wait at a server that hangs is left to itself."""


class WaitingThread:
    """Calls `woken` when there may be something to read in the partitions that it was last asked to wait for."""

    def __init__(
        self,
        wait: Callable[[Sequence[int], float], object],
        interrupt: Callable[[], None],
        woken: Callable[[], None],
    ) -> None:
        """`wait` returns when there is something in one of these partitions, after so many seconds, or when it is interrupted."""
        self._wait = wait
        self._interrupt = interrupt
        self._woken = woken
        self._condition = threading.Condition()
        self._asked: frozenset[int] = frozenset()
        """To wait for next; empty: nothing."""
        self._waiting: frozenset[int] = frozenset()
        """Being waited for."""
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="baton-waiting", daemon=True)
        self._thread.start()

    def wait_for(self, partitions: frozenset[int]) -> None:
        """Wait for these, once; a wait for all of them that is under way goes on."""
        with self._condition:
            if partitions <= self._waiting or partitions <= self._asked:
                return
            self._asked = partitions
            interrupt = bool(self._waiting)
            self._condition.notify_all()
        if interrupt:
            self._interrupt()

    def close(self) -> None:
        """After this the reader may be closed."""
        self._closed.set()
        with self._condition:
            self._condition.notify_all()
        # A server that hangs must not use up the pod's grace period, so it is not this thread that asks it.
        threading.Thread(target=self._end_wait, name="baton-interrupt", daemon=True).start()
        self._thread.join(_CLOSE_WITHIN)

    def _end_wait(self) -> None:
        with suppress(Exception):  # the reader may be closed by now
            self._interrupt()

    def _run(self) -> None:
        problem = False
        while not self._closed.is_set():
            with self._condition:
                self._condition.wait_for(lambda: self._asked or self._closed.is_set())
                self._waiting, self._asked = self._asked, frozenset()
            if self._closed.is_set():
                return
            try:
                self._wait(sorted(self._waiting), _LONGEST_WAIT)
                problem = False
            except QueueUnreachable:
                self._closed.wait(_PAUSE)
            except Exception:
                if self._closed.is_set():  # the connection was closed under it
                    return
                if not problem:
                    log.exception("waiting for a queue failed, and is tried again")
                problem = True
                self._closed.wait(_PAUSE)
            with self._condition:
                self._waiting = frozenset()
            self._woken()
