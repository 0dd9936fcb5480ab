"""The operators of the seeds open queues as the real one does."""

import random

import pytest
from tests.simulation.seeds.operators import Operator
from tests.simulation.seeds.troubles import Troubles
from tests.simulation.seeds.world import World

from baton.controller.adapters import UnsupportedSource, open_queue
from baton.kube.objects import QueueView
from baton.queues.protocol import Claimant
from baton.resources import PartitionedQueueSpec


async def test_neither_speaks_to_kafka() -> None:
    kafka = {"type": "Kafka", "kafka": {"bootstrapServers": "kafka:9092", "topic": "pay"}}
    view = QueueView("shop", "pay", "u", 1, PartitionedQueueSpec.model_validate({"source": kafka}))
    claimant = Claimant("shop/orders", "u")
    operator = Operator(World(0, Troubles(random.Random(0))), "one")
    with pytest.raises(UnsupportedSource):
        await operator._open(view, claimant)
    with pytest.raises(UnsupportedSource):
        await open_queue(None, view, claimant)  # type: ignore[arg-type]
