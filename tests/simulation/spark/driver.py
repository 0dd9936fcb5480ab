"""One run of a query: Spark's micro-batches by a model of Spark, and the source's decisions by `baton.spark`."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.model.session import Release
from baton.queues.protocol import QueueUnreachable
from baton.spark.decisions import Decisions
from baton.spark.executors import Executor
from baton.spark.finishing import Finishing
from tests.fleet_context import fleet_context, fleet_queues
from tests.simulation.spark.modelled_ranges import ModelledRanges
from tests.simulation.spark.partition import Answer
from tests.simulation.spark.promises import BrokenPromiseError, Row
from tests.written_ledger import WrittenLedger

if TYPE_CHECKING:
    from tests.simulation.spark.world import World

QUEUE = QueueName("orders")

Offset = dict[int, int]
"""Position by partition."""

MOST_FAILURES = 4
"""Attempts per task: Spark's default."""

Slot = tuple[str, int, int]
"""Identifies a task: its evaluation, its partition, and the number of the evaluation in the batch."""


@dataclass(slots=True)
class Task:
    """One attempt of a task. It continues after Spark has given it up, because its executor may only be paused."""

    driver: int
    query: int
    batch: int
    slot: Slot
    start: int
    end: int
    uid: str
    epoch: int
    attempt: int
    executor: str
    cursor: int
    rows: tuple[int, ...] = ()
    given_up: bool = False


def uid(executor: str) -> str:
    """The UID of an executor's pod."""
    return f"u{executor[1:]}"


class SimulatedRanges(ModelledRanges):
    """The queue of a world, for one of its drivers. `between` is called before each request to a partition."""

    def __init__(self, world: "World", between: Callable[[], None]) -> None:
        super().__init__(world.partitions)
        self._world, self._between = world, between

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
        self._world.pass_time(seconds)


class KilledError(BaseException):
    """The driver died during a request."""


