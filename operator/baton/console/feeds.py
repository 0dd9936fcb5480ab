"""The feeds that somebody looks at: one for each thing and viewer, however many tabs are open."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from baton.cli.group import Leader, leader_of, look
from baton.cli.lag import GroupLag, lag_of
from baton.console.feed import Feed, FeedSource, Seen
from baton.console.group_page import group_page, group_row
from baton.console.guard import RefusedRequestError
from baton.console.timeline import TimelineEntry, moves_between, of_events
from baton.console.viewers import Viewer
from baton.engine import GroupState
from baton.kube.api import Api, Json, core_path, group_path
from baton.kube.events import EVENTS
from baton.kube.following import follow
from baton.kube.ledger_configmap import ledger_of
from baton.kube.objects import groups_path, queues_path
from baton.model.names import ledger_name

MOST_FEEDS = 128
MOST_OF_ONE = 32
"""Of one viewer, so that nobody keeps the others out."""

Topic = tuple[str, ...]
"""`("groups",)`, `("groups", namespace)` or `("group", namespace, name)`."""


class Feeds:
    """Those that run."""

    def __init__(self, operator_url: str | None) -> None:
        """`operator_url`: where the lag is asked for; None: by the API server's proxy."""
        self._operator_url = operator_url
        self._running: dict[tuple[str, Topic], _Running] = {}

    @asynccontextmanager
    async def open(self, viewer: Viewer, topic: Topic) -> AsyncIterator[Feed]:
        """It runs while somebody has it open. Raises RefusedRequestError where there are too many."""
        key = (viewer.key, topic)
        running = self._running.get(key)
        if running is None or running.task.done():
            if len(self._running) >= MOST_FEEDS or sum(of == viewer.key for of, _ in self._running) >= MOST_OF_ONE:
                raise RefusedRequestError(503, "too many pages of this console are open: close some, or come again later")
            feed = (
                groups_feed(viewer.api, *topic[1:])
                if topic[0] == "groups"
                else group_feed(viewer.api, self._operator_url, topic[1], topic[2])
            )
            running = self._running[key] = _Running(feed, asyncio.create_task(feed.run()))
        running.users += 1
        try:
            yield running.feed
        finally:
            running.users -= 1
            if not running.users:
                if self._running.get(key) is running:
                    del self._running[key]
                running.task.cancel()
                with suppress(asyncio.CancelledError):
                    await running.task


@dataclass(eq=False, slots=True)
class _Running:
    feed: Feed
    task: asyncio.Task[None]
    users: int = 0


def groups_feed(api: Api, namespace: str | None = None) -> Feed:
    """All groups, or those of a namespace."""

    def paint(seen: Seen) -> Json | None:
        found = seen.objects.get("groups")
        if found is None:
            return None
        now = time.time()
        return {"groups": [group_row(look(found[key], {}, now=now)) for key in sorted(found)], "notes": list(seen.notes.values())}

    where = "all namespaces" if namespace is None else f"namespace {namespace}"
    source = FeedSource(lambda: follow(api, groups_path(namespace)), f"ConsumerGroups of {where}", needed=True)
    return Feed({"groups": source}, paint, _again)


def group_feed(api: Api, operator_url: str | None, namespace: str, name: str) -> Feed:
    """One group."""
    ledger = ledger_name(name)
    named = {"fieldSelector": f"metadata.name={name}"}
    about = {"fieldSelector": f"regarding.kind=ConsumerGroup,regarding.name={name}"}
    sources = {
        "group": FeedSource(lambda: follow(api, groups_path(namespace), **named), f"ConsumerGroup {name}", needed=True),
        "ledger": FeedSource(
            lambda: follow(api, core_path(namespace, "configmaps"), fieldSelector=f"metadata.name={ledger}"),
            f"ConfigMap {ledger}, who owns what,",
        ),
        "queues": FeedSource(lambda: follow(api, queues_path(namespace)), "PartitionedQueues"),
        "events": FeedSource(lambda: follow(api, group_path(EVENTS, namespace, "events"), **about), "Events"),
    }

    async def ask(seen: Seen) -> _Asked:
        leader = await leader_of(api, ledger_of(seen.objects.get("ledger", {}).get((namespace, ledger)), name))
        return _Asked(leader, await lag_of(api, namespace, name, leader, operator_url, partitions=False))

    return Feed(sources, _GroupPainter(namespace, name).paint, ask)


async def _again(_: Seen) -> None:
    """A group whose operator is gone becomes Unknown by the clock alone."""


@dataclass(frozen=True, slots=True)
class _Asked:
    leader: Leader | None
    lag: GroupLag


@dataclass
class _GroupPainter:
    """Paints one after the other, and remembers what has changed hands between two paintings."""

    namespace: str
    name: str
    _before: GroupState | None = None
    _moves: deque[TimelineEntry] = field(default_factory=lambda: deque(maxlen=200))

    def paint(self, seen: Seen) -> Json | None:
        if "group" not in seen.objects or "ledger" not in {*seen.objects, *seen.notes}:
            return None
        group = seen.objects["group"].get((self.namespace, self.name))
        if group is None:
            return {"gone": f"there is no ConsumerGroup {self.name} in namespace {self.namespace}"}
        ledger = ledger_of(seen.objects.get("ledger", {}).get((self.namespace, ledger_name(self.name))), self.name) or {}
        asked: _Asked | None = seen.asked
        leader = None if asked is None else asked.leader
        shown = look(group, ledger.get("data") or {}, seen.objects.get("queues", {}).values(), leader, now=time.time())
        self._moves.extend(moves_between(self._before, shown.state, shown.now))
        self._before = shown.state or self._before
        events = of_events(seen.objects.get("events", {}).values())
        return group_page(shown, (self._moves, events), None if asked is None else asked.lag, seen.notes.values())
