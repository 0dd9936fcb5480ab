"""A network that fails as networks do: what stands between a client and its server in tests, and can be told to break.

A process has a separate link to each server that it speaks to. What was lost on a connection stays lost, and the connection
with it: after `heal` it is new connections that work, as behind a firewall or a node that forgot them. A connection on which
nothing was lost goes on.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from enum import Enum, auto
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.waiting import PATIENCE

T = TypeVar("T")

_CHUNK = 65536
_RESET = struct.pack("ii", 1, 0)
"""As SO_LINGER: close with an RST."""


class Way(Enum):
    """Of bytes."""

    REQUESTS = auto()
    ANSWERS = auto()


BOTH = frozenset(Way)


class Network:
    """`with Network() as network:` has links until the end of the block. One thread carries them all."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._links: list[Link] = []

    def link(self, host: str, port: int) -> "Link":
        """A new one to this server."""
        made = Link(self, host, port)
        self._links.append(made)
        return made

    def call(self, function: Callable[[], T]) -> T:
        """On the thread of the network."""

        async def called() -> T:
            return function()

        return self.wait(called())

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.wait(self._ended())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    async def _ended(self) -> None:
        for link in self._links:
            link.end()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


class Link:
    """A port of this machine that leads to a server. Any thread may break it."""

    def __init__(self, network: Network, host: str, port: int) -> None:
        self._network = network
        self._target = (host, port)
        self._listening: socket.socket | None = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port: int = self._listening.getsockname()[1]
        self._connections: set[_Connection] = set()
        self._delay = 0.0
        self._silent: frozenset[Way] = frozenset()
        self._cut_in: Way | None = None
        network.call(self._listen)

    @property
    def connections(self) -> int:
        """That are established."""
        return self._network.call(lambda: len(self._connections))

    def refuse(self) -> None:
        """New connections are refused; those that there are go on."""
        self._network.call(self._close)

    def cut(self) -> None:
        """Connections that there are end, by RST at both ends."""
        self._network.call(self._cut)

    def cut_in(self, way: Way) -> None:
        """The next request, or answer, arrives by half, and its connection ends by RST at both ends."""
        self._network.call(lambda: setattr(self, "_cut_in", way))

    def silence(self, ways: frozenset[Way] = BOTH) -> None:
        """What goes these ways is lost unnoticed: neither end sees the other close."""
        self._network.call(lambda: setattr(self, "_silent", ways))

    def forget(self) -> None:
        """Nothing arrives any more on the connections that there are, either way; new ones are as good as any."""

        def forgotten() -> None:
            for connection in self._connections:
                connection.lose()

        self._network.call(forgotten)

    def delay(self, seconds: float) -> None:
        """All that goes either way arrives so much later."""
        self._network.call(lambda: setattr(self, "_delay", seconds))

    def heal(self) -> None:
        """New connections are as good as any."""

        def healed() -> None:
            self._delay, self._silent, self._cut_in = 0.0, frozenset(), None
            self._listen()

        self._network.call(healed)

    def end(self) -> None:
        """Of the network."""
        self._close()
        self._cut()

    # The network's own thread

    def _listen(self) -> None:
        if self._listening is None:
            self._listening = socket.create_server(("127.0.0.1", self.port), backlog=512)
        self._listening.setblocking(False)
        asyncio.get_running_loop().add_reader(self._listening, self._accept)

    def _close(self) -> None:
        if self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening)
            self._listening.close()
            self._listening = None

    def _accept(self) -> None:
        assert self._listening is not None
        try:
            client, _ = self._listening.accept()
        except OSError:  # it has given up by now
            return
        connection = _Connection(self, client)
        self._connections.add(connection)
        connection.begin(self._target, self._connections.discard)

    def _cut(self) -> None:
        for connection in list(self._connections):
            connection.reset()

    async def passes(self, way: Way, data: bytes) -> bytes | None:
        """What arrives of this, when it does; None: nothing. Where it is a part, the connection ends with it."""
        if self._delay:
            await asyncio.sleep(self._delay)
        if way in self._silent:
            return None
        if data and way is self._cut_in:
            self._cut_in = None
            return data[: len(data) // 2]
        return data


class _Connection:
    """From a client through a link to its server."""

    def __init__(self, link: Link, client: socket.socket) -> None:
        self._link = link
        self._client = client
        self._server = socket.socket()
        for end in (client, self._server):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._lost: set[Way] = set()
        self._orderly = False
        self._task: asyncio.Task[None] | None = None

    def begin(self, target: tuple[str, int], ended: Callable[["_Connection"], None]) -> None:
        self._task = asyncio.get_running_loop().create_task(self._carry(target))
        self._task.add_done_callback(lambda _: ended(self))
        self._task.add_done_callback(lambda _: self._close())

    def reset(self) -> None:
        assert self._task is not None
        self._task.cancel()

    def lose(self) -> None:
        """All that goes either way from now on."""
        self._lost |= BOTH

    def _close(self) -> None:
        for end in (self._client, self._server):
            if not self._orderly:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            end.close()

    async def _carry(self, target: tuple[str, int]) -> None:
        try:
            await asyncio.get_running_loop().sock_connect(self._server, target)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(self._client, self._server, Way.REQUESTS))
                both.create_task(self._pump(self._server, self._client, Way.ANSWERS))
            self._orderly = True
        except* OSError:
            pass

    async def _pump(self, source: socket.socket, sink: socket.socket, way: Way) -> None:
        """Until its source closes, or an OSError."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                data = await loop.sock_recv(source, _CHUNK)
            except ConnectionResetError:
                if await self._passes(way, b"") is None:
                    return
                raise
            passed = await self._passes(way, data)
            if passed:
                await loop.sock_sendall(sink, passed)
            if passed is not None and len(passed) < len(data):
                raise ConnectionResetError
            if not data:
                if passed is not None:
                    sink.shutdown(socket.SHUT_WR)
                return

    async def _passes(self, way: Way, data: bytes) -> bytes | None:
        passed = None if way in self._lost else await self._link.passes(way, data)
        if passed is None:
            self._lost.add(way)
        return passed
