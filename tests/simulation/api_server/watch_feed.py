"""What kopf does for the operator, without kopf: lists, watches from there, lists again where a watch cannot go on, and hands
every object on, as `baton.controller.watch` has it done; and what `baton.controller.watches` does where kopf gives up.

Like kopf it says nothing of what vanished while it did not watch: a list only names what there is.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, TypeVar

from baton.controller.watch import Backoffs
from baton.controller.watches import CALM, FIRST_BACKOFF, LONGEST_BACKOFF
from baton.kube.errors import ApiError, UnavailableError
from baton.kube.watched_kinds import WatchedKind
from tests.simulation.api_server.memory_api import MemoryApi

T = TypeVar("T")
Put = Callable[[WatchedKind, str | None, Mapping[str, Any]], None]
"""Of a kind, an event's type (None: an object of a list) and the object; see `WatchEvents.put`."""

RECONNECT = 0.1
"""Seconds before kopf lists again after a watch that was told that its version is gone."""


class WatchFeed:
    """All watches of one replica. `ready` is set once everything has been listed."""

    def __init__(
        self, api: MemoryApi, put: Put, namespaces: Sequence[str] = (), repeats: Callable[[], bool] = lambda: False
    ) -> None:
        """Namespaces empty: all of them. `repeats`: whether an event is told twice."""
        scopes: list[str | None] = [*namespaces] or [None]
        self._scopes = [_Scope(api, scope, put, repeats) for scope in scopes]
        self.ready = asyncio.Event()

    async def run(self) -> None:
        """For ever."""
        async with asyncio.TaskGroup() as tasks:
            for scope in self._scopes:
                tasks.create_task(scope.run(), name=f"watch {scope}")
            for scope in self._scopes:
                for watch in scope.watches:
                    await watch.listed.wait()
            self.ready.set()


class _Scope:
    """A namespace, or all: one kopf. Where one of its watches cannot go on, all of them begin again."""

    def __init__(self, api: MemoryApi, scope: str | None, put: Put, repeats: Callable[[], bool]) -> None:
        self._scope = scope
        self.watches = [_Watch(api, of.path(scope), of.selector, partial(put, of), repeats) for of in WatchedKind]

    def __str__(self) -> str:
        return self._scope or "all"

    async def run(self) -> None:
        loop, backoff = asyncio.get_running_loop(), FIRST_BACKOFF
        while True:
            began = loop.time()
            try:
                async with asyncio.TaskGroup() as tasks:
                    for watch in self.watches:
                        tasks.create_task(watch.run(), name=f"watch {watch.path}")
            except* ApiError:
                pass
            if loop.time() - began >= CALM:
                backoff = FIRST_BACKOFF
            await asyncio.sleep(backoff)
            backoff = min(LONGEST_BACKOFF, backoff * 2)


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
        """Until the server says something that kopf gives up at: then raises ApiError."""
        while True:
            version: str | None = await self._list()
            self.listed.set()
            while version is not None:
                version = await _until_it_answers(partial(self._follow, version))
            await asyncio.sleep(RECONNECT)

    async def _list(self) -> str:
        token = ""
        while True:
            found, token = await _until_it_answers(partial(self._api.page, self.path, self._selector, token))
            for item in found["items"]:
                self._tell(None, item)
            if not token:
                return str(found["metadata"]["resourceVersion"])

    async def _follow(self, version: str) -> str | None:
        """From this version on, until the connection ends. Returns the version to go on from; None: there is no going on."""
        async with aclosing(self._api.watch(self.path, version, **self._selector)) as events:
            async for event in events:
                kind, manifest = event["type"], event["object"]
                if kind == "ERROR":
                    if manifest["code"] == 410:
                        return None
                    raise ApiError(manifest["code"], manifest.get("reason", ""), manifest["message"])
                if kind != "BOOKMARK":
                    self._tell(kind, manifest)
                version = str(manifest["metadata"]["resourceVersion"])
        return version

    def _tell(self, kind: str | None, manifest: Mapping[str, Any]) -> None:
        self._hear(kind, manifest)
        if self._repeats():
            self._hear(kind, manifest)


async def _until_it_answers(ask: Callable[[], Awaitable[T]]) -> T:
    """As kopf asks: again and again where nobody answers, and where it is forbidden. Raises other ApiErrors."""
    for backoff in Backoffs():
        try:
            return await ask()
        except UnavailableError:
            pass
        except ApiError as error:
            if error.status != 403:
                raise
        await asyncio.sleep(backoff)
    raise AssertionError("there is always a next try")
