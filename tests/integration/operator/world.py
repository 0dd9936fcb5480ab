"""A namespace with queues, groups, pods and sessions, as a test makes them, and the operator's process.

There is no kubelet here: pods are objects whose status is written through the API; that is all the operator sees of any pod.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from baton.kube.api import Api, core_path, group_path
from baton.kube.errors import NotFoundError
from baton.kube.events import EVENTS
from baton.kube.leases import LEASES, leases_path
from baton.kube.objects import GROUP_VERSION, groups_path
from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.model.names import GROUP_LABEL, RELEASES_ANNOTATION, ledger_name, session_lease_name
from baton.model.session import Release, format_releases
from baton.model.times import to_micro_text, to_text
from baton.queues.protocol import Claimant, Ownership
from baton.queues.redis import RedisQueue
from tests.processes import ChildProcess
from tests.waiting import PATIENCE, eventually

Json = dict[str, Any]
ROOT = Path(__file__).parents[3]
IMPATIENT = (sys.executable, "-m", "tests.integration.operator.impatient")
"""`program` of an operator that is."""

SHOP = "-".join(filter(None, ("shop", os.environ.get("PYTEST_XDIST_WORKER"))))
"""The namespace of `shared_operator`: each of xdist's processes has its own."""
LAPSES_SOON = ("--lease-duration", "2", "--renew-deadline", "1.5", "--retry-period", "0.3")
"""Terms of a leader whose Lease others soon find lapsed. On a busy machine it may lose and win it again by itself."""
KEEPS = ("--lease-duration", "30", "--renew-deadline", "25", "--retry-period", "0.3")
"""Terms of one that leads on however slow the machine is. Let it `stop`, and give its Lease up, where others come after it."""


class Cluster(Api):
    """The API as a test uses it: with deletion, and with strict validation as kubectl asks for it."""

    async def delete(self, path: str, **options: Any) -> None:
        with contextlib.suppress(NotFoundError):
            await self._request("DELETE", path, body=options or None)

    async def gone(self, path: str, shown: Callable[[], Awaitable[object]] | None = None) -> None:
        """Wait until there is no such object."""

        async def so() -> bool:
            return await self.find(path) is None

        await eventually(so, f"{path} is gone", shown=shown or (lambda: self.find(path)))

    async def apply_strictly(self, path: str, body: Json) -> Json:
        return await self._request("POST", path, {"fieldValidation": "Strict"}, body)

    async def apply_as(self, manager: str, path: str, body: Json) -> Json:
        """Server-side apply, as GitOps tools do it."""
        query = {"fieldManager": manager, "force": "true"}
        return await self._request("PATCH", path, query, body, "application/apply-patch+yaml")


