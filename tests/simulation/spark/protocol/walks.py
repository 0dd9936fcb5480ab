"""Walks through worlds: small ones in every order, larger ones at random."""

import random
from collections import deque

from tests.simulation.spark.protocol.promises import BrokenPromiseError
from tests.simulation.spark.protocol.shape import Shape
from tests.simulation.spark.protocol.world import Step, World

TROUBLE = frozenset({"die", "lose", "grant", "pause", "fail_over", "seal", "single", "acknowledge"})
LONGEST_CALM = 4000
"""Steps after the last trouble, within which all has to be done."""


def shape_of(rng: random.Random) -> Shape:
    """A world of a random size, with some troubles."""
    return Shape(
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
        singles=rng.choice([0, 0, 0, 0, 2]),
    )


def at_random(seed: int, shape: Shape | None = None, trace: list[Step] | None = None) -> str | None:
    """What is wrong with the life of this seed; None: nothing."""
    rng = random.Random(seed)
    shape = shape_of(rng) if shape is None else shape
    singly = shape.singles > 0
    world, eager, trace = World(shape), rng.choice([0.5, 1, 3]), [] if trace is None else trace
    try:
        for _ in range(rng.choice([50, 150, 400])):
            steps = list(world.steps())
            weights = [_weight(world, step, eager) for step in steps]
            (step,) = rng.choices(steps, weights)
            trace.append(step)
            world.do(step)
        if not singly:  # else it is for people to say what becomes of the query
            calm(world, rng, trace)
    except BrokenPromiseError as broken_promise:
        return str(broken_promise)
    return None


def _weight(world: World, step: Step, eager: float) -> float:
    """How likely it is, beside a driver's next step: entries come slowly, and zombies wake late."""
    if step[0] in TROUBLE:
        return 0.1 * eager
    if step[0] == "add":
        return 0.15
    of_the_past = step[0] == "page" and isinstance(step[1], int) and world.tasks[step[1]].given_up
    return 0.3 if of_the_past else 1


def calm(world: World, rng: random.Random, trace: list[Step]) -> None:
    """No more trouble, and one driver: everything is read within a bound."""
    shape = world.shape
    shape.deaths = shape.lost = shape.failovers = shape.seals = shape.singles = shape.grants = 0
    shape.drivers = 1
    trace.append(("calm",))
    for count in range(LONGEST_CALM):
        for one in world.partitions.values():
            if one.paused or one.uid not in {f"u{executor[1:]}" for executor in world.executors}:
                one.grant(f"u{min(world.executors)[1:]}", one.epoch + 1)
        step = rng.choice([step for step in world.steps() if step[0] not in TROUBLE])
        trace.append(step)
        world.do(step)
        idle = not (world.tasks or shape.entries or world.staged)
        if count % 50 == 0 and idle and world.promises.added - world.promises.lost <= world.promises.done():
            break
    world.promises.all_is_done(world.staged)


def in_every_order(shape: Shape, most: int) -> tuple[int, str | None, list[Step]]:
    """How many worlds there are, up to so many; what is wrong with one, and the shortest way there."""
    first = World(shape)
    known = {hash(first.key())}
    waiting: deque[tuple[World, tuple[Step, ...]]] = deque([(first, ())])
    while waiting and len(known) < most:
        world, way = waiting.popleft()
        for step in list(world.steps()):
            then = world.copy()
            try:
                then.do(step)
            except BrokenPromiseError as broken:
                return len(known), str(broken), [*way, step]
            if (key := hash(then.key())) not in known:
                known.add(key)
                waiting.append((then, (*way, step)))
    return len(known), None, []
