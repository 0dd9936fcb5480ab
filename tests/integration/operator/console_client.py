"""`baton console` as a process, and its clients: a browser's requests without the browser."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from tests.processes import ChildProcess
from tests.waiting import PATIENCE, until

BATON = Path(sys.executable).parent / "baton"
Page = dict[str, Any]


class Console:
    """Runs until it is stopped."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.log = folder / "console.log"
        with self.log.open("w") as output:
            self.process = ChildProcess([str(BATON), "console", *arguments], stdout=output, stderr=output)
        self.url = until(self._printed, "the console prints its URL")
        self.address = f"http://{urlsplit(self.url).netloc}"
        fragment = urlsplit(self.url).fragment
        self.token = fragment.partition("token=")[2].partition("&")[0] or None

    def _printed(self) -> str | None:
        said = self.log.read_text().splitlines()
        assert self.process.poll() is None, said
        return next((line for line in said if line.startswith("http://")), None)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(timeout=PATIENCE)

    async def ask(self, path: str, token: str | None = None, method: str = "GET", **how: Any) -> tuple[int, Page]:
        """The status and the answer."""
        headers = {"Authorization": f"Bearer {token or self.token}"} | how.pop("headers", {})
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, self.address + path, headers=headers, **how) as answer,
        ):
            text = await answer.text()
            return answer.status, json.loads(text) if text.startswith("{") else {"text": text}

    @asynccontextmanager
    async def stream(self, path: str, token: str | None = None) -> AsyncIterator["Stream"]:
        """Server-sent events."""
        headers = {"Authorization": f"Bearer {token or self.token}"}
        timeout = aiohttp.ClientTimeout(total=None, sock_read=PATIENCE)
        async with (
            aiohttp.ClientSession(timeout=timeout, read_bufsize=2**24) as session,
            session.get(self.address + path, headers=headers) as answer,
        ):
            assert answer.status == 200, await answer.text()
            yield Stream(answer)


class Stream:
    """What a page is told."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer
        self.headers = answer.headers

    async def message(self) -> tuple[str, Page]:
        """The next one: its kind and what it says."""
        kind = ""
        while line := (await self._answer.content.readline()).decode():
            name, _, value = line.rstrip("\n").partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                return kind, json.loads(value)
        raise AssertionError("the stream has ended")

    async def page(self, wanted: Callable[[Page], object]) -> Page:
        """The first page that is so."""
        shown: Page = {}
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    kind, shown = await self.message()
                    assert kind == "page", shown
                    if wanted(shown):
                        return shown
        except TimeoutError:
            raise AssertionError(f"no such page; the last one: {json.dumps(shown)[:4000]}") from None


def owners(page: Page) -> dict[str, set[int]]:
    """Of the first queue's partitions, by member, as the grid has them."""
    (queue,) = page["grid"]
    found: dict[str, set[int]] = {}
    for number, (owner, state) in enumerate(zip(queue["owners"], queue["states"], strict=True)):
        if state in "RP":
            found.setdefault(page["members"][owner]["name"], set()).add(number)
    return found
