"""All watches: kopfs for each scope, on a thread and an event loop of its own, started again when it ends.

One watch that kopf cannot go on with ends all the watches of its kopf, and cancels what else runs on that event loop. With
kopfs of its own for each namespace that is served (`baton.controller.watch.KOPFS`), none of this reaches another namespace, nor
the event loop of the operator. A scope costs two threads and about 3.5 MiB.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

import structlog

from baton.controller.lister import Scope

FIRST_BACKOFF, LONGEST_BACKOFF = 1.0, 15.0
"""Seconds before a watch that ended is started again."""

CALM = 60.0
"""Seconds after which an end counts as the first one again."""

STOPS_WITHIN, TASKS_STOP_WITHIN = 3.0, 1.0
"""Seconds for all threads, and for what a watch that has ended left on its event loop."""

CANCEL_AGAIN = 0.1
"""Seconds after which that is cancelled again."""

Watch = Callable[[Scope, Callable[[], None]], Coroutine[Any, Any, None]]
"""Watches a scope until that cannot go on; calls its second argument when it has begun."""

log = structlog.get_logger("baton.watch")


class Watches:
    """The watches of all scopes, each on a thread of its own."""

    def __init__(self, watch: Watch, namespaces: Sequence[str]) -> None:
        """Namespaces empty: all of them."""
        self._threads = [_Thread(scope, watch) for scope in (*namespaces,) or (None,)]

    @property
    def begun(self) -> bool:
        """Every scope is watched, or was tried."""
        return all(thread.tried for thread in self._threads)

    @property
    def restarts(self) -> Mapping[Scope, int]:
        """How often the watch of each scope was started again."""
        return {thread.scope: thread.restarts for thread in self._threads}

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop all watches. Called from another thread."""
        for thread in self._threads:
            thread.stop()
        until = time.monotonic() + STOPS_WITHIN
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, until - time.monotonic()))


class _Thread(threading.Thread):
    """One scope."""

    def __init__(self, scope: Scope, watch: Watch) -> None:
        super().__init__(name=f"watch {scope or 'all'}", daemon=True)
        self.scope = scope
        self.tried = False
        self.restarts = 0
        self._watch = watch
        self._stopping = threading.Event()
        self._cancel: Callable[[], object] = lambda: None

    def run(self) -> None:
        backoff = FIRST_BACKOFF
        while True:
            began = time.monotonic()
            loop = asyncio.new_event_loop()
            loop.set_exception_handler(_noise)
            try:
                loop.run_until_complete(self._once())
                why = "it ended"
            except (Exception, asyncio.CancelledError) as error:
                why = f"{type(error).__name__}: {error}"[:500]
            self._cancel = lambda: None
            _close(loop)
            self.tried = True
            if self._stopping.is_set():
                return
            self.restarts += 1
            log.warning("a watch ended; it starts again", namespace=self.scope or "all", why=why)
            if time.monotonic() - began >= CALM:
                backoff = FIRST_BACKOFF
            if self._stopping.wait(backoff):
                return
            backoff = min(LONGEST_BACKOFF, backoff * 2)

    def stop(self) -> None:
        """From another thread."""
        self._stopping.set()
        self._cancel()

    async def _once(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def cancel() -> None:
            with suppress(RuntimeError):  # it has ended by itself
                loop.call_soon_threadsafe(task.cancel)

        self._cancel = cancel
        if not self._stopping.is_set():
            await self._watch(self.scope, self._began)

    def _began(self) -> None:
        self.tried = True


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """kopf leaves tasks behind. When they are cancelled, some wait for others that have been cancelled as well, and begin new
    ones; so they are cancelled again. What ends by no cancellation ends with its event loop."""
    until = time.monotonic() + TASKS_STOP_WITHIN
    while (left := asyncio.all_tasks(loop)) and time.monotonic() < until:
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.wait(left, timeout=CANCEL_AGAIN))
    with suppress(TimeoutError):
        loop.run_until_complete(asyncio.wait_for(loop.shutdown_asyncgens(), TASKS_STOP_WITHIN))
    loop.close()


def _noise(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    log.debug("left behind by a watch that ended", what=context.get("message"))
