"""The lists that all groups share."""

import asyncio
from typing import Any

import pytest

from baton.controller.mirror import Mirror
from baton.controller.relists import Relists
from baton.kube.api import Api, Json, UnavailableError
from baton.kube.clock import Clock

POD = {
    "metadata": {"namespace": "shop", "name": "a", "uid": "u-a", "resourceVersion": "3", "labels": {"baton.dev/group": "orders"}},
    "status": {},
}
LEDGER = {"metadata": {"namespace": "shop", "name": "orders-assignments", "resourceVersion": "7"}}


class Lists(Api):
    """An API server that has one pod and one ledger. Lists of ledgers, which come last, wait at the gate while it is shut."""

    def __init__(self) -> None:
        self.pods = [POD]
        self.begun = 0
        self.away = False
        self.gate: asyncio.Future[None] | None = None

    async def _request(self, method: str, path: str, *_: Any, **__: Any) -> Json:
        if self.away:
            raise UnavailableError("away")
        plural = path.rpartition("/")[2]
        if plural == "pods":
            self.begun += 1
        if plural == "configmaps" and self.gate is not None:
            await self.gate
        items = {"pods": self.pods, "configmaps": [LEDGER]}.get(plural, [])
        return {"items": items, "metadata": {"resourceVersion": "9"}}


def relists(api: Api) -> tuple[Relists, Mirror]:
    mirror = Mirror(Clock())
    return Relists(api, mirror, Clock(), ()), mirror


async def turns() -> None:
    """Let everybody go on who can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_what_vanished_while_nobody_looked_is_noticed() -> None:
    api = Lists()
    lists, mirror = relists(api)
    await lists.since(0)
    assert mirror.pods.get("shop", "a") is not None
    api.pods = []
    await lists.since(Clock().ticks())
    assert mirror.pods.get("shop", "a") is None
    assert lists.ledger_version(("shop", "orders")) == "7"
    assert lists.ledger_version(("shop", "returns")) is None


async def test_many_who_ask_at_once_share_one_list() -> None:
    api = Lists()
    lists, _ = relists(api)
    await asyncio.gather(*(lists.since(0) for _ in range(50)))
    assert api.begun == 1
    await lists.since(0)
    assert api.begun == 1


async def test_a_list_that_was_begun_before_is_not_new_enough() -> None:
    api = Lists()
    lists, _ = relists(api)
    api.gate = asyncio.get_running_loop().create_future()
    first = asyncio.create_task(lists.since(0))
    await turns()
    second = asyncio.create_task(lists.since(Clock().ticks()))
    await turns()
    api.gate.set_result(None)
    await asyncio.gather(first, second)
    assert api.begun == 2


@pytest.mark.timeout(20)
async def test_who_asks_in_the_moment_in_which_a_list_ends_waits_for_the_next() -> None:
    api = Lists()
    lists, _ = relists(api)
    gate = api.gate = asyncio.get_running_loop().create_future()
    first = asyncio.create_task(lists.since(0))
    await turns()

    async def ask() -> None:
        await gate  # behind the list, which ends in the same turn of the event loop
        await lists.since(Clock().ticks())

    second = asyncio.create_task(ask())
    await turns()
    gate.set_result(None)
    await asyncio.gather(first, second)
    assert api.begun == 2


async def test_a_list_that_fails_fails_for_all_who_wait_and_the_next_is_tried_anew() -> None:
    api = Lists()
    api.away = True
    lists, _ = relists(api)
    ended = await asyncio.gather(lists.since(0), lists.since(0), return_exceptions=True)
    assert [type(one) for one in ended] == [UnavailableError, UnavailableError]
    api.away = False
    await lists.since(0)
    assert api.begun == 1
