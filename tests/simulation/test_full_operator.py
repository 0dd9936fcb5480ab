"""An operator whose groups have all the partitions that it takes: who is refused, who is not, and what comes of a restart."""

import asyncio
import gc
import json
from functools import partial

import pytest

from baton.controller.group_loops import LEDGERS_WITHIN
from baton.engine import GroupState
from baton.engine.ledger import WITHDRAWN_OF_ONE
from baton.kube.api import core_path, group_path
from baton.kube.events import EVENTS
from baton.kube.leases import leases_path
from baton.kube.ledger_configmap import PARTITIONS_ANNOTATION
from baton.kube.objects import QueueView, groups_path, queues_path
from baton.model.names import ledger_name
from baton.queues.external.operator_side import ExternalQueue
from baton.queues.protocol import Claimant, QueueAdapter
from tests.simulation.api_server import Fault, Refuse
from tests.simulation.one_replica import OneReplica, in_virtual_time

MOST = 40
"""Partitions: of each namespace half of it, and a tenth is kept for small shares."""


class Full(OneReplica):
    """It serves `shop` and `bank`. Every group has an External queue of its name."""

    def __init__(self) -> None:
        super().__init__(most_partitions=MOST)
        self.opened: list[str] = []
        self.make("/api/v1/namespaces", {"metadata": {"name": "bank"}})

    async def _open(self, view: QueueView, claimant: Claimant) -> QueueAdapter:
        self.opened.append(view.full_name)
        return ExternalQueue()

    def fleet(self, name: str, partitions: int, namespace: str = "shop", pods: int = 1) -> None:
        self.external(name, partitions, namespace)
        whole = {"queues": [{"name": name}], "membership": {"session": "Optional"}}
        self.make(groups_path(namespace), {"metadata": {"name": name}, "spec": whole})
        for number in range(pods):
            self.pod(f"{name}-{number}", name, namespace)

    def resize(self, name: str, partitions: int, namespace: str = "shop") -> None:
        self.change(queues_path(namespace, name), {"spec": {"partitions": partitions}})

    async def restart(self, most: int = MOST) -> None:
        await self.stop()
        self.most_partitions = most
        self.start()

    async def serves(self, name: str, partitions: int, namespace: str = "shop", seconds: float = 60.0) -> None:
        await self.until(
            lambda: (self.ready(name, namespace)[0], len(self.epochs(name, namespace))), ("Ready", partitions), seconds
        )

    async def refuses(self, name: str, namespace: str = "shop", seconds: float = 60.0) -> str:
        await self.until(lambda: self.ready(name, namespace)[0], "OperatorFull", seconds)
        return self.ready(name, namespace)[1]

    def booked(self, namespace: str = "shop") -> float:
        release = self.replica.elector.release
        return self.metric("baton_booked_partitions", release=release, namespace=namespace) or 0.0


story = partial(in_virtual_time, make=Full)


@story
async def test_a_group_without_room_is_refused_and_affects_no_other(world: Full) -> None:
    world.fleet("first", 12)
    await world.serves("first", 12)
    before = world.epochs("first")
    world.fleet("second", 12)
    message = await world.refuses("second")
    assert "second, which spec.queues names, stay as before: there is no room for 12 partitions more" in message
    assert "the groups of namespace shop have 12 of the 20 partitions that one may have" in message
    assert "mostPartitions and resources.limits.memory" in message
    world.fleet("third", 8)
    world.fleet("other", 16, "bank")
    await world.serves("third", 8)
    await world.serves("other", 16, "bank")
    await asyncio.sleep(60)
    assert world.epochs("first") == before
    assert world.epochs("second") == {}
    assert "shop/second" not in world.opened
    events = world.get(group_path(EVENTS, "shop", "events"))["items"]
    refused = [one for one in events if one["reason"] == "OperatorFull"]
    assert {(one["regarding"]["name"], one["type"]) for one in refused} == {("second", "Warning")}
    assert len({one["note"] for one in refused}) == len(refused), "no sentence comes twice"
    release = world.replica.elector.release
    assert world.metric("baton_groups_without_room", release=release, namespace="shop") == 1
    assert world.metric("baton_most_partitions", release=release) == MOST
    assert (world.booked(), world.booked("bank")) == (20, 16)


@pytest.mark.parametrize("how", ["the group goes", "the queue shrinks"])
@story
async def test_a_refused_group_is_admitted_once_there_is_room(world: Full, how: str) -> None:
    world.fleet("first", 12)
    await world.serves("first", 12)
    world.fleet("second", 14)
    await world.refuses("second")
    if how == "the group goes":
        world.delete(groups_path("shop", "first"))
    else:
        world.resize("first", 4)
    await world.serves("second", 14, seconds=10)
    assert world.booked() == (14 if how == "the group goes" else 14 + 4 + 8 / WITHDRAWN_OF_ONE)
    assert world.metric("baton_groups_without_room", release=world.replica.elector.release, namespace="shop") is None


@story
async def test_freed_room_that_is_too_small_wakes_no_refused_group(world: Full) -> None:
    world.fleet("large", 10)
    world.fleet("small", 8)
    await world.serves("large", 10)
    await world.serves("small", 8)
    waiting = [f"waits-{number}" for number in range(5)]
    for name in waiting:
        world.fleet(name, 12)
    for name in waiting:
        await world.refuses(name)
    await asyncio.sleep(60)
    world.asked.clear()
    for partitions in (6, 8, 7, 8):
        world.resize("small", partitions)
        await world.serves("small", partitions)
        await asyncio.sleep(5)
    asked = [path for verb, path in world.asked if verb == "patch" and any(name in path for name in waiting)]
    assert asked == []
    world.resize("small", 1)
    world.resize("large", 2)

    await world.until(lambda: sorted([len(world.epochs(name)) for name in waiting]), [0, 0, 0, 0, 12], 60)


