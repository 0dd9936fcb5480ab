"""A ledger that was damaged while no operator ran is rebuilt above the epochs that the queue has recorded."""

import json

import pytest

from baton.kube.api import core_path
from baton.model.ids import QueueName
from baton.model.names import ledger_name
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
    world.server.request("patch", LEDGER, body={"data": SPOILT[name]})
    world.start()

    async def rebuilt() -> bool:
        return "LedgerRebuilt" in await world.events()

    await world.until(rebuilt, True)
    await world.until(world.counts, [2, 2])
    await world.until_told("Ready")
    records = world.queues["orders"].records
    assert min(record.epoch for record in records.values()) > max(before)
    for entry in (await world.entries()).values():
        for number, epoch in entry.owned[QueueName("orders")].items():
            assert records[number] == (entry.uid, epoch, False)


@in_virtual_time
async def test_releases_by_an_overwritten_unanswered_write_are_granted_again(world: OneReplica) -> None:
    """What is let go of at one epoch stays let go of."""
    await world.serve("a", "b")
    before = await world.epochs()
    lost = refused = False

    def trouble(verb: str, path: str) -> Fault | None:
        nonlocal lost, refused
        if path != LEDGER or (verb == "get" and not lost):
            return None
        refused = lost
        lost = True
        return Refuse(503, "ServiceUnavailable", "come again") if refused else LoseAnswer()

    async def tried_again() -> bool:
        return refused

    world.trouble = trouble
    world.pod("c")
    await world.until(tried_again, True)
    world.server.request("patch", LEDGER, body={"data": {"group": "mine"}})
    world.trouble = lambda verb, path: None
    await world.until(world.counts, [1, 1, 2])
    await world.until_told("Ready")
    assert all(epoch > before[number] for number, epoch in (await world.epochs()).items())
