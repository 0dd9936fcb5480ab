"""A Spark fleet with the product's own decisions in its drivers, and an operator in short."""

import random
from collections.abc import Iterator, Mapping

from baton.model.ids import MemberId
from baton.model.ledger import MemberEntry
from tests.simulation.spark.partition import Partition
from tests.simulation.spark.protocol.driver import Driver
from tests.simulation.spark.protocol.promises import BrokenPromiseError, Row
from tests.simulation.spark.protocol.shape import Shape
from tests.simulation.spark.protocol.task import uid
from tests.simulation.spark.protocol.world import Step, World
from tests.simulation.spark.source.driver import SourceDriver, entry

TROUBLE = frozenset({"die", "lose", "revoke", "hand_off", "fail_over", "seal"})
DEADLINE = 0.1
"""How much rarer a hand-off is that its giver has not agreed to."""


class Fleet(World):
    """Time is virtual, in seconds."""

    def __init__(self, shape: Shape, rng: random.Random, *, available: bool, unanswered: int, trace: list[Step]) -> None:
        super().__init__(shape)
        self.rng, self.available, self.unanswered, self.trace = rng, available, unanswered, trace
        self.now = 0.0
        self.repeat_wait = rng.choice([0.0, 5.0])
        self.eager = rng.choice([0.5, 1.0, 3.0])
        self.moves: dict[int, str] = {}
        """Partitions that change hands, and to whom."""
        self.released: set[tuple[int, int]] = set()
        self.depth = 0

    def _driver(self, number: int) -> Driver:
        return SourceDriver(number, world=self)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    # -- the operator: the ledger first, then the queue

    def entries(self) -> Mapping[MemberId, MemberEntry]:
        """The ledger."""
        owners: dict[str, tuple[dict[int, int], dict[int, int]]] = {}
        for number, one in self.partitions.items():
            owned, revoking = owners.setdefault(f"e{one.uid[1:]}", ({}, {}))
            (revoking if number in self.moves else owned)[number] = one.epoch
        made = [entry(executor, *grants, generation=1) for executor, grants in owners.items()]
        return {one.member: one for one in made}

    def _moves(self, number: int, one: Partition) -> Iterator[Step]:
        if number not in self.moves:
            yield from (("revoke", number, executor) for executor in sorted(self.executors) if one.uid != uid(executor))

    def _around(self) -> Iterator[Step]:
        yield from super()._around()
        for number in self.moves:
            yield ("hand_off", number)

    def _revoke(self, number: int, executor: str) -> None:
        self.shape.grants -= 1
        self.moves[number] = executor
        self.partitions[number].pause(self.partitions[number].epoch)

    def _hand_off(self, number: int) -> None:
        executor = self.moves.pop(number)
        self.partitions[number].grant(uid(executor), self.partitions[number].epoch + 1)

    def weight(self, step: Step) -> float:
        """How likely it is, beside a driver's next step."""
        if step[0] == "hand_off":
            number = int(step[1])
            agreed = (number, self.partitions[number].epoch) in self.released
            return self.eager * (1 if agreed else DEADLINE) * 0.5
        if step[0] in TROUBLE:
            return 0.1 * self.eager
        if step[0] == "add":
            return 0.15
        if step[0] == "drive" and step[2] in ("miss", "see"):
            return 0.3
        of_the_past = step[0] == "page" and isinstance(step[1], int) and self.tasks[step[1]].given_up
        return 0.3 if of_the_past else 1

    # -- what happens

    def one_step(self) -> None:
        steps = list(self.steps())
        if not steps:
            return
        (step,) = self.rng.choices(steps, [self.weight(step) for step in steps])
        self.trace.append(step)
        self.now += 0.01
        self.do(step)

    def meanwhile(self) -> None:
        """While somebody waits for a queue's answer."""
        if self.depth > 2:
            return
        self.depth += 1
        try:
            while self.rng.random() < 0.2:
                self.one_step()
        finally:
            self.depth -= 1

    # -- what was promised

    def failed_with(self, driver: SourceDriver, error: str) -> None:
        """A query ends with an error of the source's: only because a later one reads, or has read."""
        others = any(one.query < self.queries for one in self.partitions.values()) or self.started > 1 or driver.number > 0
        if "a later query" not in error or not others:
            raise BrokenPromiseError(f"the query ends: {error}")

    def ended(self, to_read: frozenset[Row]) -> None:
        """A query that was to read what is there says that it has."""
        missing = to_read - self.promises.done() - self.promises.lost
        if missing:
            raise BrokenPromiseError(f"a query that was to read what is there ends without {sorted(missing)}")
