"""What a fleet says that spec.scale.steps holds at fewer pods than are asked for."""

from baton.kube.api import group_path
from baton.kube.events import EVENTS
from baton.kube.objects import GROUP_VERSION
from tests.simulation.one_replica import OneReplica, in_virtual_time


@in_virtual_time
async def test_a_fleet_that_shrinks_as_its_queue_grows_says_why(world: OneReplica) -> None:
    world.queue("orders", 12)
    deployments = group_path("apps/v1", "shop", "deployments")
    world.make(deployments, {"metadata": {"name": "workers"}, "spec": {"replicas": 3}})
    target = {"mode": "Workload", "targetRef": {"kind": "Deployment", "name": "workers"}, "steps": "EvenShares"}
    world.group("orders", replicas=3, scale=target)
    await world.until_told("NoMembers")
    orders = group_path(GROUP_VERSION, "shop", "partitionedqueues", "orders")
    world.server.request("patch", orders, body={"spec": {"partitions": 13}})

    async def notes() -> list[str]:
        found = await world.admin.get(group_path(EVENTS, "shop", "events"))
        return [event["note"] for event in found["items"] if event["reason"] == "Scaled"]

    why = "spec.replicas asks for 3, and spec.scale.steps holds the fleet at 1, which divides 13 partitions evenly"
    await world.until(notes, [f"scaled Deployment shop/workers from 3 to 1: {why}"])
