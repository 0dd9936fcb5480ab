"""Events of the watches on their way from their threads to the event loop.

Of each object only the newest event waits, so that what waits is bounded by the objects that there are; and they are delivered a
few at a time, so that ten thousand pods that are seen at once hold up nobody.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import islice

import structlog

from baton.kube.store import Manifest
from baton.kube.watched_kinds import WatchedKind

AT_ONCE = 50
"""Events that are delivered before others have their turn."""

Key = tuple[WatchedKind, str, str]
Event = tuple[str | None, Manifest]

log = structlog.get_logger("baton.watch")


class WatchEvents:
    """`put` may be called from any thread; `deliver` is called on the event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        deliver: Callable[[WatchedKind, str | None, Manifest], None],
        watch_begins: Callable[[WatchedKind, str | None], None] = lambda of, scope: None,
    ) -> None:
        self._loop = loop
        self._watch_begins = watch_begins
        self._deliver = deliver
        self._lock = threading.Lock()
        self._waiting: dict[Key, Event] = {}
        self._called = False
        """The event loop knows that something waits."""

    def put(self, of: WatchedKind, kind: str | None, manifest: Manifest) -> None:
        """A watch's event; see `ClusterCache.event`."""
        metadata = manifest["metadata"]
        key = (of, metadata["namespace"], metadata["name"])
        with self._lock:
            before = self._waiting.get(key)
            if before is not None and _version(before[1]) > _version(manifest):
                return
            self._waiting[key] = (kind, manifest)
            if self._called:
                return
            self._called = True
        with suppress(RuntimeError):  # the event loop has ended, and the process is about to
            self._loop.call_soon_threadsafe(self._some)

    def begins(self, of: WatchedKind, scope: str | None) -> None:
        """A watch begins, see `Relists.watch_begins`."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._watch_begins, of, scope)

    def _some(self) -> None:
        with self._lock:
            batch = [(key, self._waiting.pop(key)) for key in list(islice(self._waiting, AT_ONCE))]
            self._called = bool(self._waiting)
        if self._called:
            self._loop.call_soon(self._some)
        for (of, namespace, name), (kind, manifest) in batch:
            try:
                self._deliver(of, kind, manifest)
            except Exception:  # whatever is the matter with it, other objects are not to suffer
                log.exception(
                    "an object could not be read; it counts as it was before", resource=of.value, namespace=namespace, name=name
                )


def _version(manifest: Manifest) -> int:
    return int(manifest["metadata"]["resourceVersion"])