@dataclass(slots=True, eq=False)
class Driver:
    """Each phase is a request, mostly to one partition at a time: anything may happen between two."""

    world: "World"
    number: int
    phase: str = "offsets"
    query: int = 0
    batch: int = 0
    start: Offset = field(default_factory=dict)
    end: Offset = field(default_factory=dict)
    again: bool = False
    """Whether the batch that begins is already in the offset log."""
    running: dict[Slot, int] = field(default_factory=dict)
    """The attempt that counts; 0 for none."""
    rows: dict[Slot, tuple[int, ...]] = field(default_factory=dict)
    failures: dict[Slot, int] = field(default_factory=dict)
    attempts: int = 0
    over: bool = False
    busy: bool = False
    """Whether it is in the middle of a step, during which other drivers take steps."""
    ledger: WrittenLedger = field(default_factory=WrittenLedger)
    decisions: Decisions = field(init=False)
    finishing: Finishing = field(init=False)
    stream: str = ""
    ranges: dict[int, dict[str, Any]] = field(default_factory=dict)
    working: frozenset[int] = frozenset()
    """Partitions of the batch that Spark was given and has not committed."""
    to_read: frozenset[Row] | None = None
    """AvailableNow: the last entries when the query began."""
    told: tuple[str, ...] = ()
    """Offsets that the listener will be notified of."""
    may_fail: int = 0
    """Requests that the queue does not answer."""

    def __post_init__(self) -> None:
        context = fleet_context(
            fleet_queues({QUEUE: SimulatedRanges(self.world, self.between)}, sleep=self.world.pass_time),
            self.ledger,
            self._executors,
            released=self._released,
            repeat_wait=self.world.repeat_wait,
            clock=lambda: self.world.now,
            sleep=self.world.pass_time,
        )
        self.finishing = context.finishing
        self.decisions = Decisions(context, frozenset, lambda: None)
        self.ledger.write(*self.world.entries().values())

    def steps(self, executors: Sequence[str]) -> Iterator[tuple[str | int, ...]]:
        if self.told:
            yield ("listen",)
            yield ("miss",)
        if not self.finishing.settled():
            yield ("finish",)
        yield ("see",)
        waiting = [place for place, attempt in enumerate(self.running.values()) if attempt == 0]
        if waiting:
            yield from (("launch", waiting[0], executor) for executor in executors)
        if self.phase != "run" or not self.running:
            yield ("go",)

    def do(self, what: str, *arguments: Any) -> None:
        self.busy = True
        try:
            match what:
                case "listen" | "miss":
                    text, self.told = self.told[0], self.told[1:]
                    if what == "listen":
                        self.decisions.done(self.stream, text)
                case "finish":
                    self.may_fail = 0
                    self.finishing.finish_next(QUEUE)
                case "see":
                    self.ledger.write(*self.world.entries().values())
                case "launch":
                    place, executor = arguments
                    self._launch(list(self.running)[place], executor)
                case _:
                    getattr(self, f"_{self.phase}")()
        except KilledError:
            pass
        finally:
            self.busy = False

    def between(self) -> None:
        """During a request of the decisions to a queue, anything may happen, to the driver too."""
        self.world.meanwhile()
        if self.over:
            raise KilledError
        if self.may_fail and self.world.rng.random() < 0.1:
            self.may_fail -= 1
            raise QueueUnreachable("simulated")

    def _end_unless(self, fine: bool) -> bool:
        self.over |= not fine
        return fine

    # -- the logs, as MicroBatchExecution reads them when a query starts

    def _offsets(self) -> None:
        self.batch = len(self.world.offsets)
        self.phase = "commits"

    def _commits(self) -> None:
        committed = max(self.world.promises.committed, default=-1)
        if self.batch - 1 != committed:
            if not self._end_unless(self.batch > 0):
                return
            self.batch, self.again = self.batch - 1, True
            self.end = self.world.offsets[self.batch]
        self.start = self.world.offsets[self.batch - 1] if self.batch else {}
        self.phase = "number"

    # -- what the source is asked

    def _number(self) -> None:
        options = {
            "group": "orders",
            "failondataloss": "false",
            "maxrowspertrigger": str(self.world.shape.most),
            "checkpointlocation": "0",
        }
        self.stream = json.loads(self.decisions.open(json.dumps(options), '{"id": "query"}'))["stream"]
        self.phase, self.to_read = "plan" if self.again else "prepare" if self.world.available else "latest", None

    def _prepare(self) -> None:
        there = frozenset(self.world.promises.added)
        if self._asked(self.decisions.prepareAvailableNow(self.stream)) is not None:
            self.phase, self.to_read = "latest", there

    def _latest(self) -> None:
        text = _text(self.start)
        answer = self._asked(self.decisions.latestOffset(self.stream, text))
        if answer is None:
            return
        self.end = _offset(answer)
        if self.end != self.start:
            self.working, self.phase = self._moving(), "write"
        elif self.to_read is not None:
            self.world.ended(self.to_read)
            self.over = True

    def _moving(self) -> frozenset[int]:
        return frozenset(number for number, end in self.end.items() if self.start.get(number, end) != end)

    def _begin_to_log(self) -> None:
        if self.batch:
            self.decisions.commit(self.stream, _text(self.start))
        self.phase = "plan"

    def _plan(self) -> None:
        self.working, self.ranges = self._moving(), {}
        answer = self._asked(self.decisions.plan(self.stream, _text(self.start), _text(self.end), str(self.batch)))
        if answer is None:
            return
        self.ranges = {told["partition"]: told for told in answer["ranges"]}
        read = {number: (told["start"], told["end"]) for number, told in self.ranges.items()}
        asked = {number: (self.start[number], self.end[number]) for number in self.working if number in self.start}
        done = self.batch in self.world.promises.committed  # another driver has had it done meanwhile
        if read != asked and not done and not self.world.promises.lost:
            raise BrokenPromiseError(f"batch {self.batch} from {self.start} to {self.end} is read as {read}")
        self.query = answer["queues"][QUEUE]["query"] if self.ranges else 0
        self.running = {(f"0.{nth}", number, nth): 0 for number in self.ranges for nth in range(self.world.shape.evaluations)}
        self.phase = "run"

    def _asked(self, text: str) -> Any:
        """Return the answer; None if the request must be repeated, or the query has failed."""
        self.may_fail = self.world.unanswered
        answer: dict[str, Any] = json.loads(text)
        if "again" in answer:
            self.world.pass_time(answer["again"] / 1000)
            return None
        if "error" in answer:
            self.world.failed_with(self, answer["error"])
            self.fail()
            return None
        return answer

    def fail(self) -> None:
        """Spark ends the query. It is started again, in this application or in the next."""
        self.working, self.ranges = frozenset(), {}
        if self.world.rng.random() < 0.5:
            self.over = True
            return
        for task in self.world.tasks:
            task.given_up |= task.driver == self.number
        self.phase, self.running, self.rows, self.failures, self.again, self.told = "offsets", {}, {}, {}, False, ()
        if self.world.rng.random() < 0.5:
            self.decisions.stop(self.stream)

    # -- Spark

    def _write(self) -> None:
        """The offset log takes a batch once."""
        if self._end_unless(len(self.world.offsets) == self.batch):
            self.world.offsets.append(self.end)
            self._begin_to_log()

    def _launch(self, slot: Slot, executor: str) -> None:
        told = self.ranges[slot[1]]
        self.attempts += 1
        self.running[slot] = self.attempts
        owner: tuple[str, int] = (told["uid"], told["epoch"]) if told["executor"] == executor[1:] else ("", 0)
        start, end = told["start"], told["end"]
        self.world.tasks.append(
            Task(self.number, self.query, self.batch, slot, start, end, *owner, self.attempts, executor, start)
        )

    def failed(self, slot: Slot) -> None:
        self.running[slot] = 0
        self.failures[slot] = self.failures.get(slot, 0) + 1
        if self.failures[slot] < MOST_FAILURES:
            return
        alone = self.world.partitions[slot[1]].query == self.query and self.batch not in self.world.promises.committed
        if alone and not self.world.promises.lost:
            raise BrokenPromiseError(f"batch {self.batch} of the latest query cannot be read: {slot}")
        self.fail()

    def _run(self) -> None:
        """Whether every task has succeeded."""
        rows = sorted((number, entry) for (_, number, nth), found in self.rows.items() if nth == 0 for entry in found)
        self.world.promises.written(self.batch, tuple(rows))
        self.phase = "commit"

    def _commit(self) -> None:
        """Write the commit log, which takes a batch once. The listener is notified later, or never, or in the next batch."""
        if self._end_unless(self.batch not in self.world.promises.committed):
            self.world.promises.committed.add(self.batch)
            self.start, self.end, self.again = self.world.offsets[self.batch], {}, False
            self.rows, self.failures, self.batch = {}, {}, self.batch + 1
            self.told += (_text(self.start),)
            self.working, self.ranges, self.phase = frozenset(), {}, "latest"

    # -- around the decisions

    def _executors(self) -> Mapping[MemberId, Executor]:
        return {member(name): Executor(name[1:], f"10.0.0.{name[1:]}", member(name)) for name in self.world.executors}

    def _released(self, released: frozenset[Release]) -> None:
        if self.over:
            return
        for one in released:
            told = self.ranges.get(one.partition)
            if told is not None and told["epoch"] == one.epoch:
                raise BrokenPromiseError(f"partition {one.partition} is released in the middle of batch {self.batch}")
        self.world.released |= {(one.partition, one.epoch) for one in released}


def member(executor: str) -> MemberId:
    """The name of an executor's pod."""
    return MemberId(f"exec-{executor[1:]}")


def _text(offset: Offset) -> str:
    return json.dumps({QUEUE: {str(number): end for number, end in offset.items()}} if offset else {})


def _offset(answer: Mapping[str, Mapping[str, int]]) -> Offset:
    return {int(number): end for number, end in answer.get(QUEUE, {}).items()}


def entry(executor: str, owned: Mapping[int, int], revoking: Mapping[int, int], generation: int) -> MemberEntry:
    """A member's key in the ledger."""
    return MemberEntry(
        group="shop/orders",
        member=member(executor),
        uid=Uid(uid(executor)),
        generation=generation,
        active=True,
        owned={QUEUE: {number: Epoch(epoch) for number, epoch in owned.items()}},
        revoking={QUEUE: {number: Epoch(epoch) for number, epoch in revoking.items()}},
    )
