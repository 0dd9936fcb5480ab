"""The queue of a world as one of its drivers asks it."""

from collections.abc import Callable

from tests.simulation.spark.modelled_ranges import ModelledRanges
from tests.simulation.spark.partition import Answer
from tests.simulation.spark.protocol.world import World


class SimulatedRanges(ModelledRanges):
    """Before each question to a partition `between` is called: there anything may happen."""

    def __init__(self, world: World, between: Callable[[], None], pass_time: Callable[[float], None]) -> None:
        super().__init__(world.partitions)
        self._world, self._between, self._pass_time = world, between, pass_time

    def before(self) -> None:
        self._between()

    def answered(self, number: int, query: int, answer: Answer) -> Answer:
        return self._world.promises.answered(number, query, answer)

    def next_query(self) -> int:
        self._world.queries += 1
        return self._world.queries

    def finishing(self, number: int, end: int) -> None:
        committed = max(self._world.promises.committed, default=None)
        self._world.promises.finished(number, end, {} if committed is None else self._world.offsets[committed])

    def pass_time(self, seconds: float) -> None:
        self._pass_time(seconds)
