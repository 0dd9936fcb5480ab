"""The API server by as few steps as Python takes: what a fast client has, and what each request was, counted."""

import asyncio
import json
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

Json = dict[str, Any]
Kind = tuple[str, str, str]
"""A request's verb, resource and subresource ("": none), as `apiserver_request_total` has them."""

PAGE = 250
LABEL = "baton.dev/group"
PODS, LEASES, LEDGERS = "/api/v1/pods", "/apis/coordination.k8s.io/v1/leases", "/api/v1/configmaps"
GROUPS, QUEUES = "/apis/baton.dev/v1alpha1/consumergroups", "/apis/baton.dev/v1alpha1/partitionedqueues"


class RefusedError(Exception):
    """An answer that is an error. The first argument is its status."""


class Client:
    """Requests are counted when they are answered."""

    def __init__(self, session: aiohttp.ClientSession, server: str) -> None:
        self._session = session
        self._server = server
        self.counts: Counter[Kind] = Counter()

    async def text(self, path: str) -> str:
        async with self._session.get(self._server + path) as answer:
            return await answer.text()

    async def ask(self, verb: str, path: str, body: object = None, content: str = "application/json") -> Json:
        """Raises RefusedError, and aiohttp.ClientError where there is no answer."""
        data = None if body is None else json.dumps(body)
        method = {"LIST": "GET"}.get(verb, verb)
        async with self._session.request(method, self._server + path, data=data, headers={"Content-Type": content}) as answer:
            text = await answer.read()
            self.counts[kind(verb, path)] += 1
            if answer.status >= 300:
                raise RefusedError(answer.status, text[:500])
            made: Json = json.loads(text)
            return made

    async def merge(self, path: str, patch: Json) -> Json:
        return await self.ask("PATCH", path, patch, "application/merge-patch+json")

    async def listed(self, path: str, selector: str = "") -> tuple[list[Json], str]:
        """All objects, and the version that a watch goes on from."""
        items: list[Json] = []
        token, version = "", ""
        while True:
            page = await self.ask("LIST", f"{path}?limit={PAGE}&labelSelector={selector}&continue={token}")
            items += page["items"]
            version = version or page["metadata"]["resourceVersion"]
            token = page["metadata"].get("continue") or ""
            if not token:
                return items, version

    async def watched(self, path: str, selector: str, version: str) -> AsyncIterator[Json]:
        """Events, until the server ends them. Raises RefusedError for a version that is too old."""
        asked = f"{self._server}{path}?watch=1&labelSelector={selector}&resourceVersion={version}"
        async with self._session.get(asked, timeout=aiohttp.ClientTimeout(total=None)) as answer:
            rest = b""
            async for data in answer.content.iter_any():
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise RefusedError(event["object"].get("code"), event["object"].get("message"))
                    yield event

    async def follow(self, path: str, selector: str, see: Callable[[str, Json], None]) -> None:
        """List and watch for ever. `see` is given the event's type (LISTED: of a list) and the object."""
        while True:
            try:
                items, version = await self.listed(path, selector)
                for item in items:
                    see("LISTED", item)
                async for event in self.watched(path, selector, version):
                    see(event["type"], event["object"])
            except (aiohttp.ClientError, RefusedError, TimeoutError, OSError):
                await asyncio.sleep(0.2)


def kind(verb: str, path: str) -> Kind:
    parts = path.partition("?")[0].strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    return verb, parts[0], parts[2] if len(parts) > 2 else ""


def within(path: str, namespace: str, *rest: str) -> str:
    """The path of a collection, as that of one in this namespace."""
    root, _, plural = path.rpartition("/")
    return "/".join((root, "namespaces", namespace, plural, *rest))


@asynccontextmanager
async def connected(server: str, pki: Path) -> AsyncIterator[Client]:
    """`pki`: the folder with the certificates of the cluster's administrator."""
    context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        yield Client(session, server)


def counted(metrics: str, of: Collection[str]) -> Counter[Kind]:
    """What the API server has answered of these resources, by its page of metrics."""
    found: Counter[Kind] = Counter()
    for line in metrics.splitlines():
        if line.startswith("apiserver_request_total{"):
            labels, _, value = line.partition("{")[2].rpartition("} ")
            told = dict(part.split("=", 1) for part in labels.replace('"', "").split(","))
            if told["resource"] in of and told["verb"] != "WATCH":
                found[told["verb"], told["resource"], told["subresource"]] += int(float(value))
    return found
