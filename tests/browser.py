"""Debian's Chromium without a screen, by its DevTools protocol: what a page shows, and what the browser complains of."""

import asyncio
import base64
import itertools
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.processes import ChildProcess
from tests.waiting import PATIENCE, eventually

LONGEST_MESSAGE = 64 * 2**20
"""Bytes: a picture comes in one."""


class Browser:
    """One tab."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.complaints: list[str] = []
        """Errors and warnings of the console, exceptions, and what the content security policy refused."""

    async def listen(self) -> None:
        """Until the tab is closed."""
        async for message in self._socket:
            said = json.loads(message.data)
            if "id" in said:
                self._answers.pop(said["id"]).set_result(said)
            elif said["method"] == "Runtime.exceptionThrown":
                self.complaints.append(str(said["params"]["exceptionDetails"]))
            elif said["method"] == "Log.entryAdded" and said["params"]["entry"]["level"] in ("error", "warning"):
                self.complaints.append(str(said["params"]["entry"]))
            elif said["method"] == "Runtime.consoleAPICalled" and said["params"]["type"] in ("error", "warning"):
                self.complaints.append(str(said["params"]["args"]))

    async def do(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command of the protocol."""
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        said = await asyncio.wait_for(self._answers[number], PATIENCE)
        assert "error" not in said, said
        result: dict[str, Any] = said["result"]
        return result

    async def open(self, url: str) -> None:
        await self.do("Page.navigate", url=url)

    async def value(self, expression: str) -> Any:
        """Of JavaScript in the page."""
        said = await self.do("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in said, said
        return said["result"].get("value")

    async def shows(self, expression: str) -> None:
        """Wait until it is true."""
        seen = "document.body.innerText.slice(0, 3000)"
        await eventually(
            lambda: self.value(f"Boolean({expression})"), f"the page has {expression}", shown=lambda: self.value(seen)
        )

    async def key(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            await self.do("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    async def size(self, width: int, height: int, *, phone: bool = False) -> None:
        await self.do("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    async def dark(self, on: bool) -> None:
        features = [{"name": "prefers-color-scheme", "value": "dark" if on else "light"}]
        await self.do("Emulation.setEmulatedMedia", features=features)

    async def picture(self) -> bytes:
        """A PNG of what can be seen."""
        return base64.b64decode((await self.do("Page.captureScreenshot", format="png"))["data"])


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Browser]:
    """A new one, with nothing remembered."""
    command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    command += ["--disable-background-networking", "--disable-component-update", "--remote-debugging-port=0"]
    command += [f"--user-data-dir={folder / 'profile'}", "about:blank"]
    with (folder / "chromium.log").open("w") as log:
        process = ChildProcess(command, stdout=log, stderr=log, env={**os.environ, "HOME": str(folder)})
    try:
        told = folder / "profile" / "DevToolsActivePort"

        async def begun() -> bool:
            assert process.poll() is None, (folder / "chromium.log").read_text()[-2000:]
            return told.exists() and told.read_text().count("\n") >= 1

        await eventually(begun, "chromium listens")
        port = told.read_text().splitlines()[0]
        async with aiohttp.ClientSession() as session:
            async with session.put(f"http://127.0.0.1:{port}/json/new?about:blank") as answer:
                tab = await answer.json(content_type=None)
            async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=LONGEST_MESSAGE) as socket:
                made = Browser(socket)
                listening = asyncio.create_task(made.listen())
                for domain in ("Page", "Runtime", "Log", "Network"):
                    await made.do(f"{domain}.enable")
                yield made
                listening.cancel()
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE)
