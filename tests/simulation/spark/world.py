"""Spark's drivers, tasks and logs around a queue, with the product's own decisions, and an operator in short: everything that
can happen next, one step at a time."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from baton.model.ids import MemberId
from baton.model.ledger import MemberEntry
from tests.simulation.spark.driver import Driver, Offset, Task, entry, uid
from tests.simulation.spark.partition import Partition
from tests.simulation.spark.promises import BrokenPromiseError, Promises, Row

Step = tuple[str | int, ...]
"""What happens, and to which part."""

PAGE = 2
TROUBLE = frozenset({"die", "lose", "revoke", "hand_off", "fail_over", "seal"})
DEADLINE = 0.1
"""Probability of a hand-off without the giver's release, relative to one with it."""


@dataclass(slots=True)
class Shape:
    """How many events of each kind remain; the counts go down as they happen."""

    partitions: int = 1
    executors: int = 2
    entries: int = 3
    most: int = 2
    """Entries per partition in a batch."""
    evaluations: int = 1
    """Evaluations of a batch at the same time."""
    drivers: int = 1
    """Drivers at a time."""
    deaths: int = 0
    """Deaths of drivers. Each driver has a successor."""
    lost: int = 0
    """Executors that Spark gives up, although they may continue."""
    grants: int = 0
    failovers: int = 0
    seals: int = 0
    """Partitions that are replaced by a new one once their entries are done."""


