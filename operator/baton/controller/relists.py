"""Lists as a safety net below the watches: complete lists correct what kopf's watches have reported.

All kinds are listed when this replica begins to lead. Then each watched kind is listed every ten minutes, spread evenly, and
again if its watch broke and kopf does not list it soon. Ledgers, which are not watched, are listed every minute. All groups of a
scope share its lists, and wait for lists of their scope only. A scope is a namespace that the operator serves, or all namespaces.

Each kind of a scope has a separate task, backoff and state. So a list that fails (a missing permission or kind, a server that is
busy or never answers) delays no other.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field

import structlog

from baton.controller.cluster_cache import ClusterCache, GroupKey
from baton.controller.problems import Problem, Reason
from baton.controller.supervision import Tasks, heard
from baton.kube.api import Api
from baton.kube.clock import ApiServerClock
from baton.kube.errors import FORBIDDEN, NOT_FOUND, ApiError, UnavailableError
from baton.kube.following import pages
from baton.kube.ledger_configmap import Stored
from baton.kube.store import Key, WatchedKind, key_of
from baton.model.names import ledger_name
from baton.model.retrying import doubling

EVERY = 600.0
"""Seconds within which every kind is listed once if no watch breaks."""

LEDGERS_EVERY = 60.0
"""Seconds between two lists of ledgers, which are not watched. Only their metadata is listed."""

APART = 10.0
"""Seconds that kopf has to list a kind again after its watch broke, and between lists of a kind whose watch keeps breaking."""

PATIENCE = 10.0
"""Seconds for which a starting group waits for new lists before it accepts older ones."""

FIRST_BACKOFF, LONGEST_BACKOFF = 1.0, 15.0
"""Seconds between failed attempts."""

BLIND_AFTER = 30.0
"""Seconds for which lists may fail before the operator reports that it may miss changes."""

AT_ONCE = 50
"""Objects to process before other tasks get a turn."""

NEEDED = frozenset({WatchedKind.PODS, WatchedKind.LEASES, WatchedKind.QUEUES})
"""Kinds that must be listed before a group does anything: pods, sessions and queues not in a list count as gone."""

NEVER = float("-inf")

Scope = str | None
"""A namespace; None: all of them."""

log = structlog.get_logger("baton.lists")


@dataclass(eq=False)
class Lister:
    """Lists one kind in one scope on request, and retries until it succeeds. `changed(lister, was_blind)` is called after each
    complete list, and when lists have failed for BLIND_AFTER."""

    api: Api
    clock: ApiServerClock
    tasks: Tasks
    cache: ClusterCache
    of: WatchedKind
    scope: Scope
    changed: Callable[["Lister", bool], None]
    begun: float = NEVER
    """When the last complete list began (monotonic seconds)."""
    failing_since: float | None = None
    why: str = ""
    """The API server's last error message, while lists fail."""
    refused: bool = False
    """The last failure was a refusal: the permission (403) or the kind (404) is missing."""
    failures: Counter[str] = field(default_factory=Counter)
    """Number of failures, by HTTP status or "unavailable"."""
    blind: bool = False
    """Lists have failed for BLIND_AFTER."""
    broke_at: float | None = None
    """When the kind's watch broke, if it was not listed since."""
    _wanted: float = NEVER
    _task: asyncio.Task[None] | None = None

    def want(self, at: float) -> None:
        """List, unless a complete list began at `at` (monotonic seconds) or later."""
        self._wanted = max(self._wanted, at)
        if self.begun < self._wanted and (self._task is None or self._task.done()):
            self._task = self.tasks.start("list", self._run(), resource=self.of.value, namespace=self.scope or "")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        self._wanted, self.broke_at = NEVER, None
        self._well()

    async def _run(self) -> None:
        pauses = doubling(FIRST_BACKOFF, LONGEST_BACKOFF)
        while self.begun < self._wanted:
            began = self.clock.ticks()
            self.broke_at = None
            try:
                await self._list()
            except (ApiError, UnavailableError) as error:
                self._failed(error, began)
                await asyncio.sleep(next(pauses))
            else:
                self._worked(began)

    async def _list(self) -> None:
        there: set[Key] = set()
        version = 0
        async for page in pages(self.api, self.of.path(self.scope), self.of.selector, metadata=self.of is WatchedKind.LEDGERS):
            items = [self.of.trimmed(one) for one in page.pop("items", None) or []]  # null if there are none
            for number, one in enumerate(items, 1):
                there.add(key_of(one))
                self.cache.event(self.of, None, one)
                if number % AT_ONCE == 0:
                    await asyncio.sleep(0)
            version = int(page["metadata"]["resourceVersion"])
        self.cache.keep(self.of, self.scope, there, version)

    def _worked(self, began: float) -> None:
        if self.failing_since is not None:
            log.info("can list again", resource=self.of.value, namespace=self.scope or "all")
        self.begun, was_blind = began, self.blind
        self._well()
        self.changed(self, was_blind)

    def _well(self) -> None:
        self.failing_since, self.why, self.blind, self.refused = None, "", False, False

    def _failed(self, error: Exception, began: float) -> None:
        if self.failing_since is None:
            self.failing_since = began
            log.warning("cannot list", resource=self.of.value, namespace=self.scope or "all", error=str(error)[:500])
        self.why = str(error)[:500]
        self.refused = isinstance(error, ApiError) and error.status in (FORBIDDEN, NOT_FOUND)
        self.failures[str(error.status) if isinstance(error, ApiError) else "unavailable"] += 1
        if not self.blind and self.clock.ticks() - self.failing_since >= BLIND_AFTER:
            self.blind = True
            log.error("listing has failed for 30 s", resource=self.of.value, namespace=self.scope or "all", error=self.why)
            self.changed(self, False)


