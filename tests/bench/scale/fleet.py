"""Groups, and pods that are objects: one process renews their Leases, reads their ledgers, and releases."""

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from baton.kube.leases import LEASES as LEASE_VERSION
from baton.kube.objects import GROUP_VERSION
from baton.model.ids import MemberId, QueueName, Uid
from baton.model.ledger import MemberEntry, flat
from baton.model.names import GROUP_LABEL, LEDGER_GROUP_KEY, RELEASES_ANNOTATION, ledger_name, session_lease_name
from baton.model.session import Release, format_releases
from baton.model.times import to_micro_text, to_text
from tests.bench.scale import checker
from tests.bench.scale.client import GROUPS, LABEL, LEASES, LEDGERS, PODS, QUEUES, Client, Json, RefusedError, within

AT_ONCE = 24
"""Requests of the fleet at the same time."""

Key = tuple[str, str]
"""Namespace and name."""


@dataclass(slots=True, eq=False)
class Pod:
    namespace: str
    name: str
    group: str
    uid: Uid
    ready_at: float = 0.0
    """Monotonic seconds of the answer to the write of its status."""
    named_at: float | None = None
    """When a watch saw it in its ledger."""
    releases: str = ""
    """What its Lease is to say."""
    telling: bool = False
    unsaid: bool = False


@dataclass(frozen=True, slots=True)
class Extent:
    """How many there are of what."""

    groups: int
    pods: int = 10
    partitions: int = 20
    namespaces: int = 10
    heartbeat: float = 300.0
    """Seconds between two renewals of a pod's Lease, which has three times as long."""


