"""Lays lists over what the watches showed, for a watch that had to start again says nothing of what vanished meanwhile.

All groups of a scope share its lists: where there are a thousand of them, each listing for itself would be most of the operator's
work. A scope is a namespace that the operator serves, or all of them; and nobody waits for lists of another scope than their own.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from baton.controller.cluster_cache import ClusterCache, GroupKey
from baton.controller.lister import Lister, Page, Scope
from baton.controller.problems import Problem, Reason
from baton.controller.supervision import Tasks
from baton.kube.api import Api
from baton.kube.clock import ApiServerClock
from baton.kube.ledger_configmap import partitions_of
from baton.kube.namespace_turns import NamespaceTurns
from baton.kube.store import Manifest
from baton.kube.watched_kinds import WatchedKind
from baton.model.names import ledger_name

AT_ONCE, LATE = 16, 1.0
"""Pages of lists that are under way, and the seconds after which one keeps no other namespace waiting."""

PATIENCE = 10.0
"""Seconds for which a group at its start waits for lists that are newer than those that were made before."""

NEEDED = frozenset({WatchedKind.PODS, WatchedKind.LEASES, WatchedKind.QUEUES})
"""What a group has to have seen of its namespace before it does anything: who is not in a list counts as gone."""


Waiting = dict[GroupKey, tuple[float, Callable[[], None]]]
"""Who is to be told when something has been listed since when."""


class Relists:
    """Everything that this operator serves: pods, sessions, queues and groups, and the versions of their ledgers."""

    def __init__(self, api: Api, cache: ClusterCache, clock: ApiServerClock, tasks: Tasks, namespaces: Sequence[str]) -> None:
        """Namespaces empty: all of them."""
        self._clock = clock
        self._cache = cache
        turns = NamespaceTurns(AT_ONCE, LATE)
        self._scopes: dict[Scope, list[Lister]] = {
            scope: [Lister(api, clock, tasks, turns, of, scope, self._lay(of, scope), self._changed) for of in WatchedKind]
            for scope in (*namespaces,) or (None,)
        }
        self._ledgers: dict[Scope, Mapping[tuple[str, str], tuple[str, int]]] = {}
        """Versions, and how many partitions were booked."""
        self._waiting: dict[Scope, Waiting] = {scope: {} for scope in self._scopes}
        self._waiting_for_sessions: dict[Scope, Waiting] = {scope: {} for scope in self._scopes}
        self._news: dict[Scope, asyncio.Event] = {scope: asyncio.Event() for scope in self._scopes}
        self.blind_changed: Callable[[Scope], None] = lambda scope: None
        """Called when a scope cannot be listed for long, and when it can again."""
        self.listed: Callable[[], None] = lambda: None
        """Called when a list ended well."""
        self._blind: dict[Scope, frozenset[WatchedKind]] = dict.fromkeys(self._scopes, frozenset())

    def want(self, key: GroupKey, at: float, listed: Callable[[], None]) -> None:
        """List all of the group's scope, unless that was begun since then (monotonic seconds); `listed` is called when it has
        come to its end, however late."""
        scope = self._scope(key[0])
        if self._listed_since(scope) >= at:
            listed()
        else:
            self._waiting[scope][key] = (at, listed)
            self._want(scope, at)

    def want_sessions(self, key: GroupKey, at: float, listed: Callable[[], None]) -> None:
        """The same for the sessions of the group's scope alone."""
        scope = self._scope(key[0])
        if self._sessions(scope).begun >= at:
            listed()
        else:
            self._waiting_for_sessions[scope][key] = (at, listed)
            self._sessions(scope).want(at)

    def forget(self, key: GroupKey) -> None:
        """The group waits for nothing any more."""
        for waiting in (self._waiting, self._waiting_for_sessions):
            waiting[self._scope(key[0])].pop(key, None)

    def want_all(self, at: float) -> None:
        """Every scope, also where no group is known yet."""
        for scope in self._scopes:
            self._want(scope, at)

    async def seen(self, namespace: str, since: float, seconds: float) -> bool:
        """Whether a group of this namespace may begin. Waits for lists, but no longer than so many seconds.

        Lists that are older than `since` (monotonic seconds) will do where newer ones are not to be had for PATIENCE: a watch has
        gone on meanwhile. What has never been listed cannot be done without.
        """
        scope = self._scope(namespace)
        self._want(scope, since)
        now = self._clock.ticks()
        until, patient = now + seconds, since + PATIENCE
        while not self._seen(scope, since) and now < until:
            self._news[scope].clear()
            try:
                async with asyncio.timeout((min(until, patient) if now < patient else until) - now):
                    await self._news[scope].wait()
            except TimeoutError:
                pass
            now = self._clock.ticks()
        return self._seen(scope, since)

    def refused_for(self, namespace: str) -> float:
        """Seconds for which the server has refused each list that a group of this namespace has to have seen and that was never
        made; 0: it has not, or lists are of all namespaces, so that it says nothing of one."""
        scope, now = self._scope(namespace), self._clock.ticks()
        never = [one for one in self._scopes[scope] if one.of in NEEDED and one.begun == float("-inf")]
        if scope is None or not all(one.refused for one in never):
            return 0.0
        return now - max((one.failing_since for one in never if one.failing_since is not None), default=now)

    def problems(self, namespace: str) -> list[Problem]:
        """What of this namespace has not been seen for long."""
        return [_problem(lister, namespace) for lister in self._scopes[self._scope(namespace)] if lister.blind]

    def ledger_version(self, key: GroupKey) -> str | None:
        """The resourceVersion of a group's ledger as last listed; None: there was none with Baton's label."""
        found = self._ledger(key)
        return None if found is None else found[0]

    def ledger_partitions(self, key: GroupKey) -> int:
        """How many partitions were booked for a group according to its ledger as last listed."""
        found = self._ledger(key)
        return 0 if found is None else found[1]

    def groups_seen(self, namespace: str) -> bool:
        """All groups of this namespace have been listed, some time."""
        return any(one.of is WatchedKind.GROUPS and one.begun > float("-inf") for one in self._scopes[self._scope(namespace)])

    def groups_listed(self, since: float) -> bool:
        """Whether all groups and their ledgers have been listed since then (monotonic seconds), or cannot be at this moment."""
        listers = (one for one in self.listers if one.of in (WatchedKind.GROUPS, WatchedKind.LEDGERS))
        return all(one.begun >= since or one.failing_since is not None for one in listers)

    @property
    def listers(self) -> Iterator[Lister]:
        """All of them, for metrics."""
        return (lister for listers in self._scopes.values() for lister in listers)

    async def stop(self) -> None:
        """Stop: another replica leads."""
        for lister in self.listers:
            await lister.stop()
        self._ledgers.clear()
        for waiting in (*self._waiting.values(), *self._waiting_for_sessions.values()):
            waiting.clear()

    # -- within a scope

    def _ledger(self, key: GroupKey) -> tuple[str, int] | None:
        return self._ledgers.get(self._scope(key[0]), {}).get((key[0], ledger_name(key[1])))

    def _scope(self, namespace: str) -> Scope:
        return namespace if namespace in self._scopes else None

    def _listed_since(self, scope: Scope) -> float:
        return min(lister.begun for lister in self._scopes[scope])

    def _sessions(self, scope: Scope) -> Lister:
        return next(lister for lister in self._scopes[scope] if lister.of is WatchedKind.LEASES)

    def _want(self, scope: Scope, at: float) -> None:
        for lister in self._scopes[scope]:
            lister.want(at)

    def _seen(self, scope: Scope, since: float) -> bool:
        needed = [lister.begun for lister in self._scopes[scope] if lister.of in NEEDED]
        late = self._clock.ticks() >= since + PATIENCE
        return all(begun >= since or (late and begun > float("-inf")) for begun in needed)

    def _changed(self, lister: Lister) -> None:
        scope = lister.scope
        if lister.of is WatchedKind.LEASES and not lister.blind:
            self._cache.sessions.listed(scope, lister.begun)
            if WatchedKind.LEASES in self._blind[scope]:
                self._cache.sessions.outage(self._clock.ticks(), scope)
        self._news[scope].set()
        blind = frozenset(one.of for one in self._scopes[scope] if one.blind)
        if blind != self._blind[scope]:
            self._blind[scope] = blind
            self.blind_changed(scope)
        self._tell(scope)
        self.listed()

    def _tell(self, scope: Scope) -> None:
        for waiting, since in (
            (self._waiting[scope], self._listed_since(scope)),
            (self._waiting_for_sessions[scope], self._sessions(scope).begun),
        ):
            ready = [(key, listed) for key, (at, listed) in waiting.items() if at <= since]
            for key, listed in ready:
                del waiting[key]
                listed()

    # -- what becomes of a list

    def _lay(self, of: WatchedKind, scope: Scope) -> Callable[[str], Page]:
        if of is not WatchedKind.LEDGERS:
            return lambda version: self._cache.listing(of, scope, version)
        return lambda version: _Versions(lambda found: self._ledgers.update({scope: found}))


class _Versions:
    """Of ledgers, by namespace and name; and how many partitions were booked."""

    def __init__(self, done: Callable[[Mapping[tuple[str, str], tuple[str, int]]], None]) -> None:
        self._found: dict[tuple[str, str], tuple[str, int]] = {}
        self._done = done

    def page(self, manifests: Iterable[Manifest]) -> None:
        for manifest in manifests:
            metadata = manifest["metadata"]
            self._found[metadata["namespace"], metadata["name"]] = metadata["resourceVersion"], partitions_of(manifest)

    def end(self) -> None:
        self._done(self._found)


def _problem(lister: Lister, namespace: str) -> Problem:
    where = f"in namespace {namespace}" if lister.scope is not None else "in all namespaces"
    return Problem(
        Reason.NOT_SEEN,
        f"the operator cannot list {lister.of.value} {where}, so it may not see what changes there: {lister.why}; where it lacks "
        "a permission, give it back to the operator's account (the chart's value watchNamespaces)",
    )
