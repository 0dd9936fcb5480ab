"""When a replica says that it hangs, so that it is started again, and when it does not."""

import asyncio
from typing import Any

import pytest
from tests.simulation.api_server import MemoryApi, Refuse
from tests.simulation.one_replica import OneReplica, lives
from tests.simulation.replicas import Lone, played

from baton.controller.replica import STUCK_AFTER
from baton.kube.objects import groups_path


def test_a_replica_that_works_or_waits_does_not_hang() -> None:
    async def story(lone: Lone) -> None:
        await lone.group("shop", "a")
        await asyncio.sleep(10)
        lone.fails = lambda verb, path: Refuse(503, "ServiceUnavailable", "away")
        for _ in range(30):
            await asyncio.sleep(10)
            assert lone.replica.stuck() is None

    played(story)


@pytest.mark.parametrize(
    ("task", "message"), [("elector", "renew the leader Lease"), ("fleet", "groups were not looked through")]
)
def test_a_replica_whose_rounds_do_not_end_says_so(task: str, message: str) -> None:
    async def story(world: OneReplica) -> None:
        await asyncio.sleep(5)
        coroutines = {"elector": "Elector.run", "fleet": "OneReplica.start.<locals>.work"}
        (hung,) = [one for one in world.tasks if one.get_coro().__qualname__ == coroutines[task]]
        hung.cancel()
        await asyncio.sleep(STUCK_AFTER - 5)
        assert world.replica.stuck() is None
        await asyncio.sleep(10)
        assert message in (world.replica.stuck() or "")

    lives(story)


class _Deaf(MemoryApi):
    """Patches of groups never come to an end."""

    async def merge(self, path: str, patch: dict[str, Any]) -> dict[str, Any]:
        if path == groups_path("shop", "orders"):
            await asyncio.Event().wait()
        return await super().merge(path, patch)


def test_a_group_whose_round_does_not_end_is_named() -> None:
    async def story(lone: Lone) -> None:
        await lone.stop()
        lone.replica = lone.start("one", ("shop",), kind=_Deaf)
        await lone.group("shop", "a")
        await asyncio.sleep(STUCK_AFTER - 10)
        assert lone.replica.stuck() is None
        await asyncio.sleep(30)
        assert "the loop of shop/orders has hung" in (lone.replica.stuck() or "")

    played(story)
