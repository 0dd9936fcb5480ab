"""When a status is written, and to what."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from baton.controller.status_writer import APART, StatusWriter
from baton.kube.clock import ApiServerClock
from baton.kube.objects import groups_path
from baton.simulation import virtual_time
from tests.simulation.api_server import ApiServer, Fault, MemoryApi, Refuse
from tests.unit.kube.virtual_tests import told_by

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
        self.api = MemoryApi(self.server, lambda verb, path: self.fault)
        self.writer = self.new_writer()

    def make(self) -> None:
        self.server.request("create", groups_path("shop"), body={"metadata": {"name": "orders"}, "spec": {}})

    def new_writer(self, clock: ApiServerClock | None = None, start: Any = asyncio.create_task, **how: Any) -> StatusWriter:
        return StatusWriter(self.api, ORDERS, self.group["metadata"]["uid"], clock or ApiServerClock(), start, **how)

    @property
    def version(self) -> int:
        return int(self.group["metadata"]["resourceVersion"])

    @property
    def group(self) -> dict[str, Any]:
        return self.server.request("get", ORDERS)

    async def write(self, **status: str) -> None:
        self.writer.want(status, BEFORE)
        await self.writer.flush()


@pytest.fixture
def shop() -> Shop:
    return Shop()


async def test_a_status_is_replaced_as_a_whole(shop: Shop) -> None:
    await shop.write(state="Ready")
    assert shop.group["status"] == {"state": "Ready"}


async def test_a_failed_write_is_repeated(shop: Shop) -> None:
    shop.fault = Refuse(503, "", "away")
    await shop.write(state="Ready")
    assert shop.group["status"] == BEFORE
    shop.fault = None
    await shop.writer.flush()
    assert shop.group["status"] == {"state": "Ready"}


async def test_no_status_is_written_to_another_group_of_that_name(shop: Shop) -> None:
    asked: list[str] = []
    shop.api = MemoryApi(shop.server, lambda verb, path: asked.append(verb))
    shop.writer = shop.new_writer()
    shop.server.request("delete", ORDERS)
    shop.make()
    await shop.write(state="Ready")
    await shop.writer.flush()
    assert "status" not in shop.group and len(asked) == 1, "it does not try again"


async def test_a_status_is_written_only_when_it_changes_and_has_the_time_of_that(shop: Shop) -> None:
    writer = shop.new_writer(ApiServerClock(lambda: 1_800_000_000.0, lambda: 0.0), dated=True)
    writer.want({"state": "Ready"}, BEFORE)
    await writer.flush()
    before = shop.group
    assert before["status"] == {"state": "Ready", "lastChangeTime": "2027-01-15T08:00:00Z"}
    for one in (writer, shop.new_writer(dated=True)):
        one.want({"state": "Ready"}, before["status"])
        await one.flush()
    assert shop.group is before


@told_by
def played(story: Callable[[Shop], Awaitable[None]]) -> None:
    async def main() -> None:
        shop = Shop()
        await story(shop)
        shop.writer.close()

    virtual_time.run(main())


@played
async def test_a_writer_whose_task_died_continues_with_the_next_report(shop: Shop) -> None:
    started: list[asyncio.Task[None]] = []

    def start(coroutine: Any) -> asyncio.Task[None]:
        started.append(asyncio.create_task(coroutine))
        return started[-1]

    shop.writer = shop.new_writer(start=start)
    shop.writer.want({"state": "Ready"}, BEFORE)
    started[0].cancel()
    await asyncio.sleep(2 * APART)
    assert shop.group["status"] == BEFORE
    shop.writer.want({"state": "Ready"}, BEFORE)
    await asyncio.sleep(2 * APART)
    assert shop.group["status"] == {"state": "Ready"}


@played
async def test_a_burst_of_changes_is_one_write(shop: Shop) -> None:
    before = shop.version
    for number in range(10):
        shop.writer.want({"state": f"{number}"}, BEFORE)
        await asyncio.sleep(APART / 20)
    await asyncio.sleep(2 * APART)
    assert (shop.group["status"], shop.version) == ({"state": "9"}, before + 1)


@played
async def test_a_status_that_waits_for_its_turn_is_written_as_of_then(shop: Shop) -> None:
    before, turns = shop.version, shop.api.turns
    turns.may_begin = lambda: False
    shop.writer.want({"state": "Rebalancing"}, BEFORE)
    await asyncio.sleep(2 * APART)
    shop.writer.want({"state": "Ready"}, BEFORE)
    turns.may_begin = lambda: True
    turns.go_on()
    await asyncio.sleep(2 * APART)
    assert (shop.group["status"], shop.version) == ({"state": "Ready"}, before + 1)
