"""Feeds of the console: each follows the objects of a topic for a viewer, and renders a page when they change."""

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from baton.cli.group import Leader, leader_of, look
from baton.cli.lag import FORWARD, GroupLag, lag_of
from baton.console.group_page import TimelineEntry, group_page, group_row, moves_between, of_events
from baton.console.guard import RefusedRequestError
from baton.console.viewers import Viewer
from baton.engine import GroupState
from baton.kube.api import Api, Json, core_path, group_path
from baton.kube.errors import FORBIDDEN, ApiError, UnavailableError
from baton.kube.events import EVENTS
from baton.kube.following import Key, follow
from baton.kube.ledger_configmap import ledger_of
from baton.kube.objects import groups_path, queues_path
from baton.model.names import ledger_name
from baton.model.wording import one_line

Objects = Mapping[Key, Json]
Follow = Callable[[], AsyncIterator[Objects]]

BACKOFF, LONGEST_BACKOFF = 0.5, 10.0
"""Seconds between attempts to follow objects: the first wait, doubled up to the longest."""

HEARTBEAT = 15.0
"""Seconds between heartbeats to a viewer while nothing changes."""

ASK_EVERY = 5.0
"""Seconds between requests for what cannot be watched."""


@dataclass(frozen=True, slots=True)
class FeedSource:
    """Objects to follow."""

    follow: Follow
    what: str
    """Their name in messages: `ConfigMap orders-assignments`."""
    needed: bool = False
    """Whether the feed ends if the viewer may not read them."""


@dataclass
class Seen:
    """What a feed has read. The objects of a source that has not answered yet are missing."""

    objects: dict[str, Objects] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    """Why a source could not be read, by source."""
    asked: Any = None


Paint = Callable[[Seen], Json | None]
"""Renders a page, on a thread; None: not enough is known yet."""


