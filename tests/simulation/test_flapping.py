"""A group whose settings are changed to and fro, many times and at any moment, also while pods restart: it comes to rest, by the
fewest moves, at epochs that were never used before, and its ledger is no larger than before."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from baton.engine.step import size
from baton.kube.api import group_path
from baton.kube.objects import APPROVE_ANNOTATION, GROUP_VERSION, groups_path
from baton.model.ids import Epoch, Uid
from baton.queues.protocol import Ownership
from tests.simulation.one_replica import OneReplica, in_virtual_time
from tests.unit.controller.memory_queue import MemoryQueue

Json = dict[str, Any]
GROUP = groups_path("shop", "orders")
PARTITIONS = 7
PODS = ("a", "b", "c")
STATIC = {"identityLabel": "identity", "sessionTimeoutSeconds": 20, "session": "Optional"}

Change = Callable[[OneReplica], None]


class Witness(MemoryQueue):
    """Remembers the member that each epoch of a partition was granted to."""

    def __init__(self) -> None:
        super().__init__()
        self.told: dict[tuple[int, Epoch], Uid | None] = {}
        self.used_twice: set[tuple[int, Epoch]] = set()

    async def grant(self, partition: int, uid: Uid | None, epoch: Epoch) -> Ownership:
        before = self.records.get(partition)
        made = await super().grant(partition, uid, epoch)
        if self.told.setdefault((partition, epoch), uid) != uid or (before is not None and epoch < before.epoch):
            self.used_twice.add((partition, epoch))
        return made


def of_group(**spec: Any) -> Change:
    return lambda world: world.change_group("orders", **spec)


def of_queue(**spec: Any) -> Change:
    path = group_path(GROUP_VERSION, "shop", "partitionedqueues", "orders")

    def change(world: OneReplica) -> None:
        world.change(path, {"spec": spec})

    return change


SETTINGS: dict[str, tuple[Change, Change]] = {
    "paused": (of_group(paused=True), of_group(paused=False)),
    "protocol": (of_group(protocol="Eager"), of_group(protocol="Cooperative")),
    "access": (of_queue(accessType="Exclusive"), of_queue(accessType="NonExclusive")),
    "membership": (of_group(membership=STATIC), of_group(membership={**STATIC, "sessionTimeoutSeconds": 0})),
    "approval": (of_group(approval="Manual"), of_group(approval="Automatic")),
}
"""To and fro."""


async def settled(world: OneReplica) -> None:
    def so() -> bool:
        found = world.get(GROUP)
        seen = (found.get("status") or {}).get("observedGeneration") == found["metadata"]["generation"]
        return seen and world.condition(GROUP, "Settled")[0] == "True"

    await asyncio.sleep(2)  # what is changed at a queue is no change of the group
    try:
        await world.until(so, seconds=120)
    except AssertionError:
        raise AssertionError(world.condition(GROUP, "Settled")) from None


def totals(world: OneReplica) -> tuple[int, int]:
    """Moves, and the lower bound."""
    status = (world.find(groups_path("shop", "orders")) or {})["status"]
    return status["moves"], status["lowerBound"]


async def born(world: OneReplica) -> Witness:
    world.queues["orders"] = witness = Witness()
    world.queue("orders", PARTITIONS)
    world.group("orders", membership={**STATIC, "sessionTimeoutSeconds": 0})
    for name in PODS:
        world.pod(name, identity=name)
    await settled(world)
    return witness


def approve(world: OneReplica) -> None:
    """Whatever is proposed."""
    found = world.find(groups_path("shop", "orders")) or {}
    if proposal := (found.get("status") or {}).get("proposal"):
        annotations = {APPROVE_ANNOTATION: proposal["id"]}
        world.change(groups_path("shop", "orders"), {"metadata": {"annotations": annotations}})


@pytest.mark.parametrize("names", [*((name,) for name in SETTINGS), tuple(SETTINGS)], ids=lambda names: "+".join(names))
@pytest.mark.parametrize("restarts", [False, True], ids=["", "restarts"])
@pytest.mark.parametrize("seed", range(4))
@in_virtual_time
async def test_toggled_settings_end_at_rest_with_the_fewest_moves(
    world: OneReplica, names: tuple[str, ...], seed: int, restarts: bool
) -> None:
    chance = random.Random(f"{seed} {names}")
    witness = await born(world)
    begun = size(world.ledger())
    for _ in range(40):
        chance.choice(SETTINGS[chance.choice(names)])(world)
        await asyncio.sleep(chance.choice((0.0, 0.1, 0.7, 1.2, 4.0)))
        if chance.random() < 0.2:
            approve(world)
        if restarts and chance.random() < 0.3:
            pod = chance.choice(PODS)
            world.delete_pod(pod)
            await asyncio.sleep(chance.choice((0.1, 0.7, 1.2, 4.0)))
            world.pod(pod, identity=pod)
    for name in names:
        SETTINGS[name][1](world)
    await settled(world)
    assert world.counts() == [2, 2, 3]
    moves, least = totals(world)
    assert not witness.used_twice
    # What is approved or begun just as the queue becomes exclusive, or stops being so, is moved in vain.
    assert moves >= least if len(names) > 1 else moves == least
    if "access" not in names and not restarts:
        assert moves == 0
    assert size(world.ledger()) <= begun + 100
