"""A thread that waits for new entries of a queue, for readers with a blocking wait. With it a consumer can wait for several
queues, its ledger and its shutdown at the same time."""

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from baton.queues.protocol import QueueUnreachable

log = logging.getLogger(__name__)

_LONGEST_WAIT = 30.0
_PAUSE = 0.5
_CLOSE_WITHIN = 1.0
"""Seconds that `close` waits for the thread. If the server hangs, the thread is left running (it is a daemon)."""


class WaitingThread:
    """Calls `woken` when there may be something to read in the partitions of the last `wait_for`."""

    def __init__(
        self,
        wait: Callable[[Sequence[int], float], object],
        interrupt: Callable[[], None],
        woken: Callable[[], None],
    ) -> None:
        """`wait(partitions, seconds)` returns when one of the partitions has something, after the timeout, or after
        `interrupt`."""
        self._wait = wait
        self._interrupt = interrupt
        self._woken = woken
        self._condition = threading.Condition()
        self._asked: frozenset[int] = frozenset()
        """Partitions to wait for next; empty: no request."""
        self._waiting: frozenset[int] = frozenset()
        """Partitions of the current wait."""
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="baton-waiting", daemon=True)
        self._thread.start()

    def wait_for(self, partitions: frozenset[int]) -> None:
        """Wait for these partitions, once. A current wait that includes all of them continues."""
        with self._condition:
            if partitions <= self._waiting or partitions <= self._asked:
                return
            self._asked = partitions
            interrupt = bool(self._waiting)
            self._condition.notify_all()
        if interrupt:
            self._interrupt()

    def close(self) -> None:
        """End the thread. The reader may be closed afterwards."""
        self._closed.set()
        with self._condition:
            self._condition.notify_all()
        # The interrupt asks the server. If the server hangs, that must not use up the pod's grace period: use another thread.
        threading.Thread(target=self._end_wait, name="baton-interrupt", daemon=True).start()
        self._thread.join(_CLOSE_WITHIN)

    def _end_wait(self) -> None:
        with suppress(Exception):  # the reader may already be closed
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
                    log.exception("waiting for a queue failed; retrying")
                problem = True
                self._closed.wait(_PAUSE)
            with self._condition:
                self._waiting = frozenset()
            self._woken()
