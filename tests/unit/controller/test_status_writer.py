"""When a status is written, and to what."""

import asyncio
from random import Random
from typing import Any

import pytest

from baton.controller.status_writer import APART, StatusWriter
from baton.kube.clock import ApiServerClock
from baton.kube.objects import groups_path
from baton.simulation import virtual_time
from tests.simulation.api_server import ApiServer, Fault, MemoryApi, Refuse

ORDERS = groups_path("shop", "orders")
BEFORE = {"state": "Holddown", "holdUntil": "2026-01-01T00:00:00Z"}


class Shop:
    """A namespace with one group and one writer of its status."""

    def __init__(self) -> None:
        self.fault: Fault | None = None
        self.server = ApiServer(Random(1), lambda: 0.0)
        self.server.request("create", "/api/v1/namespaces", body={"metadata": {"name": "shop"}})
        self.make()
        self.server.request("patch", f"{ORDERS}/status", body={"status": BEFORE})
        api, uid = MemoryApi(self.server, lambda verb, path: self.fault), self.group["metadata"]["uid"]
        self.writer = StatusWriter(api, ORDERS, uid, ApiServerClock(), asyncio.create_task)

    def make(self) -> None:
        self.server.request("create", groups_path("shop"), body={"metadata": {"name": "orders"}, "spec": {}})

    @property
    def group(self) -> dict[str, Any]:
        return self.server.request("get", ORDERS)

    async def write(self, **status: str) -> None:
        self.writer.want(status, BEFORE)
        await self.writer.flush()


@pytest.fixture
def shop() -> Shop:
    return Shop()


async def test_a_status_that_reads_so_already_is_not_written(shop: Shop) -> None:
    before = shop.group
    await shop.write(**BEFORE)
    assert shop.group is before


async def test_a_status_is_written_whole_so_that_fields_that_are_gone_are_gone(shop: Shop) -> None:
    await shop.write(state="Ready")
    assert shop.group["status"] == {"state": "Ready"}


async def test_a_status_that_could_not_be_written_is_written_later(shop: Shop) -> None:
    shop.fault = Refuse(503, "", "away")
    await shop.write(state="Ready")
    assert shop.group["status"] == BEFORE
    shop.fault = None
    await shop.writer.flush()
    assert shop.group["status"] == {"state": "Ready"}


async def test_a_status_is_not_written_to_another_group_of_that_name(shop: Shop) -> None:
    asked: list[str] = []
    uid = shop.group["metadata"]["uid"]
    shop.server.request("delete", ORDERS)
    shop.make()
    api = MemoryApi(shop.server, lambda verb, path: asked.append(verb))
    shop.writer = StatusWriter(api, ORDERS, uid, ApiServerClock(), asyncio.create_task)
    await shop.write(state="Ready")
    await shop.writer.flush()
    assert "status" not in shop.group and len(asked) == 1, "it does not try again"


async def test_a_status_at_rest_is_never_written_and_one_that_changes_says_when() -> None:
    shop, now = Shop(), 1_800_000_000.0
    uid = shop.group["metadata"]["uid"]
    clock = ApiServerClock(lambda: now, lambda: 0.0)
    writer = StatusWriter(MemoryApi(shop.server), ORDERS, uid, clock, asyncio.create_task, dated=True)
    writer.want({"state": "Ready"}, BEFORE)
    await writer.flush()
    before = shop.group
    assert before["status"] == {"state": "Ready", "lastChangeTime": "2027-01-15T08:00:00Z"}
    follower = StatusWriter(MemoryApi(shop.server), ORDERS, uid, ApiServerClock(), asyncio.create_task, dated=True)
    for one in (writer, follower):
        one.want({"state": "Ready"}, before["status"])
        await one.flush()
    assert shop.group is before


def test_a_writer_whose_task_died_goes_on_with_the_next_report() -> None:
    async def story() -> None:
        shop = Shop()
        started: list[asyncio.Task[None]] = []

        def start(coroutine: Any) -> asyncio.Task[None]:
            started.append(asyncio.create_task(coroutine))
            return started[-1]

        shop.writer = StatusWriter(MemoryApi(shop.server), ORDERS, shop.group["metadata"]["uid"], ApiServerClock(), start)
        shop.writer.want({"state": "Ready"}, BEFORE)
        started[0].cancel()
        await asyncio.sleep(2 * APART)
        assert shop.group["status"] == BEFORE
        shop.writer.want({"state": "Ready"}, BEFORE)
        await asyncio.sleep(2 * APART)
        assert shop.group["status"] == {"state": "Ready"}
        shop.writer.close()

    virtual_time.run(story())


def test_a_burst_of_changes_is_one_write() -> None:
    async def story() -> None:
        shop = Shop()
        before = int(shop.group["metadata"]["resourceVersion"])
        for number in range(10):
            shop.writer.want({"state": f"{number}"}, BEFORE)
            await asyncio.sleep(APART / 20)
        await asyncio.sleep(2 * APART)
        assert shop.group["status"] == {"state": "9"}
        assert int(shop.group["metadata"]["resourceVersion"]) == before + 1
        shop.writer.close()

    virtual_time.run(story())


def test_a_status_that_waits_for_its_turn_is_written_as_it_is_by_then() -> None:
    async def story() -> None:
        shop = Shop()
        api = MemoryApi(shop.server)
        shop.writer = StatusWriter(api, ORDERS, shop.group["metadata"]["uid"], ApiServerClock(), asyncio.create_task)
        before = int(shop.group["metadata"]["resourceVersion"])
        api.turns.may_begin = lambda: False
        shop.writer.want({"state": "Rebalancing"}, BEFORE)
        await asyncio.sleep(2 * APART)
        shop.writer.want({"state": "Ready"}, BEFORE)
        api.turns.may_begin = lambda: True
        api.turns.go_on()
        await asyncio.sleep(2 * APART)
        assert shop.group["status"] == {"state": "Ready"}
        assert int(shop.group["metadata"]["resourceVersion"]) == before + 1
        shop.writer.close()

    virtual_time.run(story())
