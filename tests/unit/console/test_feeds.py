"""The messages of a feed while something is wrong, and the limits of viewers."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from baton.console import feeds as feed_module
from baton.console.feeds import MOST_OF_ONE, Feed, Feeds, FeedSource, Objects, Seen
from baton.console.guard import RefusedRequestError
from baton.console.viewers import Viewer
from baton.kube.api import Api, Json
from baton.kube.errors import ApiError, PageTooLargeError
from baton.kube.following import follow


def _paint(seen: Seen) -> Json:
    return {"objects": len(seen.objects.get("groups", {})), "notes": list(seen.notes.values())}


async def test_an_unreadable_object_is_reported_and_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "BACKOFF", 0.0)
    mended = asyncio.Event()

    async def objects() -> AsyncIterator[Objects]:
        if not mended.is_set():
            raise KeyError("metadata")
        yield {("shop", "orders"): {}}
        await asyncio.Event().wait()

    feed = Feed({"groups": FeedSource(objects, "ConsumerGroups")}, _paint)
    running = asyncio.create_task(feed.run())
    async with asyncio.timeout(30):
        messages = feed.messages()
        told = json.loads(await anext(messages))
        assert told["notes"] == ["ConsumerGroups: as last seen; cannot be read, which is a bug in Baton: KeyError: 'metadata'"]
        mended.set()
        while told["objects"] == 0:
            told = json.loads(await anext(messages))
        assert told == {"objects": 1, "notes": []}
    running.cancel()


async def test_a_list_with_large_pages_is_read_in_smaller_ones() -> None:
    items: list[Json] = [{"metadata": {"name": f"g{number}", "namespace": "shop"}} for number in range(7)]

    class Large(Api):
        """At most two objects fit into a page."""

        async def page(
            self, path: str, query: Mapping[str, str], token: str = "", metadata: bool = False, limit: int = 500
        ) -> tuple[Json, str]:
            if limit > 2:
                raise PageTooLargeError
            start = int(token or 0)
            end = start + limit
            return {"metadata": {"resourceVersion": "9"}, "items": items[start:end]}, str(end) if end < len(items) else ""

    assert len(await anext(follow(Large(None), "/groups"))) == len(items)


async def test_a_refused_feed_raises_to_its_viewers() -> None:
    async def refused() -> AsyncIterator[Objects]:
        if feed:
            raise ApiError(401, "Unauthorized", "no such token")
        yield {}

    feed = Feed({"groups": FeedSource(refused, "ConsumerGroups", needed=True)}, _paint)
    running = asyncio.create_task(feed.run())
    with pytest.raises(ApiError, match="no such token"):
        await anext(feed.messages())
    await running


class Silent(Api):
    """Answers nothing."""

    async def page(self, *_: Any, **__: Any) -> tuple[Json, str]:
        await asyncio.Event().wait()
        raise AssertionError


async def test_one_viewer_does_not_block_others() -> None:
    feeds, api = Feeds(None), Silent(None)
    async with AsyncExitStack() as stack:
        for number in range(MOST_OF_ONE):
            await stack.enter_async_context(feeds.open(Viewer(api, "greedy"), ("groups", f"n{number}")))
        with pytest.raises(RefusedRequestError):
            await stack.enter_async_context(feeds.open(Viewer(api, "greedy"), ("groups", "one-more")))
        await stack.enter_async_context(feeds.open(Viewer(api, "greedy"), ("groups", "n0")))
        await stack.enter_async_context(feeds.open(Viewer(api, "other"), ("groups", "n0")))
    async with feeds.open(Viewer(api, "greedy"), ("groups", "one-more")):
        pass


async def test_a_replaced_feed_ends_with_its_viewers() -> None:
    async def refused(*_: Any, **__: Any) -> Any:
        raise ApiError(403, "Forbidden", "not you")

    feeds, viewer = Feeds(None), Viewer(SimpleNamespace(page=refused), "one")  # type: ignore[arg-type]
    async with feeds.open(viewer, ("groups",)) as first:
        with pytest.raises(ApiError):
            await anext(first.messages())
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}), return_exceptions=True)
        viewer.api = Silent(None)
        before = asyncio.all_tasks()
        async with AsyncExitStack() as stack:
            second = await stack.enter_async_context(feeds.open(viewer, ("groups",)))
            assert second is not first
            assert asyncio.all_tasks() > before
        assert asyncio.all_tasks() == before
