"""One run of a query: Spark's micro-batches, and the source's decisions in short."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.simulation.spark.partition import Answer
from tests.simulation.spark.protocol.promises import BrokenPromiseError
from tests.simulation.spark.protocol.task import Slot, Task, uid

if TYPE_CHECKING:
    from tests.simulation.spark.protocol.world import World

Offset = dict[int, int]
"""Partition to position."""

MOST_FAILURES = 4
"""Of one task: Spark's default."""


@dataclass(slots=True)
class Driver:
    """Each phase is a question, and most are asked of one partition at a time: anything may happen between two."""

    number: int
    phase: str = "offsets"
    query: int = 0
    batch: int = 0
    start: Offset = field(default_factory=dict)
    end: Offset = field(default_factory=dict)
    again: bool = False
    """The batch that begins is in the offset log already."""
    todo: tuple[int, ...] = ()
    heard: tuple[tuple[int, int], ...] = ()
    """What the listener has to finish: partition and end."""
    running: dict[Slot, int] = field(default_factory=dict)
    """The attempt that counts; 0: none yet."""
    rows: dict[Slot, tuple[int, ...]] = field(default_factory=dict)
    failures: dict[Slot, int] = field(default_factory=dict)
    attempts: int = 0
    over: bool = False
    busy: bool = False
    """It is in the middle of a step, in which others do theirs."""

    def copy(self) -> "Driver":
        return replace(self, running=dict(self.running), rows=dict(self.rows), failures=dict(self.failures))

    def steps(self, executors: Sequence[str]) -> Iterator[tuple[str | int, ...]]:
        if self.heard:
            yield ("hear",)
        waiting = [slot for slot, attempt in self.running.items() if attempt == 0]
        if waiting:
            yield from (("launch", self.running_places()[waiting[0]], executor) for executor in executors)
        if self.phase != "run" or not self.running:
            yield ("go",)

    def running_places(self) -> dict[Slot, int]:
        return {slot: place for place, slot in enumerate(self.running)}

    def do(self, world: "World", what: str, *arguments: object) -> None:
        if what == "go":
            getattr(self, f"_{self.phase}")(world)
        elif what == "hear":
            (number, end), self.heard = self.heard[0], self.heard[1:]
            self._finish(world, number, end)
        else:
            place, executor = arguments
            assert isinstance(place, int)
            assert isinstance(executor, str)
            self._launch(world, list(self.running)[place], executor)

    def _next(self) -> int:
        number, self.todo = self.todo[0], self.todo[1:]
        return number

    def _end_unless(self, fine: bool) -> bool:
        self.over |= not fine
        return fine

    # -- the logs, as MicroBatchExecution reads them when a query starts

    def _offsets(self, world: "World") -> None:
        self.batch = len(world.offsets)
        self.phase = "commits"

    def _commits(self, world: "World") -> None:
        committed = max(world.promises.committed, default=-1)
        if self.batch - 1 != committed:
            if not self._end_unless(self.batch > 0):
                return
            self.batch, self.again = self.batch - 1, True
            self.end = world.offsets[self.batch]
        self.start = world.offsets[self.batch - 1] if self.batch else {}
        self.phase = "number"

    # -- the first question to the source

    def _number(self, world: "World") -> None:
        """Above all before, also those that a failover has lost: a real one is the time."""
        world.queries = self.query = world.queries + 1
        self.phase, self.todo = "fence", tuple(world.partitions)

    def _fence(self, world: "World") -> None:
        if self.todo:
            number = self._next()
            answer = world.promises.answered(number, self.query, world.partitions[number].fence(self.query))
            self._end_unless(answer[0] == "OK")
            return
        self.phase, self.todo = "settle", tuple(self.start)

    def _settle(self, world: "World") -> None:
        """Everything up to the start of a batch is in the commit log. The one who put it there may not have told the queue; or a
        failover has lost that."""
        if self.todo and "what was committed is finished once more" not in world.shape.broken:
            number = self._next()
            self._finish(world, number, self.start[number])
            return
        if self.again:
            self._begin_to_log()
        else:
            self.phase, self.todo, self.end = "enter", tuple(world.partitions), {}

    def _finish(self, world: "World", number: int, end: int) -> None:
        world.promises.finished(number, end, world.offsets[max(world.promises.committed)])
        answer = world.promises.answered(number, self.query, world.partitions[number].finish(self.query, end))
        self._end_unless(answer[0] != "QUERY")

    # -- latestOffset

    def _enter(self, world: "World") -> None:
        """A partition that the offset does not have has no rows in the batch that names it first."""
        if self.todo:
            number = self._next()
            if number in self.start:
                self.end = {**self.end, number: self.start[number]}
            else:
                self.end = {**self.end, number: int(world.partitions[number].bounds()[1])}
            return
        self.phase, self.todo = "ahead", tuple(self.start)

    def _ahead(self, world: "World") -> None:
        if self.todo:
            number = self._next()
            one = world.partitions[number]
            if one.uid not in {f"u{executor[1:]}" for executor in world.executors}:
                return
            start = self.end[number]
            answer = one.ahead(self.query, one.uid, one.epoch, start, world.shape.most)
            world.promises.answered(number, self.query, answer)
            self._end_unless(answer[0] not in ("QUERY", "GONE"))
            if answer[0] == "OK":
                self.end = {**self.end, number: int(answer[1])}
            return
        if self.end == self.start:
            self.phase, self.todo = "settle", tuple(self.start)
        else:
            self.phase = "write"

    def _write(self, world: "World") -> None:
        """The offset log takes a batch once."""
        if self._end_unless(len(world.offsets) == self.batch):
            world.offsets.append(self.end)
            self._begin_to_log()

    # -- planInputPartitions

    def _begin_to_log(self) -> None:
        self.phase, self.todo = "log", tuple(self.end)

    def _log(self, world: "World") -> None:
        if self.todo:
            number = self._next()
            if self.start.get(number, self.end[number]) >= self.end[number]:
                return
            answer = world.partitions[number].log(self.query, self.start[number], self.end[number])
            world.promises.answered(number, self.query, answer)
            self._end_unless(answer[0] != "QUERY")
            if answer[0] == "GONE":
                self._gone(world, number, answer)
            return
        self.phase = "run"
        for number, end in self.end.items():
            for nth in range(world.shape.evaluations if self.start.get(number, end) < end else 0):
                alike = "tasks of a stage are told apart" in world.shape.broken
                self.running[f"0.{0 if alike else nth}", number, nth] = 0

    def _gone(self, world: "World", number: int, answer: Answer) -> None:
        """What a failover has lost is gone, and nothing else: the query goes on with what is there (failOnDataLoss=false)."""
        if self.batch in world.promises.committed:  # another driver has had it done meanwhile
            self.over = True
        elif not world.excused:
            start, end = self.start[number], self.end[number]
            raise BrokenPromiseError(f"batch {self.batch}: partition {number} from {start} to {end} is said to be gone: {answer}")
        elif not world.promises.lost:
            self.over = True
        else:
            _, first, last = answer
            start, end = max(self.start[number], int(first) - 1), int(last)
            self.start = {**self.start, number: start if start < end else self.end[number]}
            self.end = {**self.end, number: end if start < end else self.end[number]}
            self.todo = (number, *self.todo)

    # -- the tasks

    def _launch(self, world: "World", slot: Slot, executor: str) -> None:
        number = slot[1]
        one = world.partitions[number]
        self.attempts += 1
        self.running[slot] = self.attempts
        owner = (one.uid, one.epoch) if one.uid == uid(executor) else ("", 0)
        start, end = self.start[number], self.end[number]
        world.tasks.append(Task(self.number, self.query, self.batch, slot, start, end, *owner, self.attempts, executor, start))

    def failed(self, world: "World", slot: Slot) -> None:
        self.running[slot] = 0
        self.failures[slot] = self.failures.get(slot, 0) + 1
        if self.failures[slot] < MOST_FAILURES:
            return
        self.over = True
        alone = world.partitions[slot[1]].query == self.query and self.batch not in world.promises.committed
        if alone and not world.excused:
            raise BrokenPromiseError(f"batch {self.batch} of the latest query cannot be read: {slot}")

    def _run(self, world: "World") -> None:
        """Every task has succeeded."""
        rows = sorted((number, entry) for (_, number, nth), found in self.rows.items() if nth == 0 for entry in found)
        world.promises.written(self.batch, tuple(rows))
        self.phase = "commit"

    def _commit(self, world: "World") -> None:
        """The commit log takes a batch once. The listener hears of it some time; or never, or in the next batch."""
        if self._end_unless(self.batch not in world.promises.committed):
            world.promises.committed.add(self.batch)
            logged = world.offsets[self.batch]
            self.heard = tuple((number, end) for number, end in logged.items() if self.start.get(number, end) != end)
            self.start, self.end, self.again = logged, {}, False
            self.rows, self.failures, self.batch = {}, {}, self.batch + 1
            self.phase, self.todo = "settle", tuple(number for number, _ in self.heard)
