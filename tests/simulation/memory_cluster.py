"""A Kubernetes in memory and in virtual time. Its methods act as an administrator, and every request is carried out at once."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import wraps
from inspect import Signature, signature
from typing import Any

from baton.controller.operator_replica import Replica
from baton.kube.api import core_path, group_path
from baton.kube.events import EVENTS
from baton.kube.objects import groups_path, queues_path
from baton.model.ids import QueueName
from baton.model.ledger import MemberEntry
from baton.model.names import GROUP_LABEL, LEDGER_GROUP_KEY, ledger_name
from baton.model.times import to_text
from tests.simulation.api_server import ApiServer
from tests.simulation.api_server.memory_api import reading
from tests.simulation.api_server.refusals import Refused

Json = dict[str, Any]
BEGIN = 1_800_000_000.0
"""Unix seconds at the start."""


class MemoryCluster:
    """An API server with these namespaces. A subclass starts `replica`."""

    replica: Replica

    def __init__(self, *namespaces: str) -> None:
        self.loop = asyncio.get_running_loop()
        self.server = ApiServer(random.Random(1), self.unix)
        for name in namespaces:
            self.make("/api/v1/namespaces", {"metadata": {"name": name}})

    def now(self) -> float:
        return self.loop.time()

    def unix(self) -> float:
        """Unix seconds."""
        return BEGIN + self.loop.time()

    # -- requests

    def make(self, path: str, body: Json) -> Json:
        return self.server.request("create", path, body=body)

    def get(self, path: str) -> Json:
        return self.server.request(reading(path), path)

    def find(self, path: str) -> Json | None:
        """Return None if there is no such object."""
        try:
            return self.get(path)
        except Refused as refused:
            if refused.code != 404:
                raise
            return None

    def change(self, path: str, patch: Json) -> Json:
        """Apply a merge patch."""
        return self.server.request("patch", path, body=patch)

    def delete(self, path: str, **options: Any) -> None:
        """`options`: by default no grace period for a pod."""
        grace = {"gracePeriodSeconds": 0} if "/pods/" in path else {}
        self.server.request("delete", path, body=grace | options or None)

    # -- objects

    def external(self, name: str = "orders", partitions: int = 4, namespace: str = "shop", **rebalance: Any) -> None:
        """Create an External queue whose hand-offs go on at the deadline."""
        source = {"type": "External", "external": {"onDeadline": "Force"}}
        spec = {"source": source, "partitions": partitions, "rebalance": {"delaySeconds": 0, "maxHandoffSeconds": 0, **rebalance}}
        self.make(queues_path(namespace), {"metadata": {"name": name}, "spec": spec})

    def pod(self, name: str, group: str = "orders", namespace: str = "shop", node: str | None = None, **labels: str) -> None:
        """Create a Ready pod."""
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": to_text(self.unix())}
        body = {
            "metadata": {"name": name, "labels": {GROUP_LABEL: group, **labels}},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "none"}]},
        }
        self.make(core_path(namespace, "pods"), body)
        status = {"status": {"phase": "Running", "conditions": [condition]}}
        self.change(core_path(namespace, "pods", name) + "/status", status)

    def delete_pod(self, name: str, namespace: str = "shop") -> None:
        self.delete(core_path(namespace, "pods", name))

    # -- looking

    def config_map(self, group: str = "orders", namespace: str = "shop") -> Json:
        """Return the ledger's ConfigMap, or {}."""
        return self.find(core_path(namespace, "configmaps", ledger_name(group))) or {}

    def ledger(self, group: str = "orders", namespace: str = "shop") -> dict[str, str]:
        return self.config_map(group, namespace).get("data") or {}

    def entries(self, group: str = "orders", namespace: str = "shop") -> dict[str, MemberEntry]:
        ledger = self.ledger(group, namespace)
        return {name: MemberEntry.from_json(text) for name, text in ledger.items() if name != LEDGER_GROUP_KEY}

    def owned(self, group: str = "orders", namespace: str = "shop", queue: str = "") -> dict[str, int]:
        """Return the number of partitions of each member, without revoked ones. `queue`: by default that of the group's name."""
        name = QueueName(queue or group)
        return {member: len(entry.owned.get(name, {})) for member, entry in self.entries(group, namespace).items()}

    def counts(self, group: str = "orders", queue: str = "") -> list[int]:
        """Return the numbers of `owned`, sorted."""
        return sorted(self.owned(group, queue=queue).values())

    def epochs(self, group: str = "orders", namespace: str = "shop") -> dict[int, int]:
        """Return the epochs of owned partitions of the queue with the group's name."""
        entries = self.entries(group, namespace).values()
        return {number: epoch for one in entries for number, epoch in one.owned.get(QueueName(group), {}).items()}

    def condition(self, path: str, kind: str = "Ready") -> tuple[str, str, str]:
        """Return status, reason and message of an object's condition; empty if it has none."""
        conditions = ((self.find(path) or {}).get("status") or {}).get("conditions") or ()
        found = (one for one in conditions if one["type"] == kind)
        return next(((one["status"], one["reason"], one["message"]) for one in found), ("", "", ""))

    def ready(self, group: str = "orders", namespace: str = "shop") -> tuple[str, str]:
        """Return reason and message of the group's condition Ready; empty if the group has no status."""
        return self.condition(groups_path(namespace, group))[1:]

    def events(self, group: str = "orders", namespace: str = "shop") -> list[str]:
        """Return the reasons of the group's events."""
        found = self.get(group_path(EVENTS, namespace, "events"))["items"]
        return [event["reason"] for event in found if event["regarding"]["name"] == group]

    def notes(self, reason: str) -> list[str]:
        """Return the texts of events with this reason."""
        found = self.get(group_path(EVENTS, "shop", "events"))["items"]
        return [event["note"] for event in found if event["reason"] == reason]

    def metric(self, name: str, **labels: str) -> float | None:
        return self.replica.metrics.registry.get_sample_value(name, labels)

    def measured(self, name: str, **labels: str) -> float:
        """Return the value of a metric, which must exist."""
        found = self.metric(name, **labels)
        assert found is not None, name
        return found

    # -- waiting

    async def until(self, look: Callable[[], object], wanted: object = True, seconds: float = 60.0) -> float:
        """Wait until `look` returns `wanted`. Returns the virtual seconds that it took."""
        begun = self.now()
        while (found := look()) != wanted:
            assert self.now() < begun + seconds, f"after {seconds} s: {found!r} instead of {wanted!r}; {self.ready()}"
            await asyncio.sleep(0.05)
        return self.now() - begun

    async def until_gone(self, path: str, seconds: float = 60.0) -> float:
        """Wait until an object is deleted."""
        return await self.until(lambda: self.find(path), None, seconds)

    async def until_told(self, reason: str, group: str = "orders", seconds: float = 60.0) -> float:
        """Wait for a reason of the condition Ready."""
        return await self.until(lambda: self.ready(group)[0], reason, seconds)


def as_test(story: Callable[..., Awaitable[None]], live: Callable[[Callable[[Any], Any]], None]) -> Callable[..., None]:
    """Turn a story into a test. Its first parameter is the cluster; pytest gives the others."""

    @wraps(story)
    def test(**given: Any) -> None:
        live(lambda cluster: story(cluster, **given))

    test.__signature__ = Signature(list(signature(story).parameters.values())[1:])  # type: ignore[attr-defined]
    return test