class World:
    """One namespace."""

    def __init__(self, api: Cluster, namespace: str) -> None:
        self.api = api
        self.namespace = namespace

    # -- making things

    async def queue(self, name: str, source: Json, partitions: int | None = 6, **spec: Any) -> Json:
        rebalance = {"delaySeconds": 1, "maxHandoffSeconds": 2, **spec.pop("rebalance", {})}
        body = {"source": source, "rebalance": rebalance, **spec} | ({"partitions": partitions} if partitions else {})
        return await self._create_own("partitionedqueues", "PartitionedQueue", name, body)

    async def external(self, name: str, partitions: int = 6, **spec: Any) -> Json:
        return await self.queue(name, {"type": "External"}, partitions, **spec)

    async def redis(self, name: str, url: str, partitions: int = 6, **spec: Any) -> Json:
        return await self.queue(name, {"type": "Redis", "redis": {"url": url}}, partitions, **spec)

    async def group(self, name: str, queues: Iterable[str] | None = None, **spec: Any) -> Json:
        """Its pods need no sessions, unless `spec` says something of membership.session (None: the default)."""
        names = [{"name": queue} for queue in (queues or [name])]
        membership = {"session": "Optional", **spec.pop("membership", {})}
        membership = {key: value for key, value in membership.items() if value is not None}
        return await self._create_own(
            "consumergroups", "ConsumerGroup", name, {"queues": names, "membership": membership, **spec}
        )

    async def _create_own(self, plural: str, kind: str, name: str, spec: Json) -> Json:
        body = {"apiVersion": GROUP_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
        return await self.api.apply_strictly(group_path(GROUP_VERSION, self.namespace, plural), body)

    async def pod(self, name: str, group: str, *, ready: bool = True, session: bool = False, **metadata: Any) -> Uid:
        labels = {GROUP_LABEL: group, **metadata.pop("labels", {})}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels, **metadata},
            "spec": {"containers": [{"name": "consumer", "image": "none"}], "terminationGracePeriodSeconds": 0},
        }
        made = await self.api.create(core_path(self.namespace, "pods"), body)
        if session:
            await self.session(name, made["metadata"]["uid"], group, duration=3600)
        if ready:
            await self.set_ready(name, True)
        return Uid(made["metadata"]["uid"])

    async def together(self, group: str, *pods: Awaitable[Uid]) -> list[Uid]:
        """Make pods that the group's next plan is for, all of them: however long one comes after another, it is paused until the
        operator has seen them. They are its first members."""
        await self.change("consumergroups", group, {"spec": {"paused": True}})
        await self.seen(group)
        made = await asyncio.gather(*pods)
        await self.shows(group, members=len(made))
        await self.change("consumergroups", group, {"spec": {"paused": False}})
        return made

    async def set_ready(self, name: str, ready: bool) -> None:
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": to_text(time.time())}
        path = core_path(self.namespace, "pods", name) + "/status"
        await self.api.merge(path, {"status": {"phase": "Running", "conditions": [condition]}})

    async def fleet(
        self, name: str, *pods: str, url: str | None = None, partitions: int = 6, queue: Json | None = None, **group: Any
    ) -> list[Uid]:
        """A queue (External, or on the Redis at `url`) and a group of its name, with Ready pods that share the partitions evenly:
        one, if none is named. Returns their UIDs."""
        source: Json = {"type": "External"} if url is None else {"type": "Redis", "redis": {"url": url}}
        await self.queue(name, source, partitions, **(queue or {}))
        await self.group(name, **group)
        names = pods or (f"{name}-a",)
        made = [self.pod(pod, name) for pod in names]
        uids = await self.together(name, *made) if len(made) > 1 else [await made[0]]
        await self.spread(name, *(partitions // len(names) + (n < partitions % len(names)) for n in range(len(names))))
        return uids

    async def deployment(self, name: str, replicas: int) -> None:
        """Its pods are never started, and are not the group's."""
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        await self.api.create(group_path("apps/v1", self.namespace, "deployments"), {"metadata": {"name": name}, "spec": spec})

    async def delete_pod(self, name: str) -> None:
        await self.api.delete(core_path(self.namespace, "pods", name), gracePeriodSeconds=0)

    async def terminate(self, name: str, grace: int) -> None:
        """As `kubectl delete pod` does: it goes on for `grace` seconds, and a kubelet would remove it then."""
        path = core_path(self.namespace, "pods", name)
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": "node"}}
        await self.api.create(f"{path}/binding", binding)  # one that runs nowhere has no grace period
        await self.api.delete(path, gracePeriodSeconds=grace)

    async def session(
        self,
        pod: str,
        uid: Uid,
        group: str,
        releases: Iterable[Release] | str = (),
        duration: int = 3600,
        name: str | None = None,
    ) -> None:
        """A pod's Lease (or the one that `name` says), renewed now."""
        name = name or session_lease_name(MemberId(pod))
        path = leases_path(self.namespace, name)
        body = {
            "apiVersion": LEASES,
            "kind": "Lease",
            "metadata": {
                "name": name,
                "labels": {GROUP_LABEL: group},
                "annotations": {RELEASES_ANNOTATION: releases if isinstance(releases, str) else format_releases(releases)},
            },
            "spec": {"holderIdentity": uid, "leaseDurationSeconds": duration, "renewTime": to_micro_text(time.time())},
        }
        if await self.api.find(path) is None:
            await self.api.create(leases_path(self.namespace), body)
        else:
            await self.api.merge(path, body)

    async def secret(self, name: str, url: str) -> None:
        path = core_path(self.namespace, "secrets")
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"url": url}}
        if await self.api.find(f"{path}/{name}") is None:
            await self.api.create(path, body)
        else:
            await self.api.merge(f"{path}/{name}", body)

    async def change(self, plural: str, name: str, patch: Json) -> Json:
        return await self.api.merge(group_path(GROUP_VERSION, self.namespace, plural, name), patch)

    async def delete(self, plural: str, name: str) -> None:
        await self.api.delete(group_path(GROUP_VERSION, self.namespace, plural, name))

    # -- looking

    async def replicas(self, deployment: str) -> int:
        return int((await self.api.get(group_path("apps/v1", self.namespace, "deployments", deployment)))["spec"]["replicas"])

    def ledger_path(self, group: str) -> str:
        return core_path(self.namespace, "configmaps", ledger_name(group))

    async def ledger_data(self, group: str) -> dict[str, str] | None:
        found = await self.api.find(self.ledger_path(group))
        return None if found is None else found.get("data") or {}

    async def entries(self, group: str) -> dict[str, MemberEntry]:
        data = await self.ledger_data(group) or {}
        return {key: MemberEntry.from_json(text) for key, text in data.items() if key != "group"}

    async def owned(self, group: str, queue: str | None = None) -> dict[str, dict[int, Epoch]]:
        """Partitions and epochs by member, without those that are being revoked."""
        name = QueueName(queue or group)
        return {member: dict(entry.owned.get(name, {})) for member, entry in (await self.entries(group)).items()}

    async def counts(self, group: str, queue: str | None = None) -> dict[str, int]:
        return {member: len(grants) for member, grants in (await self.owned(group, queue)).items()}

    async def get_group(self, name: str) -> Json | None:
        return await self.api.find(groups_path(self.namespace, name))

    async def status(self, group: str) -> Json:
        return ((await self.get_group(group)) or {}).get("status") or {}

    async def condition(self, name: str, kind: str = "Ready", plural: str = "consumergroups") -> Json:
        found = await self.api.find(group_path(GROUP_VERSION, self.namespace, plural, name)) or {}
        conditions = (found.get("status") or {}).get("conditions") or []
        return next((one for one in conditions if one["type"] == kind), {"status": "missing", "reason": "", "message": ""})

    async def events(self, reason: str) -> list[Json]:
        """Those that there are now. They are posted beside what they tell of: see `event`."""
        found = await self.api.get(group_path(EVENTS, self.namespace, "events"))
        return [event for event in found["items"] if event["reason"] == reason]

    async def inherited(self, url: str, queue: str, partitions: int) -> Mapping[int, Ownership]:
        """The owner records that the next group finds when it takes the queue. Raises QueueConflict where it may not."""
        adapter = RedisQueue(url, queue=f"{self.namespace}/{queue}", claimant=Claimant(f"{self.namespace}/next", "next"))
        try:
            await adapter.ensure(partitions)
            return (await adapter.check()).owners
        finally:
            await adapter.close()

    # -- waiting

    async def event(self, reason: str, regarding: str | None = None) -> str:
        """Wait for an event, about an object of this name if one is given; its note."""

        async def so() -> list[Json]:
            return [one for one in await self.events(reason) if regarding in (None, one["regarding"]["name"])]

        return str((await eventually(so, f"there is an event {reason} about {regarding or 'something'}"))[0]["note"])

    async def seen(self, group: str) -> None:
        """Wait until the operator has seen the group's present spec: it may see a pod's change first."""

        async def so() -> bool:
            found = await self.get_group(group) or {}
            return bool((found.get("status") or {}).get("observedGeneration") == found["metadata"]["generation"])

        await eventually(so, f"the change of {group} is seen", shown=lambda: self.get_group(group))

    async def shows(self, group: str, **fields: str | int) -> None:
        """Wait until the status has these fields: it follows the ledger."""

        async def so() -> bool:
            status = await self.status(group)
            return all(status.get(name) == value for name, value in fields.items())

        await eventually(so, f"the status of {group} shows {fields}", shown=lambda: self.status(group))

    async def gone(self, group: str) -> None:
        """Wait until the group has been deleted."""
        await self.api.gone(groups_path(self.namespace, group))

    async def spread(self, group: str, *counts: int, queue: str | None = None) -> None:
        """Wait until members own these numbers of partitions (in any order)."""

        async def so() -> bool:
            return sorted((await self.counts(group, queue)).values()) == sorted(counts)

        async def shown() -> object:
            return (await self.condition(group))["message"], await self.ledger_data(group)

        await eventually(so, f"{group} is spread as {sorted(counts)}", shown=shown)

    async def told(self, name: str, reason: str, plural: str = "consumergroups", says: str = "", kind: str = "Ready") -> str:
        """Wait for a condition to have this reason, and a message in which `says` stands; returns the message."""
        message = ""

        async def so() -> bool:
            nonlocal message
            found = await self.condition(name, kind, plural)
            message = str(found.get("message", ""))
            return found.get("reason") == reason and says in message

        what = f"{kind} of {plural} {name} says {reason}: {says}"
        await eventually(so, what, shown=lambda: self.condition(name, kind, plural))
        return message

    async def revoking(self, group: str, pod: str, count: int) -> list[Release]:
        """Wait until the pod is to release `count` partitions; returns the releases that this needs."""

        async def so() -> list[Release]:
            entry = (await self.entries(group))[pod]
            grants = entry.revoking.get(QueueName(group), {})
            found = [Release(entry.uid, QueueName(group), number, epoch) for number, epoch in grants.items()]
            return found if len(found) == count else []

        return await eventually(so, f"{pod} is to release {count}", shown=lambda: self.ledger_data(group))

    async def ledger_is(self, group: str, wanted: Mapping[str, str] | None) -> None:
        """Wait until the ledger has this content."""

        async def so() -> bool:
            return await self.ledger_data(group) == wanted

        await eventually(so, "the ledger is as it was", shown=lambda: self.ledger_data(group))

    async def scaled(self, deployment: str, replicas: int) -> None:
        """Wait until a Deployment has this size."""

        async def so() -> bool:
            return await self.replicas(deployment) == replicas

        await eventually(so, f"the Deployment {deployment} has {replicas} replicas")


