"""Very many groups and pods for one replica, in real time on a real event loop: what is measured is what its work costs there.

The API server is a table of texts: what the replica is told it parses, as it does what comes over the wire.
"""

import asyncio
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from baton.controller.operator_replica import Options, Replica
from baton.controller.watch import WatchEvents
from baton.kube.api import Api
from baton.kube.clock import ApiServerClock
from baton.kube.elector import Terms
from baton.kube.errors import ConflictError, NotFoundError
from baton.kube.objects import QueueView
from baton.kube.store import WatchedKind
from baton.model.ledger import MemberEntry
from baton.model.names import LEDGER_GROUP_KEY, ledger_name
from baton.queues.external.operator_side import ExternalQueue
from baton.queues.protocol import Claimant, QueueAdapter
from tests.simulation.api_server.manifests import merged
from tests.simulation.seeds import manifests

Json = dict[str, Any]


class TextApi(Api):
    """Objects as JSON, by path. `changed` hears of every write."""

    def __init__(self) -> None:
        super().__init__(None)
        self.texts: dict[str, dict[str, str]] = {}
        """By the path of a collection, and by name."""
        self.version = 1
        self.changed: Callable[[str, Json], None] = lambda collection, body: None

    def put(self, collection: str, body: Json) -> Json:
        self.version += 1
        metadata = {"uid": f"u{self.version}", "generation": 1, **body["metadata"], "resourceVersion": str(self.version)}
        namespace = collection.split("/namespaces/")[1].split("/", maxsplit=1)[0]
        made = {**body, "metadata": {"namespace": namespace, **metadata}}
        self.texts.setdefault(collection, {})[metadata["name"]] = json.dumps(made)
        self.changed(collection, made)
        return made

    def get_body(self, path: str) -> Json:
        collection, _, name = path.rpartition("/")
        try:
            found: Json = json.loads(self.texts[collection][name])
        except KeyError:
            raise NotFoundError(404, "NotFound", path) from None
        return found

    async def _exchange(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: Any = None, *rest: Any, **how: Any
    ) -> Json:
        await asyncio.sleep(0.001)
        return self._answer(method, path, query, body)

    def _answer(self, method: str, path: str, query: Mapping[str, str] | None, body: Json | list[Json] | None) -> Json:
        path = path.removesuffix("/status")
        if method == "POST":
            assert isinstance(body, dict)
            if body.get("kind") == "Event":
                return body
            if body["metadata"]["name"] in self.texts.get(path, {}):
                raise ConflictError(409, "AlreadyExists", path)
            return self.put(path, json.loads(json.dumps(body)))
        if method == "GET" and query is not None and "limit" in query:
            return self._page(path, int(query["limit"]), int(query.get("continue", 0)))
        found = self.get_body(path)
        if method == "GET":
            return found
        assert body is not None
        changed = _changed(found, json.loads(json.dumps(body)), method)
        if changed["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
            raise ConflictError(409, "Conflict", path)
        return self.put(path.rpartition("/")[0], changed)

    def _page(self, path: str, limit: int, start: int) -> Json:
        """Of all namespaces."""
        *_, resource = path.split("/")
        texts = [text for collection, held in self.texts.items() if collection.endswith(f"/{resource}") for text in held.values()]
        more = str(start + limit) if start + limit < len(texts) else ""
        metadata = json.dumps({"resourceVersion": str(self.version), "continue": more})
        answer: Json = json.loads(f'{{"metadata":{metadata},"items":[{",".join(texts[start : start + limit])}]}}')
        return answer


def _changed(found: Json, body: Any, method: str) -> Json:
    """A JSON patch (of which only additions to the object itself are known), a merge patch, or a replacement."""
    if isinstance(body, list):
        return {**found, **{one["path"].removeprefix("/"): one["value"] for one in body if one["op"] == "add"}}
    if method == "PATCH":
        return dict(merged(found, body))
    return {**body, "metadata": {**found["metadata"], **body["metadata"]}}


class Crowd:
    """A replica, and a watch that tells it of every write."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.api = TextApi()
        clock = ApiServerClock()
        self.clock = clock
        elector = TextApi()
        self.replica = Replica(
            self.api,
            elector,
            clock,
            _open,
            Options(identity="one", lease_namespace="baton", lease_name="operator", terms=Terms(duration=60, renew_deadline=40)),
        )
        self.feed = WatchEvents(loop, self.replica.cache.event)
        self.api.changed = self._changed
        self.watched = True

    def _changed(self, collection: str, body: Json) -> None:
        of = next((of for of in WatchedKind if collection.endswith(f"/{of.value}")), None)
        if of is not None and self.watched:
            self.feed.put(of, "MODIFIED", body)

    def tell_all(self) -> threading.Thread:
        """As kopf does at its start: from a separate thread. What is deleted before that has ended may be told after it."""

        def tell() -> None:
            for of in WatchedKind:
                for collection, held in list(self.api.texts.items()):
                    if collection.endswith(f"/{of.value}"):
                        for text in list(held.values()):
                            self.feed.put(of, None, json.loads(text))

        telling = threading.Thread(target=tell)
        telling.start()
        return telling

    def group(self, namespace: str, name: str, partitions: int, **spec: Any) -> None:
        source = {"type": "External", "external": {"onDeadline": "Force"}}
        rebalance = {"delaySeconds": 0, "maxHandoffSeconds": 0}
        queue = manifests.queue(name, {"source": source, "partitions": partitions, "rebalance": rebalance})
        self.api.put(WatchedKind.QUEUES.path(namespace), queue)
        self.api.put(WatchedKind.GROUPS.path(namespace), manifests.group(name, {"queues": [{"name": name}], **spec}))

    def pods(self, namespace: str, group: str, names: Iterable[str]) -> None:
        for name in names:
            pod = {**manifests.pod(name, group, None, None, 0), **manifests.pod_status(True, self.clock.now())}
            pod["metadata"]["managedFields"] = [{"fieldsV1": {"x" * 40: {}}} for _ in range(4)]
            pod["spec"]["containers"] = [{"name": "c", "image": "i", "env": [{"name": f"V{n}", "value": "v"} for n in range(8)]}]
            self.api.put(WatchedKind.PODS.path(namespace), pod)

    def delete(self, of: WatchedKind, namespace: str, name: str) -> None:
        collection = of.path(namespace)
        body = self.api.get_body(f"{collection}/{name}")
        del self.api.texts[collection][name]
        self.api.version += 1
        body["metadata"]["resourceVersion"] = str(self.api.version)
        self.feed.put(of, "DELETED", body)

    def forget_events(self) -> None:
        """What happened so far is found by lists, and told by `tell_all`."""
        self.feed = WatchEvents(asyncio.get_running_loop(), self.replica.cache.event)

    def members(self, namespace: str, group: str) -> int:
        """Members with a key in its ledger."""
        return max(0, len(self._keys(namespace, group)) - 1)

    def granted(self, namespace: str, group: str) -> int:
        """Partitions with an owner in its ledger."""
        entries = [MemberEntry.from_json(text) for key, text in self._keys(namespace, group).items() if key != LEDGER_GROUP_KEY]
        return sum(len(numbers) for entry in entries for numbers in entry.owned.values())

    def _keys(self, namespace: str, group: str) -> dict[str, str]:
        text = self.api.texts.get(WatchedKind.LEDGERS.path(namespace), {}).get(ledger_name(group))
        return {} if text is None else json.loads(text)["data"]


async def _open(queue: QueueView, claimant: Claimant) -> QueueAdapter:
    return ExternalQueue()
