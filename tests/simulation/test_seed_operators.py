"""The operators of the seeds open queues as the real one does, and their tasks are held by something."""

import asyncio
import random

import pytest

from baton.api import PartitionedQueueSpec
from baton.controller.adapters import UnsupportedSource, open_queue
from baton.kube.objects import QueueView
from baton.queues.protocol import Claimant
from tests.simulation.seeds.invariant import InvariantError
from tests.simulation.seeds.operators import Operator
from tests.simulation.seeds.play import lose_no_task
from tests.simulation.seeds.troubles import Troubles
from tests.simulation.seeds.world import World


async def test_neither_speaks_to_kafka() -> None:
    kafka = {"type": "Kafka", "kafka": {"bootstrapServers": "kafka:9092", "topic": "pay"}}
    view = QueueView("shop", "pay", "u", 1, PartitionedQueueSpec.model_validate({"source": kafka}))
    claimant = Claimant("shop/orders", "u")
    operator = Operator(World(0, Troubles(random.Random(0))), "one")
    with pytest.raises(UnsupportedSource):
        await operator._open(view, claimant)
    with pytest.raises(UnsupportedSource):
        await open_queue(None, view, claimant)  # type: ignore[arg-type]


def test_a_task_that_waits_and_that_nothing_holds_is_found() -> None:
    world = World(0, Troubles(random.Random(0)))
    world.loop.create_task(_waits())
    world.run(1.0)
    with pytest.raises(InvariantError, match="Task was destroyed but it is pending"):
        lose_no_task(world)
    world.end()


async def _waits() -> None:
    await asyncio.get_running_loop().create_future()
