"""A thousand groups with ten thousand pods, and a large group beside them: no group waits half a second for another."""

import asyncio
from collections.abc import Callable, Iterable

import pytest

from baton.kube.store import WatchedKind
from tests.simulation.crowd import Crowd
from tests.simulation.test_large_groups import LONGEST_TURN, least, timed

GROUPS, NAMESPACES, PODS, PARTITIONS = 1000, 20, 10, 12
LARGE = 100_000


def _namespace(number: int) -> str:
    return f"shop-{number % NAMESPACES}"


def _name(number: int) -> str:
    return f"orders-{number}"


async def _until(counted: Callable[[int], int], of_each: int) -> None:
    """Asked group by group, so that asking is no long turn itself."""
    for number in range(GROUPS):
        await _true(lambda: counted(number) == of_each)  # noqa: B023 - it is over when the number changes
        await asyncio.sleep(0)


async def _true(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - it is the operator that knows
        await asyncio.sleep(0.5)


async def _pods(world: Crowd, namespace: str, group: str, names: Iterable[str]) -> None:
    for name in names:
        world.pods(namespace, group, [name])
        await asyncio.sleep(0)


async def crowd() -> None:
    """The replica starts with all of them, as it does for a new leader; then pods come and go, and a fleet outlives its group."""
    world = Crowd()
    for number in range(GROUPS):
        world.group(_namespace(number), _name(number), PARTITIONS)
        await _pods(world, _namespace(number), _name(number), (f"{_name(number)}-{pod}" for pod in range(PODS)))
    world.group("large", "orders", LARGE)
    await _pods(world, "large", "orders", (f"large-{pod}" for pod in range(50)))
    world.forget_events()
    running = asyncio.create_task(world.replica.run())
    telling = world.tell_all()
    try:
        await _until(lambda number: world.granted(_namespace(number), _name(number)), PARTITIONS)
        await _true(lambda: world.granted("large", "orders") == LARGE)
        await _true(lambda: not telling.is_alive())
        for number in range(0, GROUPS, 10):
            await _pods(world, _namespace(number), _name(number), [f"{_name(number)}-new"])
            world.delete(WatchedKind.PODS, _namespace(number), f"{_name(number)}-0")
        await _pods(world, "shop-0", "nobody", (f"nobody-{pod}" for pod in range(5000)))
        await _until(lambda number: world.members(_namespace(number), _name(number)), PODS)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_thousand_groups_with_ten_thousand_pods_do_not_stop_the_event_loop() -> None:
    assert least(LONGEST_TURN, lambda: timed(crowd)[1]) < LONGEST_TURN
