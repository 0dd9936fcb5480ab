"""One kopf watches everything that this operator serves, and hands every event over to the cluster cache.

All handlers are on.event handlers, which write nothing: no annotations and no finalizers of a framework on anybody's objects. A
follower watches too, so that it can lead at once. An index of kopf's would keep objects that vanished while a watch was broken,
because kopf lists again without saying what is gone. So the cluster cache has stores of its own, which lists correct.

kopf has a thread and an event loop of its own: when it ends, which nothing that the API server says makes it do
(`baton.controller.kopf_session`), what it leaves behind ends with them, and it is started again.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import kopf
import structlog

from baton.controller.kopf_session import login
from baton.kube.api import PAGE, connect
from baton.kube.store import Manifest
from baton.kube.watched_kinds import WATCHED, WatchedKind
from baton.model.names import GROUP_LABEL

Hear = Callable[[WatchedKind, str | None, Manifest], None]
"""What is watched, an event's type (None: it was listed), and the object."""

Lists = Callable[[WatchedKind, str | None], None]
"""See `baton.controller.kopf_session.Begins`."""

FIRST_BACKOFF, LONGEST_BACKOFF = 1.0, 15.0
"""Seconds before kopf is started again."""

CALM = 60.0
"""Seconds after which an end counts as the first one again."""

STOPS_WITHIN, CANCEL_AGAIN = 1.0, 0.1
"""Seconds for what kopf has left on its event loop, and after which that is cancelled again."""

log = structlog.get_logger("baton.watch")


class Watching:
    """Runs `watch`, which is to go on for ever and calls its argument when it has begun, on a thread of its own."""

    def __init__(self, watch: Callable[[Callable[[], None]], Coroutine[Any, Any, None]]) -> None:
        self._watch = watch
        self.begun = False
        """It watches, or has tried to."""
        self.restarts = 0
        self._stopping = threading.Event()
        self._cancel: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Called from another thread."""
        self._stopping.set()
        self._cancel()
        if self._thread.is_alive():
            self._thread.join(3 * STOPS_WITHIN)

    def _run(self) -> None:
        backoff = FIRST_BACKOFF
        while True:
            began = time.monotonic()
            loop = asyncio.new_event_loop()
            loop.set_exception_handler(lambda _, context: log.debug("left behind by kopf", what=context.get("message")))
            try:
                loop.run_until_complete(self._once())
                why = "it ended"
            except (Exception, asyncio.CancelledError) as error:
                why = f"{type(error).__name__}: {error}"[:500]
            self._cancel = lambda: None
            _close(loop)
            self.begun = True
            if self._stopping.is_set():
                return
            self.restarts += 1
            log.warning("kopf ended; it starts again", why=why)
            if time.monotonic() - began >= CALM:
                backoff = FIRST_BACKOFF
            if self._stopping.wait(backoff):
                return
            backoff = min(LONGEST_BACKOFF, backoff * 2)

    async def _once(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def cancel() -> None:
            with suppress(RuntimeError):  # it has ended by itself
                loop.call_soon_threadsafe(task.cancel)

        self._cancel = cancel
        if not self._stopping.is_set():
            await self._watch(self._began)

    def _began(self) -> None:
        self.begun = True


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """kopf leaves tasks behind. When they are cancelled, some wait for others that have been cancelled as well, and begin new
    ones; so they are cancelled again. What ends by no cancellation ends with its event loop."""
    until = time.monotonic() + STOPS_WITHIN
    while (left := asyncio.all_tasks(loop)) and time.monotonic() < until:
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.wait(left, timeout=CANCEL_AGAIN))
    with suppress(TimeoutError):
        loop.run_until_complete(asyncio.wait_for(loop.shutdown_asyncgens(), STOPS_WITHIN))
    loop.close()


async def watch(kubeconfig: Path | None, namespaces: Sequence[str], hear: Hear, lists: Lists, began: Callable[[], None]) -> None:
    """Watch these namespaces (none: all of them) until kopf ends; then raise its failure."""
    logging.getLogger("kopf").setLevel(logging.WARNING)
    logging.getLogger("kopf._core.reactor").setLevel(logging.CRITICAL)  # what it says when it ends is raised as well
    async with connect(kubeconfig) as (api, _):
        registry = kopf.OperatorRegistry()
        for of in WATCHED:
            group, version = of.group_version
            kopf.on.event(group, version, of.value, registry=registry, id=of.value)(partial(_handle, hear, of))

        async def log_in(**_: Any) -> kopf.AiohttpSession:
            return login(api, WATCHED, lists)

        kopf.on.login(registry=registry)(log_in)
        tasks = await kopf.spawn_tasks(
            registry=registry,
            settings=_settings(),
            standalone=True,
            # kopf would ask for the name of its user, and one of a container often has none.
            identity="baton",  # type: ignore[arg-type] # it is a str by a private name
            clusterwide=not namespaces,
            namespaces=namespaces,
        )
        began()
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()


async def _handle(hear: Hear, of: WatchedKind, event: Any, **_: Any) -> None:
    hear(of, event["type"], event["object"])


def _settings() -> kopf.OperatorSettings:
    """Watch only what has the group's label (narrowed at the server); post, scan and lock nothing."""
    made = kopf.OperatorSettings()
    made.posting.enabled = False
    made.scanning.disabled = True
    made.peering.standalone = True
    for of in WATCHED:
        if of.selector:
            made.watching.label_selectors[of.value] = GROUP_LABEL
    made.watching.chunk_size = PAGE
    # A handler here only passes on what it is told; an idle object needs no worker for long.
    made.queueing.idle_timeout = 0.05
    made.persistence.diffbase_storage = _NoDiffs()
    made.process.ultimate_exiting_timeout = None  # it would end the whole process
    return made


class _NoDiffs(kopf.DiffBaseStorage):
    """Stands for kopf's store of former objects, and keeps none: kopf copies all of each object to compare it with the one
    before. For an object of the largest size that an API server takes, that is half a second of work and tens of MiB at every
    change."""

    def build(self, **_: Any) -> Any:
        return {}

    def fetch(self, **_: object) -> None:
        return None

    def store(self, **_: object) -> None:
        return None