class Relists:
    """Lists of all kinds in all scopes that this operator serves."""

    def __init__(self, api: Api, cache: ClusterCache, clock: ApiServerClock, tasks: Tasks, namespaces: Sequence[str]) -> None:
        """`namespaces` empty: all namespaces."""
        self._clock = clock
        self._cache = cache
        self._scopes: dict[Scope, dict[WatchedKind, Lister]] = {
            scope: {of: Lister(api, clock, tasks, cache, of, scope, self._changed) for of in WatchedKind}
            for scope in (*namespaces,) or (None,)
        }
        self._next = NEVER
        """When the next list may be made just because the last one is old."""
        self._in_doubt: dict[Scope, set[GroupKey]] = {scope: set() for scope in self._scopes}
        """Groups that wait for a list of sessions, by scope."""
        self._news: dict[Scope, asyncio.Event] = {scope: asyncio.Event() for scope in self._scopes}
        self.blind_changed: Callable[[Scope], None] = lambda scope: None
        """Called when lists of a scope have failed for BLIND_AFTER, and when they work again."""
        self.listed: Callable[[WatchedKind, Scope], None] = lambda of, scope: None
        """Called after each complete list."""

    def tend(self) -> None:
        """List kinds whose watch broke, ledgers, and the kind listed longest ago, when due. Called every few seconds."""
        now = self._clock.ticks()
        listers = list(self.listers)
        for lister in listers:
            if lister.of is WatchedKind.LEDGERS:
                lister.want(now - LEDGERS_EVERY)
            elif lister.broke_at is not None and now >= max(lister.broke_at, lister.begun) + APART:
                lister.want(now)
        work = [lister for lister in listers if lister.failing_since is None]  # the others are retrying
        oldest = min(work, key=lambda lister: lister.begun, default=None)
        if oldest is not None and now >= max(self._next, oldest.begun + EVERY):
            self._next = now + EVERY / len(listers)
            oldest.want(now)

    def watch_broke(self, of: WatchedKind, scope: Scope) -> None:
        """kopf cannot list or watch this kind."""
        lister = self._scopes[scope][of]
        lister.broke_at = self._clock.ticks() if lister.broke_at is None else lister.broke_at

    def watch_listed(self, of: WatchedKind, scope: Scope, there: Set[Key], version: int) -> None:
        """kopf has made a complete list as of `version`, with exactly the objects `there`."""
        self._cache.keep(of, scope, there, version)
        self._scopes[scope][of].broke_at = None

    def go_on(self) -> None:
        """The API server answers again: give kopf time to list the kinds whose watch broke."""
        for lister in self.listers:
            lister.broke_at = None if lister.broke_at is None else self._clock.ticks()

    def want_sessions(self, key: GroupKey, at: float) -> None:
        """List the sessions of the group's scope, unless such a list began at `at` (monotonic seconds) or later; then wake the
        group."""
        scope = self._scope(key[0])
        self._in_doubt[scope].add(key)
        self._scopes[scope][WatchedKind.LEASES].want(at)

    def want_all(self, at: float) -> None:
        """List all kinds in all scopes, unless such a list began at `at` (monotonic seconds) or later."""
        for lister in self.listers:
            lister.want(at)

    async def seen(self, namespace: str, since: float, seconds: float) -> bool:
        """Whether a group of this namespace may begin. Waits for its lists, for `seconds` at most.

        Lists must have begun at `since` (monotonic seconds) or later. If they fail for PATIENCE, older lists suffice, because the
        watches continued meanwhile. A kind that was never listed is always waited for.
        """
        scope = self._scope(namespace)
        for lister in self._scopes[scope].values():
            lister.want(since)
        now = self._clock.ticks()
        until, patient = now + seconds, since + PATIENCE
        while not self._seen(scope, since) and now < until:
            self._news[scope].clear()
            await heard(self._news[scope], (min(until, patient) if now < patient else until) - now)
            now = self._clock.ticks()
        return self._seen(scope, since)

    def refused_for(self, namespace: str) -> float:
        """Seconds for which the server has refused all lists that a group of this namespace needs and that never succeeded; 0: it
        did not refuse all, or lists are of all namespaces, so that a refusal is not about this one."""
        scope, now = self._scope(namespace), self._clock.ticks()
        never = [one for one in self._scopes[scope].values() if one.of in NEEDED and one.begun == NEVER]
        if scope is None or not all(one.refused for one in never):
            return 0.0
        return now - max((one.failing_since for one in never if one.failing_since is not None), default=now)

    def problems(self, namespace: str) -> list[Problem]:
        """The kinds of this namespace that cannot be listed for long."""
        return [_problem(lister, namespace) for lister in self._scopes[self._scope(namespace)].values() if lister.blind]

    def ledger(self, key: GroupKey) -> Stored | None:
        """Metadata of a group's ledger as last listed; None: there was none with Baton's label."""
        return self._cache.ledgers.get(key[0], ledger_name(key[1]))

    def ledger_absent(self, key: GroupKey, since: float) -> bool:
        """Whether a complete list of ledgers, begun at `since` (monotonic seconds) or later, showed none for this group."""
        return self._scopes[self._scope(key[0])][WatchedKind.LEDGERS].begun >= since and self.ledger(key) is None

    def groups_seen(self, namespace: str) -> bool:
        """Whether the groups of this namespace have ever been listed."""
        return self._scopes[self._scope(namespace)][WatchedKind.GROUPS].begun > NEVER

    def groups_listed(self, since: float) -> bool:
        """Whether all groups and ledgers have been listed since then (monotonic seconds), except kinds whose lists fail now."""
        listers = (one for one in self.listers if one.of in (WatchedKind.GROUPS, WatchedKind.LEDGERS))
        return all(one.begun >= since or one.failing_since is not None for one in listers)

    @property
    def listers(self) -> Iterator[Lister]:
        return (lister for listers in self._scopes.values() for lister in listers.values())

    async def stop(self) -> None:
        """Stop all lists, because another replica leads."""
        for lister in self.listers:
            await lister.stop()
        for waiting in self._in_doubt.values():
            waiting.clear()

    def _scope(self, namespace: str) -> Scope:
        return namespace if namespace in self._scopes else None

    def _seen(self, scope: Scope, since: float) -> bool:
        late = self._clock.ticks() >= since + PATIENCE
        needed = [self._scopes[scope][of].begun for of in NEEDED]
        return all(begun >= since or (late and begun > NEVER) for begun in needed)

    def _changed(self, lister: Lister, was_blind: bool) -> None:
        scope = lister.scope
        if lister.of is WatchedKind.LEASES and not lister.blind:
            self._cache.sessions.listed(scope, lister.begun)
            if was_blind:
                self._cache.sessions.outage(self._clock.ticks(), scope)
            doubtful, self._in_doubt[scope] = self._in_doubt[scope], set()
            for key in doubtful:
                self._cache.wake(key)
        self._news[scope].set()
        if lister.blind != was_blind:
            self.blind_changed(scope)
        if not lister.blind:
            self.listed(lister.of, scope)


def _problem(lister: Lister, namespace: str) -> Problem:
    where = f"in namespace {namespace}" if lister.scope is not None else "in all namespaces"
    return Problem(
        Reason.NOT_SEEN,
        f"the operator cannot list {lister.of.value} {where}, so it may miss changes there: {lister.why}; if a permission is "
        "missing, grant it to the operator's account (the chart's value watchNamespaces)",
    )
