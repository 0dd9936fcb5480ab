"""What kopf does for the operator, without kopf: lists, watches from there, lists again where a watch cannot go on, and hands
every object on, as `baton.controller.watch` has it done.

Like kopf it says nothing of what vanished while it did not watch: a list only names what there is, and then tells that this was
all.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import aclosing
from functools import partial
from typing import Any

from baton.controller.watch import RETRY, Broke, Listed
from baton.kube.errors import ApiError, UnavailableError
from baton.kube.following import SHORTEST_WATCH, WATCHED_FOR, pages
from baton.kube.store import WATCHED, Key, WatchedKind, key_of
from tests.simulation.api_server.memory_api import MemoryApi

Put = Callable[[WatchedKind, str | None, Mapping[str, Any]], None]
"""Of a kind, an event's type (None: an object of a list) and the object; see `WatchEvents.put`."""

RECONNECT = 0.1
"""Seconds before kopf lists again after a watch that was told that its version is gone."""


class WatchFeed:
    """All watches of one replica. `ready` is set once everything has been listed."""

    def __init__(
        self,
        api: MemoryApi,
        put: Put,
        namespaces: Sequence[str] = (),
        repeats: Callable[[], bool] = lambda: False,
        broke: Broke = lambda of, scope: None,
        listed: Listed = lambda of, scope, there, version: None,
    ) -> None:
        """Namespaces empty: all of them. `repeats`: whether an event is told twice. `broke`, `listed`: see `WatchEvents`."""
        self._watches = [
            _Watch(
                api, of.path(scope), of.selector, partial(put, of), repeats, partial(broke, of, scope), partial(listed, of, scope)
            )
            for scope in (*namespaces,) or (None,)
            for of in WATCHED
        ]
        self.ready = asyncio.Event()

    async def run(self) -> None:
        """For ever."""
        async with asyncio.TaskGroup() as tasks:
            for watch in self._watches:
                tasks.create_task(watch.run(), name=f"watch {watch.path}")
            for watch in self._watches:
                await watch.listed.wait()
            self.ready.set()


class _Watch:
    """One path."""

    def __init__(
        self,
        api: MemoryApi,
        path: str,
        selector: Mapping[str, str],
        hear: Callable[[str | None, Mapping[str, Any]], None],
        repeats: Callable[[], bool],
        broke: Callable[[], None],
        told_all: Callable[[Set[Key], int], None],
    ) -> None:
        self._api = api
        self.path = path
        self._selector = selector
        self._hear = hear
        self._repeats = repeats
        self._broke = broke
        self._told_all = told_all
        self.listed = asyncio.Event()

    async def run(self) -> None:
        while True:
            version: str | None = await self._list()
            self.listed.set()
            while version is not None:
                began = asyncio.get_running_loop().time()
                version = await self._follow(version)
                await asyncio.sleep(began + SHORTEST_WATCH - asyncio.get_running_loop().time())
            await asyncio.sleep(RECONNECT)

    async def _list(self) -> str:
        while True:
            version, there = "", set[Key]()
            try:
                async for page in pages(self._api, self.path, self._selector):
                    for item in page["items"]:
                        self._tell(None, item)
                    there.update(map(key_of, page["items"]))
                    version = str(page["metadata"]["resourceVersion"])
                self._told_all(there, int(version))
                return version
            except (ApiError, UnavailableError):
                self._broke()
                await asyncio.sleep(RETRY)

    async def _follow(self, version: str) -> str | None:
        """From this version on, until the connection ends. Returns the version to go on from; None: there is no going on."""
        try:
            async with asyncio.timeout(WATCHED_FOR), aclosing(self._api.watch(self.path, version, **self._selector)) as events:
                async for event in events:
                    kind, manifest = event["type"], event["object"]
                    if kind == "ERROR":
                        return None
                    self._tell(kind, manifest)
                    version = str(manifest["metadata"]["resourceVersion"])
        except TimeoutError:
            pass
        except UnavailableError:
            self._broke()
        except ApiError:
            return None
        return version

    def _tell(self, kind: str | None, manifest: Mapping[str, Any]) -> None:
        self._hear(kind, manifest)
        if self._repeats():
            self._hear(kind, manifest)
