"""List objects, and follow their changes by a watch."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping

import aiohttp

from baton.kube.api import PAGE, Api, Json, parsed
from baton.kube.errors import PageTooLargeError, UnavailableError, refusal
from baton.model.lines import Lines

Key = tuple[str, str]
"""Namespace and name."""

WATCHED_FOR = 240
"""Seconds of one watch. The next one uses the permissions that the token has by then."""

SHORTEST_WATCH = 1.0
"""Seconds between the starts of two watches, if the first ends at once."""

LARGEST_EVENT = 8 * 2**20
"""Most bytes of a watch event. An object has up to 1.5 MiB."""

FEWER = 10
"""A page that is too large is requested again with its number of objects divided by this."""

GONE = 410
"""HTTP status: the version has expired, list again."""


async def follow(api: Api, path: str, **query: str) -> AsyncIterator[Mapping[Key, Json]]:
    """Yield the objects at once and after each change, always in the same mapping. Runs until a request fails: raises ApiError or
    UnavailableError."""
    while True:
        objects, version = await listed(api, path, query)
        yield objects
        while version:
            asked = time.monotonic()
            async for event in events(api, path, {**query, "resourceVersion": version}):
                kind, there = event.get("type"), event["object"]
                if kind == "ERROR":
                    if there.get("code") == GONE:
                        version = ""
                        break
                    raise refusal(int(there.get("code") or 500), there)
                version = there["metadata"]["resourceVersion"]
                if kind == "BOOKMARK":
                    continue
                if kind == "DELETED":
                    objects.pop(_key(there), None)
                else:
                    objects[_key(there)] = there
                yield objects
            await asyncio.sleep(asked + SHORTEST_WATCH - time.monotonic())


async def listed(api: Api, path: str, query: Mapping[str, str], *, metadata: bool = False) -> tuple[dict[Key, Json], str]:
    """All objects of a list, and its version. `metadata`: ask for the objects' metadata only. Raises ApiError or
    UnavailableError."""
    objects: dict[Key, Json] = {}
    version = ""
    async for page in pages(api, path, query, metadata=metadata):
        objects |= {_key(one): one for one in page["items"]}
        version = str(page["metadata"]["resourceVersion"])
    return objects, version


async def pages(api: Api, path: str, query: Mapping[str, str], *, metadata: bool = False) -> AsyncIterator[Json]:
    """The pages of a list, all as of the same version. A page that is too large is requested again with fewer objects. Raises
    ApiError (410 if the rest of the list has expired) or UnavailableError."""
    token, limit = "", PAGE
    while True:
        try:
            page, token = await api.page(path, query, token, metadata=metadata, limit=limit)
        except PageTooLargeError:
            limit = max(1, limit // FEWER)
            continue
        yield page
        if not token:
            return


async def events(api: Api, path: str, query: Mapping[str, str]) -> AsyncIterator[Json]:
    """The events of one watch, for WATCHED_FOR seconds at most. Raises ApiError or UnavailableError."""
    asked = {**query, "watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(WATCHED_FOR)}
    try:
        async with api.stream(path, asked, silence=WATCHED_FOR + 30) as pieces:
            lines = Lines()
            async for piece in pieces:
                for line in lines.ended_by(piece):
                    yield await parsed(line)
                if len(lines.rest) > LARGEST_EVENT:
                    raise UnavailableError(f"GET {path}: an event of the watch has more than {LARGEST_EVENT:,} bytes")
    except aiohttp.ClientPayloadError:
        pass  # the connection broke in the middle of an event, which the next watch repeats
    except ValueError:
        raise UnavailableError(f"GET {path}: an event of the watch is not JSON, so it is not from the API server") from None


def _key(manifest: Json) -> Key:
    metadata = manifest["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
