"""The life of one fleet, from its seed."""

import random

from tests.simulation.spark.protocol.promises import BrokenPromiseError
from tests.simulation.spark.protocol.shape import Shape
from tests.simulation.spark.protocol.task import uid
from tests.simulation.spark.protocol.walks import shape_of
from tests.simulation.spark.protocol.world import Step
from tests.simulation.spark.source.world import Fleet

LONGEST_CALM = 3000
"""Steps after the last trouble, within which all has to be done."""


def live(seed: int, shape: Shape | None = None, trace: list[Step] | None = None) -> str | None:
    """What is wrong with it; None: nothing."""
    rng = random.Random(seed)
    shape = shape_of(rng) if shape is None else shape
    shape.singles = 0
    trace = [] if trace is None else trace
    fleet = Fleet(shape, rng, available=rng.random() < 0.2, unanswered=rng.choice([0, 0, 3]), trace=trace)
    try:
        for _ in range(rng.choice([50, 150, 400])):
            fleet.one_step()
        _calm(fleet)
    except BrokenPromiseError as broken:
        return str(broken)
    return None


def _calm(fleet: Fleet) -> None:
    """No more trouble, and one driver: everything is read within a bound."""
    shape = fleet.shape
    shape.deaths = shape.lost = shape.failovers = shape.seals = shape.grants = 0
    shape.drivers, fleet.available, fleet.unanswered, fleet.eager = 1, False, 0, 1
    fleet.trace.append(("calm",))
    for count in range(LONGEST_CALM):
        here = {uid(executor) for executor in fleet.executors}
        for number, one in fleet.partitions.items():
            if number not in fleet.moves and (one.paused or one.uid not in here):
                one.grant(uid(min(fleet.executors)), one.epoch + 1)
        fleet.one_step()
        idle = not (fleet.tasks or shape.entries or fleet.staged)
        if count % 50 == 0 and idle and fleet.promises.added - fleet.promises.lost <= fleet.promises.done():
            break
    fleet.promises.all_is_done(fleet.staged)
