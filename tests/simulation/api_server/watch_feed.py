"""What kopf does for the operator, without kopf: lists, watches from there, lists again where a watch cannot go on, and hands
every object on, as `baton.controller.watch` has it done.

Like kopf it says nothing of what vanished while it did not watch: a list only names what there is.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from itertools import chain, repeat
from typing import Any

from tests.simulation.api_server.memory_api import MemoryApi

from baton.kube.api import ApiError, UnavailableError
from baton.kube.watched import Watched

Put = Callable[[Watched, str | None, Mapping[str, Any]], None]
"""Of a kind, an event's type (None: an object of a list) and the object; `baton.controller.feed.Feed.put` is one."""


class WatchFeed:
    """All watches of one replica. `ready` is set once everything has been listed."""

    def __init__(
        self, api: MemoryApi, put: Put, namespaces: Sequence[str] = (), repeats: Callable[[], bool] = lambda: False
    ) -> None:
        """Namespaces empty: all of them. `repeats`: whether an event is told twice."""
        scopes: list[str | None] = [*namespaces] or [None]
        self._watches = [
            _Watch(api, of.path(scope), of.selector, partial(put, of), repeats) for scope in scopes for of in Watched
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
    ) -> None:
        self._api = api
        self.path = path
        self._selector = selector
        self._hear = hear
        self._repeats = repeats
        self.listed = asyncio.Event()

    async def run(self) -> None:
        backoffs = _backoffs()
        version: str | None = None
        while True:
            try:
                if version is None:
                    version = await self._list()
                async for seen in self._follow(version):
                    version = seen
                    backoffs = _backoffs()
            except (ApiError, UnavailableError) as error:
                if isinstance(error, ApiError):
                    version = None
                await asyncio.sleep(next(backoffs))

    async def _list(self) -> str:
        found = await self._api.get(self.path, **self._selector)
        for item in found["items"]:
            self._tell(None, item)
        self.listed.set()
        return str(found["metadata"]["resourceVersion"])

    async def _follow(self, version: str) -> AsyncIterator[str]:
        """The versions that arrive. Raises ApiError where the server ends the watch with one."""
        async with aclosing(self._api.watch(self.path, version, **self._selector)) as events:
            async for event in events:
                kind, manifest = event["type"], event["object"]
                if kind == "ERROR":
                    raise ApiError(manifest["code"], manifest.get("reason", ""), manifest["message"])
                if kind != "BOOKMARK":
                    self._tell(kind, manifest)
                yield str(manifest["metadata"]["resourceVersion"])

    def _tell(self, kind: str | None, manifest: Mapping[str, Any]) -> None:
        self._hear(kind, manifest)
        if self._repeats():
            self._hear(kind, manifest)


def _backoffs() -> Iterator[float]:
    """Seconds, as `baton.controller.watch` has them."""
    return chain((0.2, 0.5, 1.0), repeat(2.0))