@dataclass
class Fleet:
    """`begin` watches ledgers and groups and renews Leases, in tasks of the group that is given."""

    client: Client
    extent: Extent
    source: Mapping[str, object] = field(default_factory=lambda: {"type": "External"})
    prefix: str = "scale"
    pods: dict[Key, Pod] = field(default_factory=dict)
    epochs: checker.Epochs = field(default_factory=checker.Epochs)
    settled: set[Key] = field(default_factory=set)
    """Groups that their status says are Settled."""
    said: dict[Key, tuple[str, str]] = field(default_factory=dict)
    """Why a group is not Settled: the reason and message of its condition Ready."""
    joined: list[Pod] = field(default_factory=list)
    """Pods whose times are measured."""

    def __post_init__(self) -> None:
        names = [f"{self.prefix}-{number}" for number in range(min(self.extent.namespaces, self.extent.groups))]
        self.groups: list[Key] = [(names[n % len(names)], f"g{n}") for n in range(self.extent.groups)]
        self.namespaces = names
        self._of: dict[Key, list[Pod]] = defaultdict(list)
        self._seen: dict[Key, dict[str, str]] = {}
        self._number = 0
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._random = random.Random(31)

    # -- making it

    async def make(self) -> None:
        """Namespaces, queues, groups, and pods that are Ready."""
        for namespace in self.namespaces:
            await self.client.ask("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        for namespace in self.namespaces:
            while True:
                try:
                    await self.client.ask("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/default")
                    break
                except RefusedError:
                    await asyncio.sleep(0.1)
        await asyncio.gather(*(self._make(namespace, name) for namespace, name in self.groups))
        await asyncio.gather(*(self.join(key) for key in self.groups for _ in range(self.extent.pods)))
        self.joined.clear()

    async def _make(self, namespace: str, name: str) -> None:
        queue = {"source": self.source, "partitions": self.extent.partitions, "rebalance": {"delaySeconds": 0}}
        group = {"queues": [{"name": name}]}
        async with self._turns:
            await self.client.ask("POST", within(QUEUES, namespace), _object(GROUP_VERSION, "PartitionedQueue", name, queue))
            await self.client.ask("POST", within(GROUPS, namespace), _object(GROUP_VERSION, "ConsumerGroup", name, group))

    async def join(self, key: Key) -> Pod:
        """One more pod of the group, and when it was Ready."""
        pod = await self.start(key)
        await self.ready(pod)
        return pod

    async def start(self, key: Key) -> Pod:
        """One that is not Ready yet, with its Lease."""
        namespace, group = key
        self._number += 1
        name = f"{group}-{self._number}"
        async with self._turns:
            made = await self._send("POST", within(PODS, namespace), _pod(name, group))
            pod = Pod(namespace, name, group, Uid(made["metadata"]["uid"]))
            await self._send("POST", within(LEASES, namespace), self._lease(pod))
        return pod

    async def ready(self, pod: Pod) -> None:
        """It begins to count."""
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": to_text(time.time())}
        status = {"status": {"phase": "Running", "conditions": [condition]}}
        self.pods[pod.namespace, pod.name] = pod
        self._of[pod.namespace, pod.group].append(pod)
        self.joined.append(pod)
        async with self._turns:
            await self._send("PATCH", within(PODS, pod.namespace, pod.name, "status"), status)
        pod.ready_at = time.monotonic()

    def leave(self, pod: Pod) -> Coroutine[Any, Any, None]:
        """At once, as a pod that is killed. Its Lease goes with it. No other call chooses it, also before this is awaited."""
        self._of[pod.namespace, pod.group].remove(pod)
        del self.pods[pod.namespace, pod.name]
        return self._delete(pod)

    async def _delete(self, pod: Pod) -> None:
        async with self._turns:
            await self._send("DELETE", within(PODS, pod.namespace, pod.name) + "?gracePeriodSeconds=0")
            await self._send("DELETE", within(LEASES, pod.namespace, session_lease_name(MemberId(pod.name))))

    async def churn(self, rate: float, seconds: float) -> int:
        """Pod events at this rate, of groups at random: a pod goes, or another comes to a group that misses one. In the end no
        group misses one. Their number."""
        begun, done = time.monotonic(), 0
        missing: list[Key] = []
        pending: set[asyncio.Task[object]] = set()
        while (now := time.monotonic()) < begun + seconds:
            if done < (now - begun) * rate:
                full = [key for key in self.groups if len(self._of[key]) > 1]
                if missing and (done % 2 or not full):
                    work: asyncio.Task[object] = asyncio.create_task(self.join(missing.pop(0)))
                elif not full:  # of a few groups all are on their way
                    await asyncio.sleep(0.1)
                    continue
                else:
                    key = self._random.choice(full)
                    missing.append(key)
                    work = asyncio.create_task(self.leave(self._random.choice(self._of[key])))
                pending.add(work)
                work.add_done_callback(pending.discard)
                done += 1
            else:
                await asyncio.sleep(max(0.001, begun + (done + 1) / rate - now))
        await asyncio.gather(*pending, *map(self.join, missing))
        return done + len(missing)

    def of(self, key: Key) -> list[Pod]:
        """The pods of a group that live."""
        return self._of[key]

    @property
    def unsettled(self) -> int:
        """Groups that their status does not call Settled."""
        return len(self.groups) - len(self.settled)

    @property
    def unnamed(self) -> int:
        """Pods that live, and that no ledger has named."""
        return sum(pod.named_at is None for pod in self.pods.values())

    # -- as pods do

    def begin(self) -> None:
        for work in (
            self._renewals(),
            self.client.follow(LEDGERS, LABEL, self._see_ledger),
            self.client.follow(GROUPS, "", self._see_group),
        ):
            self._tasks.add(asyncio.create_task(work))

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def renew(self, pods: Sequence[Pod]) -> None:
        """The Leases of these pods, all at once."""
        await asyncio.gather(*map(self._say, pods))

    async def _renewals(self) -> None:
        """Each pod's, once in a heartbeat."""
        while True:
            begun, pods = time.monotonic(), list(self.pods.values())
            for number, pod in enumerate(pods):
                await asyncio.sleep(begun + number * self.extent.heartbeat / len(pods) - time.monotonic())
                if self.pods.get((pod.namespace, pod.name)) is pod:
                    self._start(self._say(pod))
            await asyncio.sleep(begun + self.extent.heartbeat - time.monotonic())

    def _see_ledger(self, kind: str, ledger: Json) -> None:
        now = time.monotonic()
        namespace = ledger["metadata"]["namespace"]
        key = (namespace, ledger["metadata"]["name"])
        data: dict[str, str] = (ledger.get("data") or {}) if kind != "DELETED" else {}
        before, self._seen[key] = self._seen.get(key, {}), data
        changed = [
            MemberEntry.from_json(text) for name, text in data.items() if name != LEDGER_GROUP_KEY and before.get(name) != text
        ]
        self.epochs.see("/".join(key), changed)
        for entry in changed:
            pod = self.pods.get((namespace, entry.member))
            if pod is None or pod.uid != entry.uid:
                continue
            pod.named_at = pod.named_at or now
            if any(entry.revoking.values()):
                releases = [Release(pod.uid, of.queue, of.number, epoch) for of, epoch in flat(entry.revoking)]
                pod.releases = format_releases(releases)
                self._start(self._say(pod))

    def _see_group(self, kind: str, group: Json) -> None:
        key = (group["metadata"]["namespace"], group["metadata"]["name"])
        if kind != "DELETED" and checker.settled(group):
            self.settled.add(key)
            return
        self.settled.discard(key)
        conditions = (group.get("status") or {}).get("conditions") or ()
        ready: Json = next((one for one in conditions if one["type"] == "Ready"), {})
        self.said[key] = (ready.get("reason", "no status"), ready.get("message", ""))

    async def _say(self, pod: Pod) -> None:
        """Renew its Lease. Requests of a pod do not overtake each other."""
        pod.unsaid = True
        if pod.telling:
            return
        pod.telling = True
        while pod.unsaid:
            pod.unsaid = False
            annotations = {"annotations": {RELEASES_ANNOTATION: pod.releases}} if pod.releases else {}
            patch = {"metadata": annotations, "spec": {"renewTime": to_micro_text(time.time())}}
            await self._send("PATCH", within(LEASES, pod.namespace, session_lease_name(MemberId(pod.name))), patch)
        pod.telling = False

    async def _send(self, verb: str, path: str, body: Json | None = None) -> Json:
        """As kubelets and consumers do: until the API server has it. What is gone needs nothing."""
        content = "application/merge-patch+json" if verb == "PATCH" else "application/json"
        while True:
            try:
                return await self.client.ask(verb, path, body, content)
            except RefusedError as error:
                status = error.args[0]
                if verb in ("DELETE", "PATCH") and status == 404:
                    return {}
                if verb == "POST" and status == 409 and body is not None:  # an earlier request had no answer
                    return await self._send("GET", f"{path}/{body['metadata']['name']}")
                if status < 500 and status != 429:
                    raise
            except (aiohttp.ClientError, OSError, TimeoutError):
                pass
            await asyncio.sleep(0.5)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _lease(self, pod: Pod) -> Json:
        metadata = {"name": session_lease_name(MemberId(pod.name)), "labels": {GROUP_LABEL: pod.group}}
        spec = {
            "holderIdentity": pod.uid,
            "leaseDurationSeconds": round(3 * self.extent.heartbeat),
            "renewTime": to_micro_text(time.time()),
        }
        return {"apiVersion": LEASE_VERSION, "kind": "Lease", "metadata": metadata, "spec": spec}

    # -- judging

    async def wrong(self) -> dict[Key, list[str]]:
        """Groups that are wrong by what the API server has now."""
        ledgers, _ = await self.client.listed(LEDGERS, LABEL)
        pods, _ = await self.client.listed(PODS, LABEL)
        live: dict[Key, dict[str, str]] = defaultdict(dict)
        for pod in pods:
            metadata = pod["metadata"]
            if "deletionTimestamp" not in metadata and _ready(pod):
                live[metadata["namespace"], metadata["labels"][GROUP_LABEL]][metadata["name"]] = metadata["uid"]
        data = {(one["metadata"]["namespace"], one["metadata"]["name"]): one.get("data") or {} for one in ledgers}
        found = {}
        for namespace, name in self.groups:
            ledger = data.get((namespace, ledger_name(name)), {})
            queues = {QueueName(name): self.extent.partitions}
            if why := list(checker.wrong(ledger, live[namespace, name], queues)):
                found[namespace, name] = why
        return found


def _ready(pod: Json) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions") or ())


def _pod(name: str, group: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {GROUP_LABEL: group}},
        "spec": {"containers": [{"name": "consumer", "image": "none"}], "terminationGracePeriodSeconds": 0},
    }


def _object(version: str, kind: str, name: str, spec: Mapping[str, object]) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
