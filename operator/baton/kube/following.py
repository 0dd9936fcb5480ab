"""All objects of a list as they are and as they become: listed once, and then watched, with the rights of the connection."""

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
"""Seconds of one watch. The next one is asked for with the rights that the token has by then."""

SHORTEST_WATCH = 1.0
"""Seconds before the next watch is asked for, where one ends at once."""

LARGEST_EVENT = 8 * 2**20
"""Bytes of one event of a watch. An object has 1.5 MiB at most."""

FEWER = 10
"""A page that is too large is asked for again with this fraction of its objects."""

GONE = 410
"""The status where the list is to be read again."""


async def follow(api: Api, path: str, **query: str) -> AsyncIterator[Mapping[Key, Json]]:
    """The objects, at once and after each change; it is the same mapping each time. It ends with what goes wrong: raises ApiError
    or UnavailableError."""
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
    """All objects, and the version as of which they are; with their `metadata` alone, if asked for. Raises ApiError or
    UnavailableError."""
    objects: dict[Key, Json] = {}
    version = ""
    async for page in pages(api, path, query, metadata=metadata):
        objects |= {_key(one): one for one in page["items"]}
        version = str(page["metadata"]["resourceVersion"])
    return objects, version


async def pages(api: Api, path: str, query: Mapping[str, str], *, metadata: bool = False) -> AsyncIterator[Json]:
    """Those of one list, all as of the same version. A page that is too large is not read to its end, but asked for again with
    fewer objects. Raises ApiError (410 where the rest is not to be had any more) or UnavailableError."""
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
    """Those of one watch, until it has had its time. Raises ApiError or UnavailableError."""
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
        pass  # the connection went in the middle of an event; the next watch tells of it again
    except ValueError:
        raise UnavailableError(f"GET {path}: an event of the watch is no JSON, so it is not the API server's") from None


def _key(manifest: Json) -> Key:
    metadata = manifest["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
