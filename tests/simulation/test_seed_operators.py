"""What the seeds do with tasks that wait for ever."""

import asyncio
import random

import pytest

from tests.simulation.seeds.environment import Environment
from tests.simulation.seeds.invariant import InvariantError
from tests.simulation.seeds.play import lose_no_task
from tests.simulation.seeds.troubles import Troubles


def test_a_task_that_waits_and_that_nothing_holds_is_found() -> None:
    environment = Environment(0, Troubles(random.Random(0)))
    environment.loop.create_task(_waits())
    environment.run(1.0)
    with pytest.raises(InvariantError, match="Task was destroyed but it is pending"):
        lose_no_task(environment)
    environment.end()


async def _waits() -> None:
    await asyncio.get_running_loop().create_future()