class Feed:
    """The live page of a topic."""

    def __init__(
        self, sources: Mapping[str, FeedSource], paint: Paint, ask: Callable[[Seen], Awaitable[Any]] | None = None
    ) -> None:
        """`ask`: called every few seconds for what cannot be watched."""
        self._sources, self._paint, self._ask = sources, paint, ask
        self._seen = Seen()
        self._version = 0
        self._news = asyncio.Condition()
        self._painted: tuple[int, str] = (0, "")
        self._painting = asyncio.Lock()
        self._refused: ApiError | None = None

    async def run(self) -> None:
        """Follow the sources until cancelled, or until a needed source is refused."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for name, source in self._sources.items():
                    tasks.create_task(self._follow(name, source))
                if self._ask is not None:
                    tasks.create_task(self._keep_asking(self._ask))
        except* _Refused:
            pass  # `messages` raises it

    async def messages(self) -> AsyncIterator[str]:
        """The page as JSON, now and after each change; empty: a heartbeat. Raises ApiError if a needed source is refused."""
        told, text = 0, ""
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT), self._news:
                    await self._news.wait_for(lambda told=told: self._version > told or self._refused)  # type: ignore[misc]
            except TimeoutError:
                yield ""
                continue
            if self._refused is not None:
                raise self._refused
            told, now = await self._page()
            if now and now != text:
                text = now
                yield text

    async def _page(self) -> tuple[int, str]:
        """The version and the page, rendered once for all viewers of the feed."""
        async with self._painting:
            version = self._version
            if version > self._painted[0]:
                seen = Seen(dict(self._seen.objects), dict(self._seen.notes), self._seen.asked)
                page = await asyncio.to_thread(self._paint, seen)
                self._painted = (version, "" if page is None else json.dumps(page, separators=(",", ":")))
            return self._painted

    async def _follow(self, name: str, source: FeedSource) -> None:
        backoff = BACKOFF
        while True:
            try:
                async for objects in source.follow():
                    self._seen.notes.pop(name, None)
                    self._seen.objects[name] = dict(objects)
                    backoff = BACKOFF
                    await self._tell()
            except ApiError as error:
                if source.needed and error.status in (401, FORBIDDEN, 404):
                    self._refused = error
                    await self._tell()
                    raise _Refused from None
                self._seen.notes[name] = f"{source.what} cannot be read: {one_line(error.message or str(error), 400)}"
            except UnavailableError as error:
                self._seen.notes[name] = (
                    f"{source.what}: as last seen; the API server does not answer: {one_line(str(error), 300)}"
                )
            except Exception as error:
                self._seen.notes[name] = f"{source.what}: as last seen; {_unforeseen(error)}"
            await self._tell()
            await asyncio.sleep(backoff)
            backoff = min(LONGEST_BACKOFF, backoff * 2)

    async def _keep_asking(self, ask: Callable[[Seen], Awaitable[Any]]) -> None:
        while True:
            try:
                self._seen.asked = await ask(self._seen)
                self._seen.notes.pop("asked", None)
            except (ApiError, UnavailableError):
                self._seen.asked = None
            except Exception as error:
                self._seen.asked = None
                self._seen.notes["asked"] = f"the lag {_unforeseen(error)}"
            await self._tell()
            await asyncio.sleep(ASK_EVERY if self._seen.objects else BACKOFF)

    async def _tell(self) -> None:
        async with self._news:
            self._version += 1
            self._news.notify_all()


def _unforeseen(error: Exception) -> str:
    return f"cannot be read, which is a bug in Baton: {type(error).__name__}: {one_line(str(error), 300)}"


class _Refused(Exception):  # noqa: N818 -- how a feed ends
    """A needed source is refused; `Feed.messages` raises the ApiError."""


MOST_FEEDS = 128
MOST_OF_ONE = 32
"""The most feeds of one viewer, who otherwise could take all."""

Topic = tuple[str, ...]
"""`("groups",)`, `("groups", namespace)` or `("group", namespace, name)`."""


class Feeds:
    """The running feeds."""

    def __init__(self, operator_url: str | None, lag_cure: str = FORWARD) -> None:
        """`operator_url`: of the operator's leader, for the lag; None: through the API server. `lag_cure`: if forbidden."""
        self._operator_url, self._lag_cure = operator_url, lag_cure
        self._running: dict[tuple[str, Topic], _Running] = {}

    @asynccontextmanager
    async def open(self, viewer: Viewer, topic: Topic) -> AsyncIterator[Feed]:
        """Run a feed for a viewer until the last block that uses it ends. Raises RefusedRequestError if there are too many."""
        key = (viewer.key, topic)
        running = self._running.get(key)
        if running is None or running.task.done():
            if len(self._running) >= MOST_FEEDS or sum(of == viewer.key for of, _ in self._running) >= MOST_OF_ONE:
                raise RefusedRequestError(503, "too many pages of this console are open: close some, or try again later")
            feed = (
                groups_feed(viewer.api, *topic[1:])
                if topic[0] == "groups"
                else group_feed(viewer.api, self._operator_url, self._lag_cure, topic[1], topic[2])
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
    """The feed of all groups, or of a namespace's."""

    def paint(seen: Seen) -> Json | None:
        found = seen.objects.get("groups")
        if found is None:
            return None
        now = time.time()
        return {"groups": [group_row(look(found[key], {}, now=now)) for key in sorted(found)], "notes": list(seen.notes.values())}

    where = "all namespaces" if namespace is None else f"namespace {namespace}"
    source = FeedSource(lambda: follow(api, groups_path(namespace)), f"ConsumerGroups of {where}", needed=True)
    return Feed({"groups": source}, paint, _again)


def group_feed(api: Api, operator_url: str | None, lag_cure: str, namespace: str, name: str) -> Feed:
    """The feed of one group, which remembers the moves between renderings."""
    ledger = ledger_name(name)
    named = {"fieldSelector": f"metadata.name={name}"}
    about = {"fieldSelector": f"regarding.kind=ConsumerGroup,regarding.name={name}"}
    sources = {
        "group": FeedSource(lambda: follow(api, groups_path(namespace), **named), f"ConsumerGroup {name}", needed=True),
        "ledger": FeedSource(
            lambda: follow(api, core_path(namespace, "configmaps"), fieldSelector=f"metadata.name={ledger}"),
            f"ConfigMap {ledger} (owners)",
        ),
        "queues": FeedSource(lambda: follow(api, queues_path(namespace)), "PartitionedQueues"),
        "events": FeedSource(lambda: follow(api, group_path(EVENTS, namespace, "events"), **about), "Events"),
    }

    async def ask(seen: Seen) -> tuple[Leader | None, GroupLag]:
        leader = await leader_of(api, ledger_of(seen.objects.get("ledger", {}).get((namespace, ledger)), name))
        return leader, await lag_of(api, namespace, name, leader, operator_url, partitions=False, cure=lag_cure)

    before: GroupState | None = None
    moves: deque[TimelineEntry] = deque(maxlen=200)

    def paint(seen: Seen) -> Json | None:
        nonlocal before
        if "group" not in seen.objects or "ledger" not in {*seen.objects, *seen.notes}:
            return None
        group = seen.objects["group"].get((namespace, name))
        if group is None:
            return {"gone": f"there is no ConsumerGroup {name} in namespace {namespace}"}
        written = ledger_of(seen.objects.get("ledger", {}).get((namespace, ledger)), name) or {}
        leader, lag = seen.asked or (None, None)
        shown = look(group, written.get("data") or {}, seen.objects.get("queues", {}).values(), leader, now=time.time())
        moves.extend(moves_between(before, shown.state, shown.now))
        before = shown.state or before
        events = of_events(seen.objects.get("events", {}).values())
        return group_page(shown, (moves, events), lag, seen.notes.values())

    return Feed(sources, paint, ask)


async def _again(_: Seen) -> None:
    """Render again: a group whose operator is gone becomes Unknown only by the clock."""
