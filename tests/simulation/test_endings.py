"""How groups end where something else happens meanwhile, and how a replica ends."""

import asyncio
from typing import Any

from structlog.testing import capture_logs

from baton.kube.api import core_path, group_path
from baton.kube.events import EVENTS
from baton.kube.leases import leases_path
from baton.kube.objects import FINALIZER, groups_path
from baton.kube.pods import DELETION_COST
from tests.simulation.api_server import Delay, Refuse
from tests.simulation.api_server.faults import Fault
from tests.simulation.one_replica import OneReplica, in_virtual_time
from tests.simulation.replicas import Lone, played

ORDERS = groups_path("shop", "orders")


def finalizers(world: OneReplica) -> list[str] | None:
    group = world.find(ORDERS)
    return None if group is None else group["metadata"].get("finalizers", [])


@in_virtual_time
async def test_the_next_leader_does_not_claim_a_released_queue(world: OneReplica) -> None:
    await world.serve("a")

    def refuse(verb: str, path: str) -> Fault | None:
        return Refuse(503, "ServiceUnavailable", "away") if (verb, path) == ("patch", ORDERS) else None

    world.trouble = refuse
    world.delete_group("orders")
    queue = world.queues["orders"]
    await world.until(lambda: queue.released)
    await asyncio.sleep(3)
    await world.stop()
    world.trouble = lambda verb, path: None
    queue.calls.clear()
    world.start()
    await world.until(lambda: finalizers(world), None)
    assert "release" in queue.calls
    assert "ensure" not in queue.calls


@in_virtual_time
async def test_the_next_leader_waits_for_a_queue_that_may_have_been_claimed(world: OneReplica) -> None:
    world.queue("orders")
    world.group("orders")
    await world.until_told("NoMembers")
    await world.stop()
    queue = world.queues["orders"]
    ledger = core_path("shop", "configmaps", "orders-assignments")
    if world.find(ledger):
        world.delete(ledger)
    world.delete_group("orders")
    queue.down, queue.released = True, False
    queue.calls.clear()
    world.start()
    await world.until(lambda: "release" in queue.calls)
    queue.down = False
    await world.until(lambda: finalizers(world), None)
    assert queue.released and "ensure" not in queue.calls


@in_virtual_time
async def test_a_group_held_by_a_foreign_finalizer_is_left_alone(world: OneReplica) -> None:
    await world.serve("a")
    world.change(ORDERS, {"metadata": {"finalizers": [FINALIZER, "example.com/hold"]}})
    with capture_logs() as said:
        world.delete_group("orders")
        await world.until(lambda: finalizers(world), ["example.com/hold"])
        await asyncio.sleep(120)
    assert len([line for line in said if line["event"].startswith("the group is gone")]) == 1
    assert world.replica.group_loops._loops == {}
    world.change(ORDERS, {"metadata": {"finalizers": None}})
    assert world.find(ORDERS) is None
    world.group("orders")
    await world.until_told("Ready")


PODS = {core_path("shop", "pods", pod) for pod in ("a", "b")}


def cheap(world: OneReplica) -> int:
    """Count the pods that are marked for deletion."""
    found = [world.find(pod) or {} for pod in PODS]
    return len([pod for pod in found if DELETION_COST in (pod["metadata"].get("annotations") or {})])


async def scaled(world: OneReplica) -> None:
    """One of two pods may go."""
    world.queue("orders")
    world.group("orders", replicas=1, scale={"mode": "Workload", "targetRef": {"kind": "Deployment", "name": "consumers"}})
    for pod in ("a", "b"):
        world.pod(pod)
    await world.until(lambda: cheap(world), 1)


@in_virtual_time
async def test_a_deleted_group_removes_the_deletion_costs_of_its_pods(world: OneReplica) -> None:
    await scaled(world)
    world.trouble = lambda verb, path: Delay(there=5.0) if verb == "patch" and path in PODS else None
    world.delete_group("orders")
    await world.until(lambda: finalizers(world), None)
    assert cheap(world) == 0


@in_virtual_time
async def test_a_group_ends_even_if_a_deletion_cost_cannot_be_removed(world: OneReplica) -> None:
    await scaled(world)
    world.asked.clear()
    no = Refuse(403, "Forbidden", "a webhook says no")
    world.trouble = lambda verb, path: no if verb == "patch" and path in PODS else None
    world.delete_group("orders")
    await world.until(lambda: finalizers(world), None)
    asked = sum(world.asked.count(("patch", pod)) for pod in PODS)
    assert cheap(world) == 1 and 0 < asked < 20


@played
async def test_the_last_events_are_posted_and_the_lead_is_released_last(lone: Lone) -> None:
    led: list[bool] = []
    running = lone.replica.group_loops.run

    async def fleet() -> None:
        try:
            await running()
        finally:
            await asyncio.sleep(1)
            led.append(lone.replica.elector.leading)

    lone.replica.group_loops.run = fleet  # type: ignore[method-assign]
    lone.group("shop", "a")
    await asyncio.sleep(0.2)
    assert lone.owned() == {"a": 4}
    await lone.stop()
    assert led == [True]
    found: dict[str, Any] = lone.get(group_path(EVENTS, "shop", "events"))
    assert "Granted" in [event["reason"] for event in found["items"]]
    assert lone.get(leases_path("baton", "operator"))["spec"]["holderIdentity"] == ""
    lone.start("two", ["shop"])
