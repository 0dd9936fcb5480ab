"""What stands between the operator and its API server where that one is slow: each request waits before it is passed on."""

import asyncio
import random
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from cluster import Cluster

_CHUNK = 65536


@dataclass
class Slow:
    """A connection carries requests one by one, so what a client sends after an answer is the next one. Nothing is parsed."""

    host: str
    port: int
    upstream: ssl.SSLContext
    usual: float
    seldom: float
    one_in: int
    _random: random.Random = field(default_factory=lambda: random.Random(31))

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):  # at the end of the case its task is cancelled
            answers, requests = await asyncio.open_connection(self.host, self.port, ssl=self.upstream)
            answered = asyncio.Event()
            answered.set()
            try:
                async with asyncio.TaskGroup() as both:
                    back = both.create_task(self._back(answers, writer, answered))
                    await self._forth(reader, requests, answered)
                    back.cancel()
            except* (OSError, ssl.SSLError):
                pass
            finally:
                requests.close()
                writer.close()

    async def _forth(self, reader: asyncio.StreamReader, requests: asyncio.StreamWriter, answered: asyncio.Event) -> None:
        while data := await reader.read(_CHUNK):
            if answered.is_set():
                answered.clear()
                await asyncio.sleep(self.seldom if self._random.randrange(self.one_in) == 0 else self.usual)
            requests.write(data)
            await requests.drain()

    async def _back(self, answers: asyncio.StreamReader, writer: asyncio.StreamWriter, answered: asyncio.Event) -> None:
        while data := await answers.read(_CHUNK):
            answered.set()
            writer.write(data)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def slow_server(cluster: Cluster, usual: float, seldom: float, one_in: int) -> AsyncIterator[Path]:
    """A kubeconfig that leads to the API server by way of it. Seconds."""
    pki = cluster.folder / "pki"
    upstream = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    upstream.load_cert_chain(pki / "admin.crt", pki / "admin.key")
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    served.load_cert_chain(pki / "api.crt", pki / "api.key")
    host, _, port = cluster.server.rpartition("/")[2].partition(":")
    slow = Slow(host, int(port), upstream, usual, seldom, one_in)
    async with await asyncio.start_server(slow.carry, "127.0.0.1", 0, ssl=served) as server:
        made = yaml.safe_load(cluster.kubeconfig.read_text())
        made["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        path = cluster.folder / "slow.kubeconfig"
        path.touch(0o600)
        path.write_text(yaml.safe_dump(made))
        yield path