class Operator:
    """The operator as a separate process."""

    def __init__(
        self,
        kubeconfig: Path,
        namespace: str | None,
        identity: str,
        folder: Path,
        *options: str,
        lease: str = "operator",
        program: Sequence[str | Path] = (Path(sys.executable).parent / "baton", "operator"),
    ) -> None:
        """`namespace` None: all of them."""
        self.log = folder / f"{identity}-{time.monotonic_ns()}.log"
        self._output = self.log.open("w")
        command = [
            *program,
            *("--kubeconfig", str(kubeconfig), "--lease-namespace", namespace or "default", "--lease-name", lease),
            *(("--namespace", namespace) if namespace is not None else ()),
            *("--identity", identity, "--metrics-port", "0", "--metrics-address", "127.0.0.1", "--log-format", "json"),
            *options,
        ]
        # Killed, it leaves behind what the Kubernetes client has written of the kubeconfig: a key among it.
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "POD_IP": "127.0.0.1", "TMPDIR": str(folder)}
        self.process = ChildProcess(command, stdout=self._output, stderr=self._output, cwd=ROOT, env=environment)

    async def running(self) -> "Operator":
        """Wait until it watches."""

        async def so() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            return self.port is not None and self.get("/readyz")[0] == 200

        await eventually(so, "the operator watches", shown=self._tail)
        return self

    async def leads(self) -> "Operator":
        async def so() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            return self.port is not None and self.metric("baton_leader") == 1.0

        await eventually(so, "the operator leads", shown=self._tail)
        return self

    async def follows(self) -> None:
        """Wait until it knows that it does not lead."""
        await self.measures("baton_leader", lambda value: value == 0)

    @property
    def port(self) -> int | None:
        for line in self.log.read_text().splitlines():
            if line.startswith("{") and (said := json.loads(line))["event"] == "started":
                return int(said["port"])
        return None

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    async def measures(self, name: str, wanted: Callable[[float], bool], **labels: str) -> None:
        """Wait until there is such a sample and its value is so."""

        async def so() -> bool:
            return (value := self.metric(name, **labels)) is not None and wanted(value)

        async def shown() -> float | None:
            return self.metric(name, **labels)

        await eventually(so, f"{name} of {labels} has the expected value", shown=shown)

    def metric(self, name: str, **labels: str) -> float | None:
        """The sample's value; None if there is no such sample."""
        wanted = {f'{key}="{value}"' for key, value in labels.items()}
        for line in self.get("/metrics")[1].splitlines():
            sample, _, value = line.rpartition(" ")
            bare, _, rest = sample.partition("{")
            if bare == name and wanted <= set(rest.rstrip("}").split(",")):
                return float(value)
        return None

    @property
    def state(self) -> str:
        """The process's state as the kernel names it: R, S, T (stopped) …"""
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0]

    @property
    def peak_memory(self) -> int:
        """The most that the process ever had resident, in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) // 1024

    def kill(self) -> None:
        """As the kernel would."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """As the kubelet would; its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(timeout=PATIENCE)
        self._output.close()
        return code

    async def _tail(self) -> str:
        return self.log.read_text()[-3000:]
