"""When a replica says that it hangs, so that it is started again, and when it does not."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from baton.controller.operator_replica import LOOK_EVERY, LOOKS, STUCK_AFTER
from baton.kube.api import AT_ONCE
from baton.kube.clock import ApiServerClock
from baton.kube.elector import Terms
from baton.kube.objects import groups_path
from tests.simulation.api_server import Hang, Refuse
from tests.simulation.one_replica import OneReplica, in_virtual_time
from tests.simulation.replicas import Lone, played


@played
async def test_a_replica_that_works_or_waits_is_not_stuck(lone: Lone) -> None:
    lone.group("shop", "a")
    await asyncio.sleep(10)
    lone.fails = lambda verb, path: Refuse(503, "ServiceUnavailable", "away")
    for _ in range(30):
        await asyncio.sleep(10)
        assert lone.replica.stuck() is None


@pytest.mark.parametrize(
    ("task", "message"), [("elector", "renew the leader Lease"), ("fleet", "groups were not looked through")]
)
@in_virtual_time
async def test_a_replica_whose_rounds_do_not_end_is_stuck(world: OneReplica, task: str, message: str) -> None:
    await asyncio.sleep(5)
    coroutines = {"elector": "Elector.run", "fleet": "OneReplica.start.<locals>.work"}
    (hung,) = [one for one in world.tasks if getattr(one.get_coro(), "__qualname__", None) == coroutines[task]]
    hung.cancel()
    await asyncio.sleep(STUCK_AFTER - 5)
    assert world.replica.stuck() is None
    await asyncio.sleep(10)
    assert message in (world.replica.stuck() or "")


@played
async def test_a_stuck_leader_is_replaced(lone: Lone) -> None:
    await asyncio.sleep(5)
    (hung,) = [one for one in asyncio.all_tasks() if one.get_name() == "fleet"]
    second = lone.start("two", ("shop", "bank"))
    await asyncio.sleep(5)
    hung.cancel()
    lone.group("shop", "a")
    await asyncio.sleep(STUCK_AFTER - 10)
    assert [one.elector.leading for one in (lone.replica, second)] == [True, False]
    assert lone.owned() == {}
    await asyncio.sleep(10 + LOOKS * LOOK_EVERY + Terms().duration)
    assert [one.elector.leading for one in (lone.replica, second)] == [False, True]
    assert [task.done() for task in lone.tasks["one"]] == [False, True], "the replica has ended, and its watch is another's"
    await asyncio.sleep(5)
    assert lone.owned() == {"a": 4}
    await asyncio.sleep(STUCK_AFTER)
    assert second.elector.leading


@played
async def test_a_group_that_waits_for_its_turn_is_not_stuck(lone: Lone) -> None:
    lone.fails = lambda verb, path: Hang() if verb == "patch" and path == groups_path("shop", "orders") else None
    lone.group("shop", "a")
    async with AsyncExitStack() as stack:
        for _ in range(AT_ONCE // 2):
            await stack.enter_async_context(lone.replica.api.turns.take("shop"))
        for _ in range(10):
            await asyncio.sleep(STUCK_AFTER)
            assert lone.replica.stuck() is None
            assert lone.replica.elector.leading
    lone.fails = lambda verb, path: None
    await asyncio.sleep(60)
    assert lone.owned() == {"a": 4}


@played
async def test_a_replica_resumed_after_a_long_stop_is_not_stuck(lone: Lone) -> None:
    await lone.stop()
    stopped = 0.0
    lone.replica = lone.start("one", ("shop",), ApiServerClock(lone.unix, lambda: lone.loop.time() + stopped))
    lone.group("shop", "a")
    await asyncio.sleep(10)
    stopped = 10 * STUCK_AFTER
    assert lone.replica.stuck() is not None
    await asyncio.sleep(60)
    assert lone.replica.elector.leading
    assert not any(task.done() for task in lone.tasks["one"])
