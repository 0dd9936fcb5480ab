"""Lists one kind of object in one scope whenever asked, and tries until it works.

Each lister has a task, a backoff and a state of its own. So a list that fails delays no other: for lack of a permission, because
there is no such kind, because the server is too busy or never answers.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Protocol

import structlog

from baton.controller.supervision import Tasks
from baton.kube.api import PAGE, Api
from baton.kube.clock import ApiServerClock
from baton.kube.errors import FORBIDDEN, NOT_FOUND, ApiError, PageTooLargeError, UnavailableError
from baton.kube.namespace_turns import NamespaceTurns
from baton.kube.store import Manifest
from baton.kube.watched_kinds import WatchedKind

FIRST_BACKOFF, LONGEST_BACKOFF = 1.0, 15.0
"""Seconds between tries that fail."""

BLIND_AFTER = 30.0
"""Seconds for which lists may fail before what they would show counts as not seen."""

AT_ONCE = 50
"""Objects that are looked at before others have their turn."""

Scope = str | None
"""A namespace; None: all of them."""

log = structlog.get_logger("baton.lists")


class Page(Protocol):
    """Takes in one page of a list."""

    def page(self, manifests: list[Manifest]) -> None: ...

    def end(self) -> None: ...


class Lister:
    """`changed` is called with it when a list ended well, and when lists have failed for BLIND_AFTER."""

    def __init__(
        self,
        api: Api,
        clock: ApiServerClock,
        tasks: Tasks,
        turns: NamespaceTurns,
        of: WatchedKind,
        scope: Scope,
        lay: Callable[[str], Page],
        changed: Callable[["Lister"], None],
    ) -> None:
        """`lay`: begins to take in a list as of this version."""
        self.of = of
        self.scope = scope
        self.begun = float("-inf")
        """When the last list that ended well was begun (monotonic seconds)."""
        self.failing_since: float | None = None
        self.why = ""
        """What the API server said last, where it fails."""
        self.refused = False
        """What failed last was refused: the right to it is gone (403), or the kind is (404)."""
        self.failures: Counter[str] = Counter()
        """By status or kind of failure."""
        self.blind = False
        """It has failed for BLIND_AFTER."""
        self._api = api
        self._clock = clock
        self._tasks = tasks
        self._turns = turns
        self._lay = lay
        self._changed = changed
        self._wanted = float("-inf")
        self._task: asyncio.Task[None] | None = None
        self._limit = PAGE
        """Objects of a page: fewer where they are so large that a page of them would hold up everybody."""

    def want(self, at: float) -> None:
        """List, unless that was begun since then."""
        self._wanted = max(self._wanted, at)
        if self.begun < self._wanted and (self._task is None or self._task.done()):
            self._task = self._tasks.start("list", self._run(), resource=self.of.value, namespace=self.scope or "")

    async def stop(self) -> None:
        """Nobody wants lists any more; how it went is forgotten."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        self._wanted = float("-inf")
        self.failing_since, self.why, self.blind, self.refused = None, "", False, False

    async def _run(self) -> None:
        backoff = FIRST_BACKOFF
        while self.begun < self._wanted:
            began = self._clock.ticks()
            try:
                await self._list()
            except (ApiError, UnavailableError) as error:
                self._failed(error, began)
                await asyncio.sleep(backoff)
                backoff = min(LONGEST_BACKOFF, backoff * 2)
            else:
                self._worked(began)

    async def _list(self) -> None:
        laid: Page | None = None
        token = ""
        while laid is None or token:
            try:
                async with self._turns.take(self.scope or ""):
                    found, token = await self._api.page(
                        self.of.path(self.scope), self.of.selector, token, self.of is WatchedKind.LEDGERS, self._limit
                    )
            except PageTooLargeError:
                self._limit = max(1, self._limit // 4)
                continue
            if laid is None:
                laid = self._lay(found["metadata"]["resourceVersion"])
            items = [self.of.looked_at(one) for one in found.pop("items", None) or []]  # null where there is none
            for start in range(0, len(items), AT_ONCE):
                laid.page(items[start : start + AT_ONCE])
                await asyncio.sleep(0)
        laid.end()
        self._limit = min(PAGE, self._limit * 4)

    def _worked(self, began: float) -> None:
        if self.failing_since is not None:
            log.info("can list again", resource=self.of.value, namespace=self.scope or "all")
        self.begun = began
        self.failing_since, self.why, self.blind, self.refused = None, "", False, False
        self._changed(self)

    def _failed(self, error: Exception, began: float) -> None:
        if self.failing_since is None:
            self.failing_since = began
            log.warning("cannot list", resource=self.of.value, namespace=self.scope or "all", error=str(error)[:500])
        self.why = str(error)[:500]
        self.refused = isinstance(error, ApiError) and error.status in (FORBIDDEN, NOT_FOUND)
        self.failures[str(error.status) if isinstance(error, ApiError) else "unavailable"] += 1
        if not self.blind and self._clock.ticks() - self.failing_since >= BLIND_AFTER:
            self.blind = True
            log.error("cannot list for long", resource=self.of.value, namespace=self.scope or "all", error=self.why)
            self._changed(self)
