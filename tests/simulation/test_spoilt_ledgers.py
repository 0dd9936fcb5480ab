"""A ledger that was damaged while no operator ran is rebuilt above the epochs that the queue has recorded."""

import asyncio
import json
from functools import partial

import pytest

from baton.kube.api import core_path
from baton.kube.objects import queues_path
from baton.model.ids import QueueName
from baton.model.names import ledger_name
from baton.model.times import to_text
from tests.simulation.api_server import Fault, LoseAnswer, Refuse
from tests.simulation.one_replica import OneReplica, in_virtual_time

LEDGER = core_path("shop", "configmaps", ledger_name("orders"))
SPOILT = {
    "deep": {"group": '{"a":' * 100_000},
    "wide": {"group": json.dumps({"version": 1, "group": "shop/orders", "queues": {"orders": {"partitions": 10**9}}})},
    "long": {"group": json.dumps({"version": 1, "group": "shop/orders", "free": [{"of": {"orders": "0-999999@1"}}] * 20_000})},
    "empty": {"group": ""},
    "no group": {"group": None},
    "not ours": {"group": json.dumps({"version": 1, "group": "shop/others", "generation": 1}), "a": None, "b": None},
    "a member": {"a": "[" * 100_000},
    "a strange key": {"-": "{}"},
    "odd letters": {"a": "\u202e\u0000\ud83d"[:2] + '"'},
}


@pytest.mark.parametrize("name", SPOILT)
@in_virtual_time
async def test_a_spoilt_ledger_is_rebuilt_above_the_queues_epochs(world: OneReplica, name: str) -> None:
    await world.serve("a", "b")
    before = {record.epoch for record in world.queues["orders"].records.values()}
    await world.stop()
    world.change(LEDGER, {"data": SPOILT[name]})
    world.start()

    def rebuilt() -> bool:
        return "LedgerRebuilt" in world.events()

    await world.until(rebuilt, True)
    await world.until(world.counts, [2, 2])
    await world.until_told("Ready")
    records = world.queues["orders"].records
    assert min(record.epoch for record in records.values()) > max(before)
    for entry in world.entries().values():
        for number, epoch in entry.owned[QueueName("orders")].items():
            assert records[number] == (entry.uid, epoch, False)


@pytest.mark.parametrize("edited", [True, False], ids=["edited", "deleted"])
@in_virtual_time
async def test_a_join_whose_ledger_had_no_answer_and_was_replaced_goes_on(world: OneReplica, edited: bool) -> None:
    await world.serve("a", "b")
    before = world.epochs()
    lost = refused = False

    def trouble(verb: str, path: str) -> Fault | None:
        nonlocal lost, refused
        if path != LEDGER or (verb == "get" and not lost):
            return None
        refused = lost
        lost = True
        return Refuse(503, "ServiceUnavailable", "come again") if refused else LoseAnswer()

    world.trouble = trouble
    world.pod("c")
    await world.until(lambda: refused)
    if edited:
        world.change(LEDGER, {"data": {"group": "mine"}})
    else:
        world.delete(LEDGER)
    world.trouble = lambda verb, path: None
    await world.until(world.counts, [1, 1, 2])
    await world.until_told("Ready")
    assert {"Granted", "LedgerRestored"} <= {*world.events()}
    assert sum(epoch - before[number] for number, epoch in world.epochs().items()) == 1, "one partition moved"


@in_virtual_time
async def test_the_only_write_of_a_hand_off_without_an_answer_is_told_too(world: OneReplica) -> None:
    await serve_external(world)
    answers = iter([LoseAnswer()])
    world.trouble = lambda verb, path: next(answers, None) if (verb, path) == ("update", LEDGER) else None
    world.delete_pod("orders-a")
    world.pod("orders-b")
    await world.until(partial(owner_of_0, world), "orders-b")

    def told() -> bool:
        return any("orders-b owns partition 0 of orders from orders-a" in note for note in world.notes("Granted"))

    await world.until(told, True)


@in_virtual_time
async def test_an_epoch_of_an_unanswered_write_goes_to_no_other_pod(world: OneReplica) -> None:
    """At a queue that cannot fence, pods begin at the epochs of the ledger that they see."""
    await serve_external(world)
    owners: dict[int, set[str]] = {}
    lost = False

    def trouble(verb: str, path: str) -> Fault | None:
        nonlocal lost
        if path != LEDGER or (verb != "update" and not lost):
            return None
        if lost:
            return Refuse(503, "ServiceUnavailable", "come again")
        lost = True
        return LoseAnswer()

    def note() -> bool:
        for name, entry in world.entries().items():
            for epoch in entry.owned.get(QueueName("orders"), {}).values():
                owners.setdefault(epoch, set()).add(name)
        return lost

    world.trouble = trouble
    world.delete_pod("orders-a")
    world.pod("orders-b")
    await world.until(note, True)
    assert owner_of_0(world) == "orders-b"
    note()
    world.delete(LEDGER)
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": to_text(world.unix())}
    status = {"phase": "Running", "conditions": [condition]}
    world.change(f"{core_path('shop', 'pods', 'orders-b')}/status", {"status": status})
    world.pod("orders-c")
    await asyncio.sleep(3)
    world.trouble = lambda verb, path: None
    for _ in range(2000):
        note()
        await asyncio.sleep(0.01)
    assert all(len(names) == 1 for names in owners.values()), owners
    assert len(owners) > 1


@pytest.mark.parametrize("change", [{"paused": True}, {"approval": "Manual"}], ids=str)
@in_virtual_time
async def test_a_step_that_was_never_written_is_taken_again_by_the_spec_that_holds(
    world: OneReplica, change: dict[str, object]
) -> None:
    """A step that waits for a webhook is neither carried out late, nor with deadlines that are past."""
    await world.serve("a", "b")
    refused = 0

    def trouble(verb: str, path: str) -> Fault | None:
        nonlocal refused
        if (verb, path) != ("update", LEDGER):
            return None
        refused += 1
        return Refuse(500, "InternalError", 'failed calling webhook "gate.example.com": connection refused')

    world.trouble = trouble
    world.pod("c")
    await world.until(lambda: refused > 3)
    world.change_group("orders", **change)
    await asyncio.sleep(60)
    world.trouble = lambda verb, path: None
    await asyncio.sleep(60)
    assert [count for count in world.counts() if count] == [2, 2]
    assert not {"Revoking", "DeadlineMissed"} & {*world.events()}


async def serve_external(world: OneReplica) -> None:
    """A group at a queue that cannot fence, with one partition and its owner."""
    spec = {"partitions": 1, "source": {"type": "External"}, "rebalance": {"delaySeconds": 2}}
    world.make(queues_path("shop"), {"metadata": {"name": "orders"}, "spec": spec})
    world.pod("orders-a")
    world.group("orders", membership={"session": "Optional"})
    await world.until(world.counts, [1])
    await world.until_told("Ready")


def owner_of_0(world: OneReplica) -> str | None:
    entries = world.entries().items()
    return next((name for name, entry in entries if 0 in entry.owned.get(QueueName("orders"), {})), None)
