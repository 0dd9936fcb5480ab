"""A consumer's metrics, measured at its queues and its ledger."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import pytest
from prometheus_client import CollectorRegistry

from baton.consumer.metrics import ConsumerMetrics
from baton.consumer.partition import HeldPartition, Phase
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.queues.entry import Entry
from baton.queues.fence import PartitionPaused, StaleOwner
from baton.queues.protocol import Ownership, QueueUnreachable

ORDERS = QueueName("orders")
FIRST, SECOND = Epoch(1), Epoch(2)
COUNTERS = "handled", "failed", "dead_letters", "redelivered", "refused"

T = TypeVar("T")


class Answers:
    """A reader with configurable answers."""

    def __init__(self) -> None:
        self.found: list[Entry] = []
        self.raises: Exception | None = None
        self.again = True

    def read(self, partition: int, epoch: Epoch, count: int = 1, *, most_bytes: int = 0, new: bool = True) -> list[Entry]:
        return self._answer(self.found)

    def ack(self, partition: int, epoch: Epoch, offsets: Sequence[str], *, soon: bool = False) -> None:
        self._answer(None)

    def verify(self, partition: int, epoch: Epoch) -> None:
        self._answer(None)

    def sure_at(self, partition: int) -> float:
        return 17.0

    def retry(self, partition: int, epoch: Epoch, offset: str, why: str) -> bool:
        return self._answer(self.again)

    def set_aside(self, partition: int, epoch: Epoch, offset: str, why: str) -> None:
        self._answer(None)

    def let_go(self, partitions: Mapping[int, Epoch], within: float, *, give_up: bool = False) -> dict[int, QueueUnreachable]:
        return {}

    def wait_for(self, partitions: frozenset[int], woken: Callable[[], None]) -> None:
        woken()

    def ready(self, partition: int, epoch: Epoch) -> bool:
        return True

    def close(self) -> None: ...

    def _answer(self, what: T) -> T:
        if self.raises is not None:
            raise self.raises
        return what


class Mount:
    """Assignments for tests."""

    entry: MemberEntry | None = None

    def current(self) -> MemberEntry | None:
        return self.entry

    def watch(self, changed: Callable[[], None]) -> None: ...

    def close(self) -> None: ...


class World:
    def __init__(self) -> None:
        self.now = 100.0
        self.registry = CollectorRegistry()
        self.mount, self.answers = Mount(), Answers()
        metrics = ConsumerMetrics(self.registry, lambda: self.now)
        open_queue, self.assignments = metrics.around(lambda name: self.answers, self.mount)
        self.reader = open_queue(ORDERS)

    def ledger(self, owned: dict[int, Epoch], revoking: dict[int, Epoch] | None = None) -> None:
        queues = {ORDERS: owned}, {ORDERS: revoking or {}}
        self.mount.entry = MemberEntry("shop/orders", MemberId("a"), Uid("a"), 1, True, *queues)
        assert self.assignments.current() is self.mount.entry

    def after(self, seconds: float) -> "World":
        self.now += seconds
        return self

    @property
    def counted(self) -> dict[str, float]:
        """Return the counters that are not 0."""
        found = {name: self.registry.get_sample_value(f"baton_consumer_{name}_total", {"queue": ORDERS}) for name in COUNTERS}
        return {name: value for name, value in found.items() if value}

    def timed(self, name: str) -> tuple[float, float]:
        """Return the count and the total seconds."""
        which = (f"baton_consumer_{name}_seconds_{what}" for what in ("count", "sum"))
        times, seconds = (self.registry.get_sample_value(one, {"queue": ORDERS}) or 0.0 for one in which)
        return times, seconds


@pytest.fixture
def world() -> World:
    return World()


def entry(*, redelivered: bool = False) -> Entry:
    return Entry(ORDERS, 0, "1-1", b"k", b"v", 0, FIRST, redelivered)


def test_entries_that_come_again_and_acknowledgements_are_counted(world: World) -> None:
    world.answers.found = [entry(redelivered=True), entry()]
    assert list(world.reader.read(0, FIRST)) == world.answers.found
    world.reader.ack(0, FIRST, ["1-1", "1-2"])
    assert world.counted == {"redelivered": 1, "handled": 2}


def test_a_failure_comes_again_or_is_a_dead_letter(world: World) -> None:
    assert world.reader.retry(0, FIRST, "1-1", "why")
    world.answers.again = False
    assert not world.reader.retry(0, FIRST, "1-1", "why")
    world.reader.set_aside(0, FIRST, "1-2", "rejected")
    assert world.counted == {"failed": 3, "redelivered": 1, "dead_letters": 2}


def test_the_first_entry_is_timed_from_the_grant_once_per_epoch(world: World) -> None:
    world.answers.found = [entry()]
    for epoch in (FIRST, SECOND):
        world.ledger({0: epoch})
        for _ in range(3):
            world.after(0.5).reader.read(0, epoch)
    assert world.timed("takeover") == (2, 1.0)


def test_a_partition_in_which_nothing_waited_tells_nothing_of_the_hand_off(world: World) -> None:
    world.ledger({0: FIRST})
    world.reader.read(0, FIRST)
    world.answers.found = [entry()]
    world.after(3600).reader.read(0, FIRST)
    assert world.timed("takeover") == (0, 0)


def test_a_release_is_timed_from_the_ledger_that_asks_for_it(world: World) -> None:
    world.ledger({0: FIRST, 1: FIRST})
    world.after(10).ledger({1: FIRST}, revoking={0: FIRST})
    world.after(1).ledger({}, revoking={0: FIRST, 1: FIRST})
    world.after(2).reader.let_go({0: FIRST}, 1.0)
    world.reader.let_go({0: FIRST}, 1.0)
    assert world.timed("release") == (1, 3.0)


def test_a_release_is_timed_from_the_queues_word_where_that_comes_first(world: World) -> None:
    world.ledger({0: FIRST})
    world.answers.raises = PartitionPaused(0)
    with pytest.raises(PartitionPaused):
        world.reader.read(0, FIRST)
    world.after(1).ledger({}, revoking={0: FIRST})
    world.after(1).reader.let_go({0: FIRST}, 1.0)
    assert world.timed("release") == (1, 2.0)


@pytest.mark.parametrize("ask", [lambda r: r.read(0, FIRST), lambda r: r.ack(0, FIRST, ["1-1"]), lambda r: r.verify(0, FIRST)])
def test_what_is_refused_is_counted_and_is_no_release(world: World, ask: Any) -> None:
    world.ledger({}, revoking={0: FIRST})
    world.answers.raises = StaleOwner(0, Uid("a"), FIRST, Ownership(Uid("b"), SECOND, False))
    with pytest.raises(StaleOwner):
        ask(world.reader)
    world.reader.let_go({0: FIRST}, 1.0)
    assert (world.counted, world.timed("release")) == ({"refused": 1}, (0, 0))


def test_a_partition_that_was_lost_is_let_go_of_as_one_that_was_not_measured(world: World) -> None:
    world.ledger({0: FIRST})
    lost = HeldPartition(Partition(ORDERS, 0), FIRST, cast(Any, None), by_key=False)
    lost.lose(world.reader)
    assert lost.phase is Phase.FENCED


def test_a_partition_that_nobody_called_back_is_no_release(world: World) -> None:
    world.ledger({0: FIRST})
    world.reader.let_go({0: FIRST}, 1.0)
    assert world.timed("release") == (0, 0)


def test_everything_else_passes(world: World) -> None:
    woken: list[bool] = []
    world.reader.wait_for(frozenset({7}), lambda: woken.append(True))
    assert woken
    assert world.reader.ready(0, FIRST)
