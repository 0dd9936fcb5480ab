"""What is told of one thing to all who look with the same rights: it follows the objects, and paints them when they change."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from baton.kube.api import Json
from baton.kube.errors import FORBIDDEN, ApiError, UnavailableError
from baton.kube.following import Key
from baton.model.wording import one_line

Objects = Mapping[Key, Json]
Follow = Callable[[], AsyncIterator[Objects]]

BACKOFF, LONGEST_BACKOFF = 0.5, 10.0
"""Seconds before the API server is asked again."""

HEARTBEAT = 15.0
"""Seconds after which somebody who looks is told that nothing is new."""

ASK_EVERY = 5.0
"""Seconds between two looks at what cannot be watched."""


@dataclass(frozen=True, slots=True)
class FeedSource:
    """Objects that are followed."""

    follow: Follow
    what: str
    """For a sentence: `ConfigMap orders-assignments`."""
    needed: bool = False
    """Without the right to read them there is nothing to tell."""


@dataclass
class Seen:
    """What there is to paint. The objects of a source that has not answered yet are missing."""

    objects: dict[str, Objects] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    """By source: why it could not be read."""
    asked: Any = None


@dataclass(frozen=True, slots=True)
class FeedMessage:
    """A message to those who look."""

    kind: str
    """`page` or `quiet`."""
    text: str = ""
    """JSON."""


Paint = Callable[[Seen], Json | None]
"""On a thread; None: not enough is known yet."""


class Feed:
    """One thing."""

    def __init__(
        self, sources: Mapping[str, FeedSource], paint: Paint, ask: Callable[[Seen], Awaitable[Any]] | None = None
    ) -> None:
        """`ask`: for what cannot be watched, every few seconds."""
        self._sources, self._paint, self._ask = sources, paint, ask
        self._seen = Seen()
        self._version = 0
        self._news = asyncio.Condition()
        self._painted: tuple[int, str] = (0, "")
        self._painting = asyncio.Lock()
        self._refused: ApiError | None = None

    async def run(self) -> None:
        """Until it is cancelled, or what is needed is refused."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for name, source in self._sources.items():
                    tasks.create_task(self._follow(name, source))
                if self._ask is not None:
                    tasks.create_task(self._keep_asking(self._ask))
        except* _Refused:
            pass  # `messages` says so

    async def messages(self) -> AsyncIterator[FeedMessage]:
        """What there is, and then what is new; nothing that was told already. Raises ApiError where what is needed is refused."""
        told, text = 0, ""
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT), self._news:
                    await self._news.wait_for(lambda told=told: self._version > told or self._refused)  # type: ignore[misc]
            except TimeoutError:
                yield FeedMessage("quiet")
                continue
            if self._refused is not None:
                raise self._refused
            told, now = await self._page()
            if now and now != text:
                text = now
                yield FeedMessage("page", text)

    async def _page(self) -> tuple[int, str]:
        """Painted once for all."""
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
                self._seen.notes["asked"] = _unforeseen(error)
            await self._tell()
            await asyncio.sleep(ASK_EVERY if self._seen.objects else BACKOFF)

    async def _tell(self) -> None:
        async with self._news:
            self._version += 1
            self._news.notify_all()


def _unforeseen(error: Exception) -> str:
    return f"it cannot be read, which is a fault of Baton's: {type(error).__name__}: {one_line(str(error), 300)}"


class _Refused(Exception):  # noqa: N818 -- how a feed ends
    """It has told so."""
