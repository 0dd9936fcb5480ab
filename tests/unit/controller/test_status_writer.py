"""When a status is written, and to what."""

from random import Random
from typing import Any

import pytest

from baton.controller.status_writer import HEARTBEAT, SPREAD, StatusWriter
from baton.kube.clock import ApiServerClock
from baton.kube.objects import groups_path
from baton.model.times import to_seconds, to_text
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
        self.writer = StatusWriter(
            MemoryApi(self.server, lambda verb, path: self.fault), ORDERS, self.group["metadata"]["uid"], ApiServerClock()
        )

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
    shop.server.request("delete", ORDERS)
    shop.make()
    await shop.write(state="Ready")
    assert "status" not in shop.group


class Watched(Shop):
    """With the time of the last look."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_800_000_000.0
        uid = self.group["metadata"]["uid"]
        clock = ApiServerClock(lambda: 1_800_000_000.0, lambda: self.now - 1_800_000_000.0)
        self.writer = StatusWriter(MemoryApi(self.server, lambda verb, path: self.fault), ORDERS, uid, clock, heartbeat=True)

    async def look(self, known: dict[str, Any] | None = None, **status: str) -> None:
        """A round of the group's loop."""
        self.writer.want(status, BEFORE if known is None else known)
        self.writer.looked()
        await self.writer.flush()

    @property
    def version(self) -> str:
        return str(self.group["metadata"]["resourceVersion"])


async def test_a_status_says_when_its_group_was_last_looked_at() -> None:
    shop = Watched()
    await shop.look(state="Ready")
    assert shop.group["status"] == {"state": "Ready", "lastLookTime": "2027-01-15T08:00:00Z"}


async def test_at_rest_that_is_written_every_two_minutes_and_not_more_often() -> None:
    shop = Watched()
    await shop.look(state="Ready")
    written = set()
    for _ in range(300):
        shop.now += 2
        await shop.look(state="Ready")
        written.add(shop.version)
    assert 5 <= len(written) <= 7, "in ten minutes"
    age = shop.now - to_seconds(shop.group["status"]["lastLookTime"])
    assert age <= HEARTBEAT


async def test_who_takes_over_goes_on_from_the_last_look_of_the_one_before() -> None:
    shop = Watched()
    known = {"state": "Ready", "lastLookTime": to_text(shop.now - 30)}
    before = shop.version
    await shop.look(known, state="Ready")
    assert shop.version == before, "a thousand groups are not written at once because another replica leads"
    shop.now += HEARTBEAT
    await shop.look(known, state="Ready")
    assert shop.group["status"]["lastLookTime"] == to_text(shop.now)


@pytest.mark.parametrize("forged", ["2999-01-01T00:00:00Z", "yesterday"])
async def test_a_look_that_somebody_else_wrote_down_holds_nothing_up(forged: str) -> None:
    shop = Watched()
    for _ in range(2):
        await shop.look({"state": "Ready", "lastLookTime": forged}, state="Ready")
        shop.now += HEARTBEAT
    await shop.look(state="Ready")
    assert shop.group["status"]["lastLookTime"] == to_text(shop.now)


async def test_a_look_that_could_not_be_written_is_written_later() -> None:
    shop = Watched()
    await shop.look(state="Ready")
    shop.now += HEARTBEAT
    shop.fault = Refuse(503, "", "away")
    await shop.look(state="Ready")
    shop.fault = None
    await shop.writer.flush()
    assert shop.group["status"]["lastLookTime"] == to_text(shop.now)


def test_groups_that_began_together_do_not_write_together() -> None:
    due = {
        StatusWriter(MemoryApi(Shop().server), ORDERS, f"uid-{n}", ApiServerClock(), heartbeat=True)._every for n in range(100)
    }
    assert len(due) > 50 and max(due) - min(due) > SPREAD / 2 and max(due) <= HEARTBEAT