class World:
    """`steps` lists what may happen, and `do` makes it happen. Time is virtual, in seconds."""

    def __init__(self, shape: Shape, rng: random.Random, *, available: bool, unanswered: int, trace: list[Step]) -> None:
        self.shape = replace(shape)
        self.partitions = {number: self._made() for number in range(shape.partitions)}
        self.replicas = {number: one.copy() for number, one in self.partitions.items()}
        self.promises = Promises()
        self.offsets: list[Offset] = []
        """Spark's offset log."""
        self.drivers: list[Driver] = []
        self.started = 0
        self.tasks: list[Task] = []
        self.executors = frozenset(f"e{number}" for number in range(shape.executors))
        self.next_executor = shape.executors
        self.staged: dict[int, int] = {}
        """The partition for which the entries of each partition wait."""
        self.queries = 0
        self.rng, self.available, self.unanswered, self.trace = rng, available, unanswered, trace
        self.now = 0.0
        self.repeat_wait = rng.choice([0.0, 5.0])
        self.eager = rng.choice([0.5, 1.0, 3.0])
        self.moves: dict[int, str] = {}
        """Partitions being handed off, and their receivers."""
        self.released: set[tuple[int, int]] = set()
        self.depth = 0

    def _made(self) -> Partition:
        return Partition(uid="u0", epoch=1)

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

    # -- what may happen

    def steps(self) -> Iterator[Step]:
        yield from self._around()
        for driver in self.drivers:
            for what in () if driver.busy else driver.steps(sorted(self.executors)):
                yield ("drive", driver.number, *what)
            if self.shape.deaths:
                yield ("die", driver.number)
        for place in range(len(self.tasks)):
            yield ("page", place)

    def _around(self) -> Iterator[Step]:
        shape = self.shape
        if len(self.drivers) < shape.drivers:
            yield ("start",)
        if shape.lost and self.drivers:
            yield from (("lose", executor) for executor in sorted(self.executors))
        if shape.failovers:
            yield from (("sync",), ("fail_over",))
        for number, one in self.partitions.items():
            unstaged = number not in self.staged and number not in self.staged.values()
            if shape.entries and unstaged:
                yield ("add", number)
            if shape.grants and number not in self.moves:
                yield from (("revoke", number, executor) for executor in sorted(self.executors) if one.uid != uid(executor))
            if shape.seals and unstaged:
                yield ("seal", number)
        yield from (("drained", new) for new, former in self.staged.items() if self.partitions[former].drained())
        yield from (("hand_off", number) for number in self.moves)

    def weight(self, step: Step) -> float:
        """Its probability relative to a driver's next step."""
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

    # -- it happens

    def one_step(self) -> None:
        steps = list(self.steps())
        if not steps:
            return
        (step,) = self.rng.choices(steps, [self.weight(step) for step in steps])
        self.trace.append(step)
        self.now += 0.01
        self.do(step)

    def meanwhile(self) -> None:
        """Called while a thread waits for a queue's answer."""
        if self.depth > 2:
            return
        self.depth += 1
        try:
            while self.rng.random() < 0.2:
                self.one_step()
        finally:
            self.depth -= 1

    def do(self, step: Step) -> None:
        getattr(self, f"_{step[0]}")(*step[1:])
        self.promises.nothing_is_gone(self.partitions)

    def _add(self, number: int) -> None:
        self.shape.entries -= 1
        self.promises.added.add((number, self.partitions[number].add()))

    def _start(self) -> None:
        self.drivers.append(Driver(self, self.started))
        self.started += 1

    def _drive(self, number: int, what: str, *arguments: object) -> None:
        driver = next(one for one in self.drivers if one.number == number)
        driver.do(what, *arguments)
        if driver.over and driver in self.drivers:
            self.end(driver)

    def _die(self, number: int) -> None:
        self.shape.deaths -= 1
        self.end(next(one for one in self.drivers if one.number == number))

    def end(self, driver: Driver) -> None:
        driver.over = True
        self.drivers.remove(driver)
        for task in self.tasks:
            task.given_up |= task.driver == driver.number

    def _lose(self, executor: str) -> None:
        """Spark replaces the executor."""
        self.shape.lost -= 1
        self.executors = self.executors - {executor} | {f"e{self.next_executor}"}
        self.next_executor += 1
        for task in self.tasks:
            if task.executor == executor and not task.given_up:
                task.given_up = True
                for driver in self.drivers:
                    if driver.number == task.driver and driver.running.get(task.slot) == task.attempt:
                        driver.running[task.slot] = 0

    def _revoke(self, number: int, executor: str) -> None:
        self.shape.grants -= 1
        self.moves[number] = executor
        self.partitions[number].pause(self.partitions[number].epoch)

    def _hand_off(self, number: int) -> None:
        executor = self.moves.pop(number)
        self.partitions[number].grant(uid(executor), self.partitions[number].epoch + 1)

    def _sync(self) -> None:
        self.replicas = {number: one.copy() for number, one in self.partitions.items()}

    def _fail_over(self) -> None:
        """The replica takes over. What was written since the last `sync` is lost, but for grants: the operator waits for the
        replica to have them."""
        self.shape.failovers -= 1
        for number, one in self.partitions.items():
            kept = self.replicas.get(number, self._made())
            self.promises.lost |= {(number, entry) for entry in set(one.entries) - set(kept.entries)}
            self.partitions[number] = replace(kept, loans=dict(kept.loans), history=one.history + 1, uid=one.uid, epoch=one.epoch)
        self._sync()
        self.promises.queries, self.promises.attempts = {}, {}

    def _seal(self, number: int) -> None:
        self.shape.seals -= 1
        new = len(self.partitions)
        self.partitions[new], self.staged[new] = self._made(), number

    def _drained(self, new: int) -> None:
        del self.staged[new]

    def _page(self, place: int) -> None:
        """A task asks whether it may read, and reads, in one transaction."""
        task = self.tasks[place]
        evaluation, number, _ = task.slot
        one = self.partitions[number]
        asked = (task.uid, task.epoch, task.start, task.end, evaluation, task.attempt, task.executor)
        answer = self.promises.answered(number, task.query, one.reading(task.query, *asked))
        driver = next((d for d in self.drivers if d.number == task.driver and d.running.get(task.slot) == task.attempt), None)
        if answer[0] != "OK":
            del self.tasks[place]
            if driver and not task.given_up:
                driver.failed(task.slot)
                if driver.over:
                    self.end(driver)
            return
        self.promises.let_in(number, task.query, f"{task.slot}", task.attempt)
        page = one.page(task.cursor, task.end, PAGE)
        task.rows += tuple(page)
        task.cursor = page[-1] if page else task.end
        if len(page) == PAGE and task.cursor != task.end:
            return
        del self.tasks[place]
        self.promises.whole(task.batch, number, task.rows)
        if driver and not task.given_up:
            del driver.running[task.slot]
            driver.rows[task.slot] = task.rows

    # -- what was promised

    def failed_with(self, driver: Driver, error: str) -> None:
        """A query ends with an error of the source. It must be that a later query reads, or has read."""
        others = any(one.query < self.queries for one in self.partitions.values()) or self.started > 1 or driver.number > 0
        if "a later query" not in error or not others:
            raise BrokenPromiseError(f"the query ends: {error}")

    def ended(self, to_read: frozenset[Row]) -> None:
        """A query with the trigger AvailableNow reports its end."""
        missing = to_read - self.promises.done() - self.promises.lost
        if missing:
            raise BrokenPromiseError(f"a query that was to read what is there ends without {sorted(missing)}")
