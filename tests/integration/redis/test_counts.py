"""The counts of a partition (done, still to do, in hand) are right whatever its owners do."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from baton.model.ids import Epoch, Uid
from baton.queues.fence import PartitionPaused
from baton.queues.logged_ranges import Ahead, AheadRequest, Finished, Gone, Logged, RangeToFinish, RangeToLog
from baton.queues.redis.keys import partition_keys
from tests.integration.redis.conftest import Queue, make_queue
from tests.integration.redis.logged import Query, Task, ranges_of
from tests.redis_server import RedisServer

ONE = Epoch(1)
SOME = st.integers(1, 8)


@pytest.fixture(scope="module")
def forgetful() -> Iterator[RedisServer]:
    """A server whose history can be changed."""
    with RedisServer(debug=True) as running:
        yield running


@pytest.fixture
async def queue(forgetful: RedisServer, new_name: Callable[[], str]) -> AsyncIterator[Queue]:
    made = await make_queue(forgetful.url, 1, new_name())
    yield made
    await made.close()


async def test_entries_read_singly_and_in_a_logged_range_count_once(queue: Queue, query: Query) -> None:
    queue.send("a", "b", "c")
    owner = await queue.granted("a", ONE)
    read = owner.read(0, ONE, 2)
    query.logged(0, 3)
    assert await queue.operator.outstanding(0) == 3
    owner.ack(0, ONE, [read[0].offset])
    owner.retry(0, ONE, read[1].offset, "failed")
    owner.set_aside(0, ONE, read[1].offset, "hopeless")
    assert ((await queue.operator.check()).lag, await queue.operator.outstanding(0)) == ({0: 1}, 0)
    assert query.finish(3) == Finished()
    assert ((await queue.operator.check()).lag, await queue.operator.outstanding(0)) == ({0: 0}, 0)


async def test_nothing_is_skipped_after_entries_were_read_in_both_ways(queue: Queue, query: Query, raw: Any) -> None:
    """Entries counted twice would have made new ones count as done."""
    queue.send("a", "b")
    owner = await queue.granted("a", ONE)
    read = owner.read(0, ONE)
    query.logged(0, 2)
    owner.ack(0, ONE, [entry.offset for entry in read])
    query.finish(2)
    queue.send("c", "d")
    raw.execute_command("DEBUG", "CHANGE-REPL-ID")
    end = query.end(2)
    query.logged(2, end)
    assert query.rows(2, end) == [b"c", b"d"]


class OwnersOfAPartition(RuleBasedStateMachine):
    """One partition and its owners, and the expected state of each entry."""

    url: str
    names: Callable[[], str]
    redeliveries: int

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.queue = self.loop.run_until_complete(make_queue(self.url, 1, self.names()))
        self.loop.run_until_complete(self.queue.limited(20, self.redeliveries))
        self.raw: Any = self.queue.raw()
        self.keys = partition_keys(self.queue.name, 0)
        self.epoch, self.paused, self.sent = Epoch(1), False, 0
        self.to_do: dict[bytes, str] = {}
        """By value (unique), the offset if it is known."""
        self.received: list[tuple[bytes, str]] = []
        """Value and offset of entries received under this epoch."""
        self.held: set[bytes] = set()
        self.ranges = ranges_of(self.queue)
        self.query, self.start = self.ranges.begin(), self.ranges.positions()[0].committed
        self.range: RangeToLog | None = None
        """The range in Spark's offset log that is not in its commit log."""
        self.logged: set[bytes] = set()
        """The values of the range while it can be read."""
        self.most = 0
        """The maximum number of these values."""
        self.reader = self.loop.run_until_complete(self.queue.granted("a", self.epoch))
        self.send(8)

    def finish(self, values: set[bytes]) -> None:
        for value in values:
            self.to_do.pop(value, None)
        self.held -= values
        if self.logged & values:  # the range would lack them
            self.logged, self.most = set(), 0

    def count_the_dead(self) -> None:
        self.finish({fields[b"value"] for _, fields in self.raw.xrange(self.keys.dead)})

    @rule(count=SOME)
    def send(self, count: int) -> None:
        values = [f"{self.sent + nth}" for nth in range(count)]
        self.sent += count
        self.queue.send(*values)
        self.to_do |= {value.encode(): "" for value in values}

    @rule(count=SOME)
    def read(self, count: int) -> None:
        try:
            entries = self.reader.read(0, self.epoch, count)
            self.logged, self.most = set(), 0
        except PartitionPaused:
            entries = []
        for entry in entries:
            assert entry.value in self.to_do, "what was finished with does not come again"
            self.received.append((entry.value, entry.offset))
            self.held.add(entry.value)
        self.count_the_dead()

    @precondition(lambda self: self.received)
    @rule(which=st.lists(st.integers(0, 7), min_size=1))
    def acknowledge(self, which: list[int]) -> None:
        """Acknowledge some of the last entries, including finished ones."""
        some = [self.received[-1 - nth % len(self.received)] for nth in which]
        self.reader.ack(0, self.epoch, [offset for _, offset in some])
        self.finish({value for value, _ in some if value in self.held})

    @precondition(lambda self: self.held)
    @rule(which=st.integers(0, 7), hopeless=st.booleans())
    def fail(self, which: int, hopeless: bool) -> None:
        held = [each for each in self.received if each[0] in self.held]
        value, offset = held[which % len(held)]
        if hopeless:
            self.reader.set_aside(0, self.epoch, offset, "hopeless")
        else:
            self.reader.retry(0, self.epoch, offset, "failed")
        self.count_the_dead()
        assert not hopeless or value not in self.to_do

    @rule(limit=SOME)
    def log_a_range(self, limit: int) -> None:
        if self.range is None:
            (found,) = self.ranges.ahead(self.query, [AheadRequest(0, Uid("a"), self.epoch, self.start, limit)])
            if not isinstance(found, Ahead) or found.end == self.start:
                return
            self.range = RangeToLog(0, self.start, found.end)
        (answer,) = self.ranges.log(self.query, [self.range])
        if isinstance(answer, Gone):
            if answer.last < answer.first:
                self.start, self.range = self.range.end, None
                return
            self.range = RangeToLog(0, answer.first - 1, answer.last, partly=True)
            (answer,) = self.ranges.log(self.query, [self.range])
        assert isinstance(answer, Logged)
        found_now = list(Task(self.query, self.range.start, self.range.end).entries(self.raw, self.queue.name))
        self.logged = {fields[b"v"] for _, fields in found_now if b"v" in fields}
        self.most = int(self.raw.hget(self.keys.progress, "count") or 0)
        assert self.logged <= set(self.to_do), "what was finished with does not come again"
        assert len(self.logged) <= self.most

    @precondition(lambda self: self.logged)
    @rule(twice=st.booleans())
    def finish_the_range(self, twice: bool) -> None:
        assert self.range is not None
        for _ in range(1 + twice):
            (answer,) = self.ranges.finish(self.query, [RangeToFinish(0, self.range.end)])
            assert isinstance(answer, Finished)
        self.start, self.range = self.range.end, None
        self.finish(set(self.logged))

    @rule(what=st.sampled_from(("restart", "pause", "grant", "foreign entry", "history")))
    def something_else_happens(self, what: str) -> None:
        match what:
            case "restart":
                self.reader = self.queue.reader("a")
            case "pause":
                self.loop.run_until_complete(self.queue.operator.pause(0, self.epoch))
            case "grant":
                self.grant()
            case "foreign entry":
                self.raw.xadd(self.keys.stream, {"some": "thing"})
            case "history":
                self.raw.execute_command("DEBUG", "CHANGE-REPL-ID")

    def grant(self) -> None:
        self.epoch = Epoch(self.epoch + 1)
        self.loop.run_until_complete(self.queue.operator.grant(0, Uid("a"), self.epoch))
        self.held, self.received = set(), []

    @invariant()
    def counts_are_what_there_is(self) -> None:
        counted = self.loop.run_until_complete(self.queue.operator.check()).lag[0]
        assert counted == len(self.to_do)
        assert self.loop.run_until_complete(self.queue.operator.outstanding(0)) == max(len(self.held), self.most)

    def teardown(self) -> None:
        """Check that all unfinished entries are delivered in order."""
        try:
            self.loop.run_until_complete(self.queue.limited(10_000, 0))
            self.grant()
            found: list[int] = []
            while len(found) <= self.sent and (entries := self.reader.read(0, self.epoch, 100)):
                found += [int(entry.value) for entry in entries]
                self.reader.ack(0, self.epoch, [entry.offset for entry in entries])
            assert found == sorted(int(value) for value in self.to_do)
            assert self.loop.run_until_complete(self.queue.operator.check()).lag == {0: 0}
        finally:
            self.raw.close()
            self.ranges.close()
            self.loop.run_until_complete(self.queue.close())
            self.loop.close()


@pytest.mark.parametrize("redeliveries", [0, 2])
def test_counts_are_right_in_any_order_of_events(forgetful: RedisServer, new_name: Callable[[], str], redeliveries: int) -> None:
    machine = type(
        "Owners", (OwnersOfAPartition,), {"url": forgetful.url, "names": staticmethod(new_name), "redeliveries": redeliveries}
    )
    # No shrinking, which takes minutes.
    as_they_come = settings(max_examples=40, stateful_step_count=30, deadline=None, phases=(Phase.generate,))
    run_state_machine_as_test(machine, settings=as_they_come)
