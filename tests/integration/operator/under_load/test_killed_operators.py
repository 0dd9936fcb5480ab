"""The operator is killed right before or after each of its effects, under load: the next one finishes what it had begun."""

import asyncio
import itertools
import signal
from collections.abc import Callable, Iterable

import pytest
from _pytest.mark import ParameterSet

from tests.integration.operator.interrupted import EFFECTS, interrupted
from tests.integration.operator.under_load.conftest import GROUP, PODS, Busy
from tests.integration.operator.world import Operator, World
from tests.mostly_long import mostly_long
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE, eventually

Start = Callable[..., Operator]

IN_REBALANCES = [
    *("ledger-write#1", "ledger-write#2", "ledger-write#3", "pause#1", "pause#2", "grant#1", "grant#3"),
    *("mount-refresh#1", "mark#1", "scale#1", "status-write#2"),
]
AT_THE_BEGINNING = ["finalizer#1", "claim#1", "ensure#1"]
AT_THE_END = ["release#1", "finalizer#1"]
ALWAYS = {("ledger-write#1", "after"), ("grant#1", "after"), ("release#1", "after")}
"""In `make test`. The others take half an hour together."""
MOST_ROUNDS = 10
_leaving = itertools.cycle(PODS)


def each(places: Iterable[str]) -> list[ParameterSet]:
    """Right before and right after each of them."""
    return mostly_long(itertools.product(places, ("before", "after")), always=ALWAYS)


def test_every_effect_is_interrupted_in_some_test() -> None:
    assert {place.partition("#")[0] for place in (*IN_REBALANCES, *AT_THE_BEGINNING, *AT_THE_END)} == set(EFFECTS)


@pytest.mark.parametrize(("place", "when"), each(IN_REBALANCES))
async def test_a_rebalance_begun_by_a_killed_operator_is_finished(busy: Busy, start: Start, when: str, place: str) -> None:
    operator = start(busy.world, program=interrupted(f"KILL:{when}:{place}"))
    await rebalanced_to_death(busy, operator)
    await start(busy.world).leads()
    await busy.world.change("consumergroups", GROUP, {"spec": {"replicas": len(PODS)}})
    for pod in PODS:
        await busy.world.set_ready(pod, True)
    await busy.proven()


async def rebalanced_to_death(busy: Busy, operator: Operator) -> None:
    """Pods come and go, and the group is scaled, until the operator is dead: where it is slow, a pod may be back before anything
    has moved, so that it takes more rounds."""

    async def over_or(members: int) -> bool:
        if operator.process.poll() is not None:
            return True
        moving = (await busy.world.status(GROUP)).get("moving")
        return len(await busy.world.entries(GROUP)) == members and not moving

    for replicas, pod in zip((5, 3) * MOST_ROUNDS, _leaving, strict=False):
        await busy.world.change("consumergroups", GROUP, {"spec": {"replicas": replicas}})
        await busy.world.set_ready(pod, False)
        await eventually(lambda: over_or(len(PODS) - 1), f"{pod} has left")
        await busy.world.set_ready(pod, True)
        await eventually(lambda: over_or(len(PODS)), f"{pod} is back")
        if operator.process.poll() is not None:
            break
    await killed(operator)


async def killed(operator: Operator) -> None:
    """Wait until it is dead by its own hand."""
    code = await asyncio.to_thread(operator.process.wait, PATIENCE)
    assert code == -signal.SIGKILL, operator.log.read_text()


@pytest.mark.parametrize(("place", "when"), each(AT_THE_BEGINNING))
async def test_a_group_whose_first_operator_was_killed_works(
    empty: World, start: Start, redis_server: RedisServer, when: str, place: str
) -> None:
    operator = start(empty, program=interrupted(f"KILL:{when}:{place}"))
    await empty.redis("orders", redis_server.url, partitions=4)
    await empty.group("orders")
    await empty.pod("a", "orders")
    await killed(operator)
    await start(empty).leads()
    await empty.spread("orders", 4)
    await empty.told("orders", "Ready")


@pytest.mark.parametrize(("place", "when"), each(AT_THE_END))
async def test_a_deletion_begun_by_a_killed_operator_is_finished(
    empty: World, start: Start, redis_server: RedisServer, when: str, place: str
) -> None:
    operator = await start(empty).leads()
    await empty.fleet("orders", "a", url=redis_server.url, partitions=4)
    operator.stop()
    await empty.delete("consumergroups", "orders")
    await killed(start(empty, program=interrupted(f"KILL:{when}:{place}")))
    await start(empty).leads()
    await empty.gone("orders")
    assert all(owner.uid is None for owner in (await empty.inherited(redis_server.url, "orders", 4)).values())
