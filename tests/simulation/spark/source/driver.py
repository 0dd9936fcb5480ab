"""A run of Spark's driver with our own decisions. Spark's part is the protocol's; the source's part is `baton.spark`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.model.session import Release
from baton.queues.protocol import QueueUnreachable
from baton.spark.decisions import Decisions
from baton.spark.executors import Executor
from baton.spark.finishing import Finishing
from baton.spark.ledger import GrantsInUse
from baton.spark.queues import FleetQueues
from baton.spark.statistics import Counts
from baton.spark.surroundings import Surroundings
from tests.simulation.spark.protocol.driver import Driver, Offset
from tests.simulation.spark.protocol.promises import BrokenPromiseError, Row
from tests.simulation.spark.protocol.task import Slot, Task, uid
from tests.simulation.spark.source.queue import SimulatedRanges
from tests.written_ledger import WrittenLedger

if TYPE_CHECKING:
    from tests.simulation.spark.source.world import Fleet

QUEUE = QueueName("orders")


class KilledError(BaseException):
    """The driver died in the middle of a question."""


@dataclass(slots=True, eq=False)
class SourceDriver(Driver):
    """Its steps are those of the protocol's driver, but for the questions to the source."""

    world: "Fleet" = field(kw_only=True)
    ledger: WrittenLedger = field(default_factory=WrittenLedger)
    decisions: Decisions = field(init=False)
    finishing: Finishing = field(init=False)
    stream: str = ""
    ranges: dict[int, dict[str, Any]] = field(default_factory=dict)
    working: frozenset[int] = frozenset()
    """Partitions of the batch that Spark was given and has not committed."""
    to_read: frozenset[Row] | None = None
    """AvailableNow: what was there when it began."""
    told: tuple[str, ...] = ()
    """Offsets that the listener will hear of."""
    may_fail: int = 0
    """Questions that the queue leaves without an answer."""

    def __post_init__(self) -> None:
        ranges = SimulatedRanges(self.world, self.between, self.world.pass_time)
        counts, queues = (
            Counts(),
            FleetQueues({QUEUE: ""}, "shop", "group", lambda url, name, group: ranges, self.world.pass_time),
        )
        grants_in_use = GrantsInUse(self.ledger, self._released)
        self.finishing = Finishing(queues, grants_in_use, counts, lambda stream: ())
        around = Surroundings(
            group="orders",
            queues=queues,
            ledger=self.ledger,
            grants_in_use=grants_in_use,
            executors=self._executors,
            finishing=self.finishing,
            counts=counts,
            repeat_wait=self.world.repeat_wait,
            over=lambda: "",
            stopping=lambda: False,
            clock=lambda: self.world.now,
            sleep=self.world.pass_time,
        )
        self.decisions = Decisions(around, frozenset, lambda: None)
        self.ledger.write(*self.world.entries().values())

    def steps(self, executors: Sequence[str]) -> Iterator[tuple[str | int, ...]]:
        if self.told:
            yield ("listen",)
            yield ("miss",)
        if not self.finishing.settled():
            yield ("finish",)
        yield ("see",)
        yield from super(SourceDriver, self).steps(executors)

    def do(self, world: "Fleet", what: str, *arguments: object) -> None:  # type: ignore[override]
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
                    self.ledger.write(*world.entries().values())
                case _:
                    super(SourceDriver, self).do(world, what, *arguments)
        except KilledError:
            pass
        finally:
            self.busy = False

    def between(self) -> None:
        """The decisions ask a queue: meanwhile anything happens, to them too."""
        self.world.meanwhile()
        if self.over:
            raise KilledError
        if self.may_fail and self.world.rng.random() < 0.1:
            self.may_fail -= 1
            raise QueueUnreachable("simulated")

    # -- what the source is asked

    def _number(self, world: "Fleet") -> None:  # type: ignore[override]
        options = {
            "group": "orders",
            "failondataloss": "false",
            "maxrowspertrigger": str(world.shape.most),
            "checkpointlocation": "0",
        }
        self.stream = json.loads(self.decisions.open(json.dumps(options), '{"id": "query"}'))["stream"]
        self.phase, self.to_read = "plan" if self.again else "prepare" if world.available else "latest", None

    def _prepare(self, world: "Fleet") -> None:
        there = frozenset(world.promises.added)
        if self._asked(world, self.decisions.prepareAvailableNow(self.stream)) is not None:
            self.phase, self.to_read = "latest", there

    def _latest(self, world: "Fleet") -> None:
        text = _text(self.start)
        answer = self._asked(world, self.decisions.latestOffset(self.stream, text))
        if answer is None:
            return
        self.end = _offset(answer)
        if self.end != self.start:
            self.working = frozenset(number for number, end in self.end.items() if self.start.get(number, end) != end)
            self.phase = "write"
        elif self.to_read is not None:
            world.ended(self.to_read)
            self.over = True

    def _begin_to_log(self) -> None:
        if self.batch:
            self.decisions.commit(self.stream, _text(self.start))
        self.phase = "plan"

    def _plan(self, world: "Fleet") -> None:
        self.working, self.ranges = (
            frozenset(number for number, end in self.end.items() if self.start.get(number, end) != end),
            {},
        )
        answer = self._asked(world, self.decisions.plan(self.stream, _text(self.start), _text(self.end), str(self.batch)))
        if answer is None:
            return
        self.ranges = {told["partition"]: told for told in answer["ranges"]}
        read = {number: (told["start"], told["end"]) for number, told in self.ranges.items()}
        excused = world.promises.lost or self.batch in world.promises.committed  # another driver has had it done meanwhile
        if (
            read != {number: (self.start[number], self.end[number]) for number in self.working if number in self.start}
            and not excused
        ):
            raise BrokenPromiseError(f"batch {self.batch} from {self.start} to {self.end} is read as {read}")
        self.query = answer["queues"][QUEUE]["query"] if self.ranges else 0
        self.running = {(f"0.{nth}", number, nth): 0 for number in self.ranges for nth in range(world.shape.evaluations)}
        self.phase = "run"

    def _asked(self, world: "Fleet", text: str) -> Any:
        """The answer; None: it is to be asked again, or the query has failed."""
        self.may_fail = world.unanswered
        answer: dict[str, Any] = json.loads(text)
        if "again" in answer:
            world.pass_time(answer["again"] / 1000)
            return None
        if "error" in answer:
            world.failed_with(self, answer["error"])
            self.fail(world)
            return None
        return answer

    def fail(self, world: "Fleet") -> None:
        """Spark ends the query; somebody starts it again, in this application or in the next."""
        self.working, self.ranges = frozenset(), {}
        if world.rng.random() < 0.5:
            self.over = True
            return
        for task in world.tasks:
            task.given_up |= task.driver == self.number
        self.phase, self.running, self.rows, self.failures, self.again, self.told = "offsets", {}, {}, {}, False, ()
        if world.rng.random() < 0.5:
            self.decisions.stop(self.stream)

    # -- Spark

    def _launch(self, world: "Fleet", slot: Slot, executor: str) -> None:  # type: ignore[override]
        told = self.ranges[slot[1]]
        self.attempts += 1
        self.running[slot] = self.attempts
        owner: tuple[str, int] = (told["uid"], told["epoch"]) if told["executor"] == executor[1:] else ("", 0)
        start, end = told["start"], told["end"]
        world.tasks.append(Task(self.number, self.query, self.batch, slot, start, end, *owner, self.attempts, executor, start))

    def failed(self, world: "Fleet", slot: Slot) -> None:  # type: ignore[override]
        super(SourceDriver, self).failed(world, slot)
        if self.over:
            self.over = False
            self.fail(world)

    def _commit(self, world: "Fleet") -> None:  # type: ignore[override]
        super(SourceDriver, self)._commit(world)
        if not self.over:
            self.told += (_text(self.start),)
            self.heard, self.working, self.ranges, self.phase = (), frozenset(), {}, "latest"

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
