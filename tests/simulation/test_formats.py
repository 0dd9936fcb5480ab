"""What the operator writes to the API server: the ledger that pods and drivers read, statuses, Leases, events."""

import asyncio
import json

from baton.kube.api import Json, core_path, group_path
from baton.kube.events import EVENTS
from baton.kube.leases import leases_path
from baton.kube.objects import GROUP_VERSION, groups_path
from baton.model.names import ledger_name
from tests.formats import same
from tests.simulation.one_replica import OneReplica, in_virtual_time

VOLATILE = {
    r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b": "uid {}",
    r"\b[0-9a-f]{16}\b": "hash",
    r"(?<=\"resourceVersion\": \")\d+": "version",
    r"\b18\d{8}(?:\.\d+)?": "unix seconds",
    r"\b2027-01-15T[0-9:]{8}Z": "time",
    r"\b2027-01-15T[0-9:]{8}\.\d{6}Z": "micro time",
    r"(?<=\": \")[^\"]* [^\"]* [^\"]*(?=\")": "text",
}


@in_virtual_time
async def test_the_operators_writes_keep_their_format(world: OneReplica) -> None:
    """A plan waits for its approval; then hand-offs wait for what is outstanding, a static member is away, and a queue has
    shrunk."""
    world.queue("orders", 6, delaySeconds=0, maxHandoffSeconds=600)
    world.queue("audit", 1, delaySeconds=0, maxHandoffSeconds=600)
    membership = {"session": "Optional", "sessionTimeoutSeconds": 300, "identityLabel": "id"}
    world.group("orders", "orders", "audit", membership=membership, approval="Manual")
    world.pod("a", id="first")
    world.pod("b", id="second")
    await world.until_told("Ready")
    world.queues["orders"].left = dict.fromkeys(range(6), 3)
    world.pod("c", id="third")
    await asyncio.sleep(10)
    proposed = ledger(world)
    world.change_group("orders", approval="Automatic")
    await asyncio.sleep(10)
    world.delete_pod("b")
    queues = group_path(GROUP_VERSION, "shop", "partitionedqueues")
    world.change(f"{queues}/orders", {"spec": {"partitions": 5}})
    await asyncio.sleep(10)
    group = world.get(groups_path("shop", "orders"))
    events = world.get(group_path(EVENTS, "shop", "events"))["items"]
    found = {
        "ledger with a proposal": proposed,
        "ledger in mid-hand-off": ledger(world),
        "status of the group": group["status"],
        "finalizers of the group": group["metadata"]["finalizers"],
        "status of a queue": world.get(f"{queues}/orders")["status"],
        "lease of the operator": world.get(leases_path("baton-system", "operator"))["spec"],
        "an event": next(one for one in events if one["reason"] == "Granted"),
    }
    same("operator.json", found, VOLATILE)


def ledger(world: OneReplica) -> Json:
    found = world.get(core_path("shop", "configmaps", ledger_name("orders")))
    return {**found, "data": {key: json.loads(text) for key, text in found["data"].items()}}