@story
async def test_a_restart_refuses_the_same_group(world: Full) -> None:
    world.fleet("z", 12)
    await world.serves("z", 12)
    world.fleet("a", 12)
    await world.refuses("a")
    before = world.epochs("z")
    for _ in range(3):
        await world.restart()
        await world.serves("z", 12)
        await world.refuses("a")
        await asyncio.sleep(30)
        assert world.epochs("z") == before
        assert world.epochs("a") == {}


@story
async def test_failing_lists_of_ledgers_delay_no_group(world: Full) -> None:
    world.fleet("first", 12)
    await world.serves("first", 12)
    lists = 0

    def fail(verb: str, path: str) -> Fault | None:
        nonlocal lists
        lists += verb == "list" and "configmaps" in path
        return Refuse(403, "Forbidden", "no") if verb == "list" and "configmaps" in path else None

    world.trouble = fail
    await world.restart()
    world.pod("first-1", "first")

    await world.until(lambda: sorted(world.ledger("first")), ["first-0", "first-1", "group"], seconds=LEDGERS_WITHIN)
    assert lists
    assert world.booked() == 12


@story
async def test_groups_without_members_or_deleted_book_no_room(world: Full) -> None:
    for number in range(10):
        world.fleet(f"idle-{number}", 20, pods=0)
    await asyncio.sleep(30)
    assert {world.ready(f"idle-{number}")[0] for number in range(10)} == {"NoMembers"}
    assert world.booked() == 0
    world.pod("idle-7-0", "idle-7")
    await world.serves("idle-7", 20)
    world.pod("idle-3-0", "idle-3")
    await world.refuses("idle-3")
    world.delete(groups_path("shop", "idle-7"))
    await world.serves("idle-3", 20)
    assert world.booked() == 20


@story
async def test_a_queue_that_outgrows_the_room_keeps_its_size(world: Full) -> None:
    world.fleet("first", 8)
    world.fleet("second", 10)
    await world.serves("first", 8)
    await world.serves("second", 10)
    world.resize("first", 16)
    message = await world.refuses("first")
    assert "no room for 8 partitions more" in message
    assert len(world.epochs("first")) == 8
    world.pod("first-1", "first")
    await asyncio.sleep(30)
    assert sorted(world.ledger("first")) == ["first-0", "first-1", "group"], "the rest of it goes on"
    assert len(world.epochs("first")) == 8
    world.delete(groups_path("shop", "second"))
    await world.serves("first", 16)


@story
async def test_a_group_left_out_by_a_lower_limit_keeps_its_ledger(world: Full) -> None:
    world.fleet("a", 8)
    world.fleet("z", 8)
    await world.serves("a", 8)
    await world.serves("z", 8)
    ledger = world.ledger("z")
    for _ in range(2):
        await world.restart(most=24)
        message = await world.refuses("z")
        assert "the operator has no room for the group's 8 partitions" in message
        await world.serves("a", 8)
        await asyncio.sleep(30)
        assert world.ledger("z") == ledger
    await world.restart()
    await world.serves("z", 8)
    assert world.epochs("z") == dict.fromkeys(range(8), 1)


@story
async def test_a_left_out_group_can_be_deleted(world: Full) -> None:
    world.fleet("a", 8)
    world.fleet("z", 8)
    await world.serves("a", 8)
    await world.serves("z", 8)
    await world.restart(most=24)
    await world.refuses("z")
    world.fleet("new", 8)
    await world.refuses("new")
    for name in ("z", "new"):
        world.delete(groups_path("shop", name))
    await asyncio.sleep(20)
    assert [one["metadata"]["name"] for one in world.get(groups_path("shop"))["items"]] == ["a"]
    assert world.booked() == 8


@story
async def test_a_ledger_that_understates_its_size_is_not_read(world: Full) -> None:
    world.fleet("a", 8)
    world.fleet("z", 8)
    await world.serves("a", 8)
    await world.serves("z", 8)
    await world.stop()
    path = core_path("shop", "configmaps", ledger_name("z"))
    world.change(path, {"metadata": {"annotations": {PARTITIONS_ANNOTATION: "1"}}})
    await world.restart(most=24)
    await world.refuses("z")
    assert json.loads(world.ledger("z")["group"])["queues"] == {"z": {"partitions": 8}}
    assert world.booked() == 8 + 1


def kept(group: str) -> list[GroupState]:
    """States of a group that are still referenced."""
    return [one for one in gc.get_objects() if isinstance(one, GroupState) and one.group == group and one.records]


@story
async def test_a_deposed_leader_keeps_no_group_in_memory(world: Full) -> None:
    """Garbage may be collected an hour later; a replica that leads again would have everything twice."""
    world.fleet("first", 12)
    await world.serves("first", 12)
    gc.disable()
    try:
        assert kept("shop/first")
        world.change(leases_path("baton-system", "operator"), {"spec": {"holderIdentity": "two"}})
        await world.until(lambda: world.replica.elector.leading, False)
        await asyncio.sleep(5)
        assert kept("shop/first") == []
        await world.until(lambda: world.replica.elector.leading)
        await world.serves("first", 12)
        assert world.booked() == 12
    finally:
        gc.enable()
