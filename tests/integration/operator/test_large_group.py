"""A group as large as one can be, and the memory that the chart gives the operator."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from baton.engine.ledger import MOST_PARTITIONS
from tests.integration.operator.world import KEEPS, Operator, World
from tests.waiting import eventually

Start = Callable[..., Operator]

CHART = Path(__file__).parents[3] / "charts/baton/values.yaml"
SHARE = 0.8
"""Of the chart's limit. The rest is for other groups. It takes half of it, and more where the machine has little time for it:
what the API server tells waits in memory then."""
PODS = 50
SECONDS = 900


@pytest.mark.timeout(2400)
@pytest.mark.long
async def test_the_largest_possible_group_fits_the_charts_memory(empty: World, start: Start) -> None:
    operator = await start(empty, "one", *KEEPS).leads()
    before = operator.peak_memory
    await empty.queue(
        "large",
        {"type": "External", "external": {"onDeadline": "Force"}},
        MOST_PARTITIONS,
        rebalance={"delaySeconds": 0, "maxHandoffSeconds": 1},
    )
    await empty.group("large", assignors=["contiguous"])
    for number in range(PODS):
        await empty.pod(f"large-{number}", "large")
    await settles(empty, operator, moves=0)
    for number in range(PODS, 2 * PODS):
        await empty.pod(f"large-{number}", "large")
    await settles(empty, operator, moves=MOST_PARTITIONS // 2)
    after = operator.peak_memory
    limit = yaml.safe_load(CHART.read_text())["resources"]["limits"]["memory"]
    assert after < SHARE * int(limit.removesuffix("Mi")), f"{before} MiB without it, {after} MiB with it; the limit is {limit}"


async def settles(world: World, operator: Operator, moves: int) -> None:
    labels = {"namespace": world.namespace, "group": "large"}

    async def so() -> bool:
        done = operator.metric("baton_moves_total", **labels) or 0
        return done >= moves and operator.metric("baton_partitions", **labels, queue="large", state="Ready") == MOST_PARTITIONS

    await eventually(so, "everything is granted, and nothing moves", SECONDS)
