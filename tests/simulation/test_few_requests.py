"""A group asks the API server for little."""

import asyncio
from collections import Counter
from collections.abc import Mapping

import pytest

from baton.kube.api import core_path
from baton.kube.objects import queues_path
from baton.model.names import LEDGER_KEY_ANNOTATION, ledger_name
from tests.simulation.api_server import Refuse
from tests.simulation.api_server.faults import no_trouble
from tests.simulation.one_replica import OneReplica, in_virtual_time

LEDGERS = core_path("shop", "configmaps")
LEDGER = core_path("shop", "configmaps", ledger_name("orders"))


def of_ledgers(world: OneReplica) -> list[str]:
    """Verbs of the replica's requests about the group's ledger."""
    return [verb for verb, path in world.asked if path == LEDGER or (verb, path) == ("create", LEDGERS)]


async def served(world: OneReplica) -> None:
    world.queue("orders", delaySeconds=0)
    world.pod("orders-a")
    world.group("orders")
    await world.until(world.counts, [4])


@in_virtual_time
async def test_existing_pods_cost_a_write_of_moves_and_a_write_of_grants(world: OneReplica) -> None:
    world.queue("orders", delaySeconds=0)
    for name in ("orders-a", "orders-b", "orders-c", "orders-d"):
        world.pod(name)
    world.group("orders")
    await world.until(world.counts, [1, 1, 1, 1])
    await world.until_told("Ready")
    assert world.measured("baton_ledger_writes_total", namespace="shop", group="orders") == 2
    await asyncio.sleep(10)
    assert world.events() == ["Granted"], "no pod stood by for want of an answer, and one event has all"


@in_virtual_time
async def test_a_pod_of_an_external_queue_that_goes_costs_one_write_of_the_ledger_and_one_event(world: OneReplica) -> None:
    world.external()
    for name in ("orders-a", "orders-b"):
        world.pod(name)
    world.group("orders", membership={"session": "Optional"})
    await world.until(world.counts, [2, 2])
    await asyncio.sleep(10)
    assert of_ledgers(world) == ["create", "update"]
    world.asked.clear()
    world.delete_pod("orders-a")
    await asyncio.sleep(10)
    assert world.counts() == [4]
    kinds = Counter((verb, path.rpartition("/")[2]) for verb, path in world.asked if verb not in ("list", "watch"))
    assert kinds == {
        ("update", ledger_name("orders")): 1,
        ("create", "events"): 1,
        ("patch", "status"): 1,
        ("patch", "orders-b"): 1,
    }


@in_virtual_time
async def test_a_new_group_costs_no_read_of_its_ledger(world: OneReplica) -> None:
    await asyncio.sleep(30)
    await served(world)
    assert of_ledgers(world) == ["create", "update", "update"]


@in_virtual_time
async def test_a_leader_that_cannot_list_ledgers_reads_before_it_writes(world: OneReplica) -> None:
    await served(world)
    epochs = world.epochs()
    await world.stop()
    world.asked.clear()
    refused = Refuse(403, "Forbidden", "no")
    world.trouble = lambda verb, path: refused if verb == "list" and path.endswith("/configmaps") else None
    world.start()
    await asyncio.sleep(60)
    assert of_ledgers(world)[:2] == ["get", "update"]
    assert world.epochs() == epochs


@in_virtual_time
async def test_a_ledger_created_late_by_a_former_leader_is_continued(world: OneReplica) -> None:
    await served(world)
    epochs, before = world.epochs(), world.config_map()
    await world.stop()
    world.delete(LEDGER)
    world.asked.clear()
    away = Refuse(503, "ServiceUnavailable", "away")

    def trouble(verb: str, path: str) -> Refuse | None:
        """The late create arrives just before the replica's own, and then no ledger can be read or written for a while."""
        if (verb, path) == ("create", LEDGERS) and "create" not in of_ledgers(world)[:-1]:
            metadata = {name: before["metadata"][name] for name in ("name", "labels", "annotations", "ownerReferences")}
            world.make(LEDGERS, {**before, "metadata": metadata})
        return away if path == LEDGER else None

    world.trouble = trouble
    world.start()
    await asyncio.sleep(40)
    assert of_ledgers(world)[:2] == ["create", "get"]
    assert world.epochs() == epochs
    assert world.config_map()["metadata"]["annotations"] == before["metadata"]["annotations"]
    world.trouble = no_trouble
    await asyncio.sleep(20)
    assert world.epochs() == epochs
    assert world.ready()[0] == "Ready"


@pytest.mark.parametrize(
    ("source", "annotated"), [({"type": "External"}, True), ({"type": "Redis", "redis": {"url": "redis://memory:6379"}}, False)]
)
@in_virtual_time
async def test_pods_are_annotated_only_if_the_queue_does_not_notify_consumers(
    world: OneReplica, source: Mapping[str, object], annotated: bool
) -> None:
    world.make(queues_path("shop"), {"metadata": {"name": "orders"}, "spec": {"partitions": 4, "source": source}})
    world.group("orders")
    world.pod("orders-a")
    await world.until(world.counts, [4])
    await asyncio.sleep(1)
    pod = world.find(core_path("shop", "pods", "orders-a"))
    assert pod is not None
    assert (LEDGER_KEY_ANNOTATION in pod["metadata"].get("annotations", {})) is annotated
