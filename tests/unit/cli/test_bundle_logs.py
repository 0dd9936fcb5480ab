"""The operator's log in a bundle, which may be long, and cut off, and has secrets in it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from baton.cli.bundle import LOG_BYTES, LOG_LINES, Bundle, groups_of, read_bundle
from baton.kube.api import Api, Json
from baton.kube.errors import NotFoundError, UnavailableError
from baton.kube.objects import groups_path

LINES = (b"granted 3 to exec-1\n", b"refused: redis://me:hunter", b"2@redis.shop:6379 does not answer\n", b"\xff\n")
PODS = "/api/v1/namespaces/baton-system/pods"


class Cluster(Api):
    """One group, and an operator with two pods, of which one tells no log."""

    def __init__(self) -> None:
        super().__init__(None)
        self.asked: list[tuple[str, Mapping[str, str]]] = []

    async def get(self, path: str, **query: str) -> Json:
        metadata = {"namespace": "baton-system", "name": "baton", "labels": {}}
        if path == groups_path("shop", "orders"):
            return {"metadata": {"namespace": "shop", "name": "orders"}, "spec": {"queues": []}}
        if path == "/apis/apps/v1/deployments":
            return {"items": [{"metadata": metadata, "spec": {"template": {"spec": {"containers": []}}}}]}
        if path == PODS:
            return {"items": [{"metadata": {**metadata, "name": name}} for name in ("told", "silent")]}
        if path.startswith("/apis/baton.dev") or path == "/version" or path.endswith(("/pods", "/leases", "/events")):
            return {"items": []}
        raise NotFoundError(404, "NotFound", path)

    async def create(self, path: str, body: Json) -> Json:
        return {}

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str], silence: float) -> AsyncIterator[AsyncIterator[bytes]]:
        self.asked.append((path, query))
        if path == f"{PODS}/silent/log":
            raise UnavailableError("GET log: password=hunter2")
        yield _each(LINES)


async def _each(chunks: tuple[bytes, ...]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def test_a_log_is_read_to_its_bounds_and_what_is_secret_in_it_is_hidden_also_across_pieces() -> None:
    cluster = Cluster()
    files: dict[str, str] = {}
    made = Bundle(files.__setitem__)
    await read_bundle(made, cluster, "shop", await groups_of(cluster, "shop", "orders"), everything=False)
    logs = {path: text for path, text in files.items() if path.endswith(".log")}
    shown = "granted 3 to exec-1\nrefused: redis://***@redis.shop:6379 does not answer\n�\n"
    assert logs == {"operators/baton-system/told.log": shown}
    assert made.unread["log of baton-system/silent"] == "GET log: password=***"
    bounds = {"tailLines": str(LOG_LINES), "limitBytes": str(LOG_BYTES)}
    assert cluster.asked == [(f"{PODS}/{name}/log", bounds) for name in ("told", "silent")]
