"""The cost of groups without members: many of them may name one large queue. The operator's own loop, in real time."""

import gc
import tracemalloc

from baton.kube.objects import groups_path
from tests.simulation.test_large_groups import LONGEST_TURN, Large, least, timed

PARTITIONS = 100_000
EACH = 500_000
"""Bytes for a group, with all that the API server in memory keeps of it. A byte for each of its partitions is a fifth of that."""


async def idle(groups: int) -> None:
    """They are all told that there is no member."""
    world = Large(PARTITIONS)
    try:
        for number in range(1, groups):
            world.group(f"orders-{number}", "orders")
        await told(world, groups)
    finally:
        await world.stop()


async def told(world: Large, groups: int) -> None:
    def how_many() -> int:
        found = world.get(groups_path("shop"))["items"]
        return sum((one.get("status") or {}).get("partitions") == PARTITIONS for one in found)

    await world.until(how_many, groups, seconds=200)
    assert world.ready()[0] == "NoMembers"


async def grows() -> None:
    """Twenty groups more, with all that there was meanwhile."""
    world = Large(PARTITIONS)
    try:
        await told(world, 1)
        gc.collect()
        tracemalloc.start()
        for number in range(20):
            world.group(f"orders-{number}", "orders")
        await told(world, 21)
        most = tracemalloc.get_traced_memory()[1]
        assert most < 20 * EACH, f"{most:,} bytes"
    finally:
        tracemalloc.stop()
        await world.stop()


def test_memberless_groups_keep_nothing_per_partition() -> None:
    timed(grows)


def test_the_cost_of_memberless_groups_is_linear() -> None:
    """Four times as many cost about four times as much: sixteen times would be the square."""
    turns: list[float] = []

    def growth() -> float:
        cost, longest = timed(idle, 200)
        turns.append(longest)
        return cost / timed(idle, 50)[0]

    assert least(8, growth) < 8
    assert least(LONGEST_TURN, lambda: turns.pop() if turns else timed(idle, 200)[1]) < LONGEST_TURN
