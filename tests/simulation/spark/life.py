"""The life of one fleet, from its seed."""

import random

from tests.simulation.spark.driver import uid
from tests.simulation.spark.promises import BrokenPromiseError
from tests.simulation.spark.world import Shape, Step, World

LONGEST_CALM = 3000
"""Steps after the last fault within which everything must be done."""


def shape_of(rng: random.Random) -> Shape:
    """A world of random size, with random faults."""
    shape = Shape(
        partitions=rng.choice([1, 1, 2]),
        executors=rng.choice([1, 2, 3]),
        entries=rng.choice([3, 6, 10]),
        most=rng.choice([1, 2, 3, 5]),
        evaluations=rng.choice([1, 1, 2]),
        drivers=rng.choice([1, 1, 2]),
        deaths=rng.choice([0, 1, 3]),
        lost=rng.choice([0, 1, 3]),
        grants=rng.choice([0, 1, 4]),
        failovers=rng.choice([0, 0, 0, 1, 2]),
        seals=rng.choice([0, 0, 1, 2]),
    )
    rng.choice(range(5))  # so that each seed lives as it did when pods read singly, too
    return shape


def live(seed: int, shape: Shape | None = None, trace: list[Step] | None = None) -> str | None:
    """Describe the violated promise; None if all hold."""
    rng = random.Random(seed)
    shape = shape_of(rng) if shape is None else shape
    trace = [] if trace is None else trace
    world = World(shape, rng, available=rng.random() < 0.2, unanswered=rng.choice([0, 0, 3]), trace=trace)
    try:
        for _ in range(rng.choice([50, 150, 400])):
            world.one_step()
        _calm(world)
    except BrokenPromiseError as broken:
        return str(broken)
    return None


def _calm(world: World) -> None:
    """Run without faults, with one driver, until everything is read, within a bound."""
    shape = world.shape
    shape.deaths = shape.lost = shape.failovers = shape.seals = shape.grants = 0
    shape.drivers, world.available, world.unanswered, world.eager = 1, False, 0, 1
    world.trace.append(("calm",))
    for count in range(LONGEST_CALM):
        here = {uid(executor) for executor in world.executors}
        for number, one in world.partitions.items():
            if number not in world.moves and (one.paused or one.uid not in here):
                one.grant(uid(min(world.executors)), one.epoch + 1)
        world.one_step()
        idle = not (world.tasks or shape.entries or world.staged)
        if count % 50 == 0 and idle and world.promises.added - world.promises.lost <= world.promises.done():
            break
    world.promises.all_is_done(world.staged)
