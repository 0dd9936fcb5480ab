"""The fewest requests that do the operator's job, by a client that decides nothing: what the API server alone needs.

`python -m tests.bench.scale.least` prints a line of JSON when its standard input ends, or its work does.
"""

import asyncio
import json
import sys
import time
from collections import defaultdict
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import yaml

from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.model.names import API_GROUP, GROUP_LABEL, ledger_name
from tests.bench.scale.client import GROUPS, LABEL, LEASES, LEDGERS, PODS, QUEUES, Client, Json, connected, within

AT_ONCE = 24
WATCHED = ((PODS, LABEL), (LEASES, LABEL), (GROUPS, ""), (QUEUES, ""))
_THEN = "2026-11-29T00:00:00Z"
_CONDITION = {
    "status": "True",
    "reason": "Settled",
    "message": "Every partition is with the pod that its queue knows as its owner, and nothing is under way.",
    "lastTransitionTime": _THEN,
    "observedGeneration": 1,
}


class Least:
    def __init__(self, client: Client, partitions: int) -> None:
        self._client = client
        self._partitions = partitions
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._pods: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
        self._busy: dict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._tasks: set[asyncio.Task[None]] = set()

    async def cold(self) -> None:
        """Lists of everything; for each group a finalizer, a ledger with its moves, then with its grants, and the statuses of
        group and queue."""
        listed = [await self._client.listed(path, selector) for path, selector in WATCHED]
        for pod in listed[0][0]:
            self._see(pod)
        await asyncio.gather(*map(self._claim, list(self._pods)))

    async def _claim(self, key: tuple[str, str]) -> None:
        namespace, group = key
        async with self._turns:
            await self._client.merge(within(GROUPS, namespace, group), {"metadata": {"finalizers": [f"{API_GROUP}/least"]}})
            await self._client.ask("POST", within(LEDGERS, namespace), self._ledger(namespace, group))
        await self._settle(key, 1)
        async with self._turns:
            condition = {**_CONDITION, "type": "Ready"}
            status = {"observedGeneration": 1, "partitions": self._partitions, "conditions": [condition]}
            await self._client.merge(within(QUEUES, namespace, group, "status"), {"status": status})

    async def rest(self) -> None:
        """Watches of everything, and a leader's Lease."""
        for path, selector in WATCHED:
            self._keep(self._client.follow(path, selector, lambda kind, thing: None))
        self._keep(self._renew())

    async def events(self) -> None:
        """For a pod that comes a ledger with what others are to release, and one with what it then has; for one that goes one
        ledger. A status for each."""

        def see(kind: str, pod: Json) -> None:
            key = (pod["metadata"]["namespace"], pod["metadata"]["labels"][GROUP_LABEL])
            before = len(self._pods[key])
            if kind == "DELETED":
                self._pods[key].pop(pod["metadata"]["name"], None)
            else:
                self._see(pod)
            if kind != "LISTED" and len(self._pods[key]) != before:
                self._keep(self._settle(key, 2 if len(self._pods[key]) > before else 1))

        self._keep(self._client.follow(PODS, LABEL, see))

    async def _settle(self, key: tuple[str, str], ledgers: int) -> None:
        namespace, group = key
        async with self._busy[key], self._turns:
            for _ in range(ledgers):
                await self._client.ask("PUT", within(LEDGERS, namespace, ledger_name(group)), self._ledger(namespace, group))
            await self._client.merge(within(GROUPS, namespace, group, "status"), {"status": self._status(namespace, group)})

    def _see(self, pod: Json) -> None:
        metadata = pod["metadata"]
        if pod["status"].get("conditions"):
            self._pods[metadata["namespace"], metadata["labels"][GROUP_LABEL]][metadata["name"]] = metadata["uid"]

    def _ledger(self, namespace: str, group: str) -> Json:
        pods = sorted(self._pods[namespace, group].items())
        data = {"group": "{}"}
        for place, (name, uid) in enumerate(pods):
            owned = {number: Epoch(1) for number in range(place, self._partitions, len(pods))}
            entry = MemberEntry(f"{namespace}/{group}", MemberId(name), Uid(uid), 1, True, {QueueName(group): owned})
            data[name] = entry.to_json()
        metadata = {"name": ledger_name(group), "labels": {GROUP_LABEL: group}}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}

    def _status(self, namespace: str, group: str) -> Json:
        members = len(self._pods[namespace, group])
        numbers = {"members": members, "standbys": 0, "partitions": self._partitions, "unowned": 0, "moving": 0, "moves": members}
        conditions = [{**_CONDITION, "type": name} for name in ("Ready", "Balanced", "Settled", "LedgerInUse")]
        return {**numbers, "state": "Ready", "observedGeneration": 1, "conditions": conditions, "lastLookTime": _THEN}

    async def _renew(self) -> None:
        path = within(LEASES, "default")
        lease: Json = {"metadata": {"name": "least"}, "spec": {"holderIdentity": "least"}}
        await self._client.ask("POST", path, lease)
        while True:
            await asyncio.sleep(2)
            lease = await self._client.ask("GET", f"{path}/least")
            await self._client.ask("PUT", f"{path}/least", {**lease, "spec": {"holderIdentity": "least"}})

    def end(self) -> None:
        """Begin nothing more."""
        for task in self._tasks:
            task.cancel()

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def clean(client: Client) -> None:
    """Take back what `Least` has written."""
    for ledger in (await client.listed(LEDGERS, LABEL))[0]:
        await client.ask("DELETE", within(LEDGERS, ledger["metadata"]["namespace"], ledger["metadata"]["name"]))
    for path in (GROUPS, QUEUES):
        for thing in (await client.listed(path))[0]:
            where = (thing["metadata"]["namespace"], thing["metadata"]["name"])
            await client.merge(within(path, *where), {"metadata": {"finalizers": None}})
            await client.merge(within(path, *where, "status"), {"status": None})


async def _main(server: str, pki: Path, what: str, partitions: int) -> None:
    async with connected(server, pki) as client:
        least = Least(client, partitions)
        begun, before = time.monotonic(), time.process_time()
        await getattr(least, what)()
        seconds = time.monotonic() - begun
        if what != "cold":
            print("begun", flush=True)
            await asyncio.to_thread(sys.stdin.read)
        least.end()
        requests = {"/".join(filter(None, kind)): count for kind, count in client.counts.items()}
        print(json.dumps({"seconds": seconds, "cpu": time.process_time() - before, "requests": requests}), flush=True)


if __name__ == "__main__":
    _server = yaml.safe_load(Path(sys.argv[1]).read_text())["clusters"][0]["cluster"]["server"]
    asyncio.run(_main(_server, Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
