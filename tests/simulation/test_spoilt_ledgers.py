"""A ledger that somebody spoilt while no operator was there: it is rebuilt above what the queue has recorded."""

import json

import pytest

from baton.kube.api import core_path
from baton.model.ids import QueueName
from baton.model.names import ledger_name
from tests.simulation.one_replica import OneReplica, lives

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
def test_it_is_rebuilt(name: str) -> None:
    async def story(world: OneReplica) -> None:
        world.queue("orders")
        world.group("orders")
        world.pod("a")
        world.pod("b")
        await world.until(world.counts, [2, 2])
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

    lives(story)
