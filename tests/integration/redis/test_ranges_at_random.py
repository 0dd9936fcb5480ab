"""Drivers, tasks, pods and losses in any order: a finished batch had exactly its rows, and no other entry is lost."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
import redis

from baton.model.ids import Epoch, Uid
from baton.queues.fence import PartitionPaused, StaleOwner
from baton.queues.logged_ranges import (
    Ahead,
    AheadRequest,
    Gone,
    LaterQuery,
    Logged,
    RangeToFinish,
    RangeToLog,
    RangeToSetAside,
    SetAside,
    Unlogged,
)
from baton.queues.redis import RedisReader
from baton.queues.redis.keys import entry_id, entry_number, partition_keys, queue_key
from baton.queues.redis.ranges import RedisRanges
from tests.integration.redis.conftest import Queue, make_queue
from tests.integration.redis.logged import RefusedError, Task
from tests.promises import promised
from tests.redis_server import RedisServer

STEPS = 250
PAGE = 3
Answer = TypeVar("Answer")
Rows = dict[int, bytes]
"""Values by the numbers of their entries."""


@dataclass
class Batch:
    """A batch in Spark's offset log."""

    start: int
    end: int
    rows: Rows | None = None
    """The rows when it was first logged; None: not logged yet."""
    logged_by: int = 0


@dataclass
class Running:
    """A running task, and the rows it has read."""

    task: Task
    batch: Batch
    after: bytes
    rows: Rows = field(default_factory=dict)


class World:
    """A queue with one partition, Spark's checkpoint, its driver, and earlier drivers."""

    weights: Mapping[str, float] = {
        "send": 4, "grant": 1, "pause": 1, "driver": 8, "begin_task": 5, "task": 20, "finish": 3, "restart_driver": 1,
        "zombie": 2, "read_singly": 2, "jump": 0.3, "save": 0.3, "fail_over": 0.3, "foreign": 0.3,
    }  # fmt: skip
    """The relative frequency of each action."""

    def __init__(self, seed: int, queue: Queue, raw: redis.Redis) -> None:
        self.dice = random.Random(seed)
        self.queue, self.raw, self.keys = queue, raw, partition_keys(queue.name, 0)
        self.ranges = RedisRanges(queue.url, queue.name)
        self.epoch, self.owner, self.pod = 0, "", RedisReader(queue.url, queue.name, "pod")
        self.sent = 0
        self.queries = [self.ranges.begin()]
        self.batches: list[Batch] = []
        self.committed = 0
        """The number of batches in Spark's commit log."""
        self.begins_at = self.ranges.positions()[0].committed
        self.tasks: list[Running] = []
        self.attempts = 0
        self.answered: dict[tuple[int, Batch | int, str], int] = {}
        """The latest attempt that was answered, by query, batch and evaluation."""
        self.acknowledged: set[bytes] = set()
        self.lost: set[bytes] = set()
        self.saved: tuple[dict[Any, Any], int] | None = None
        self.losses = self.foreigners = 0

    async def step(self) -> None:
        (action,) = self.dice.choices(list(self.weights), list(self.weights.values()))
        await getattr(self, action)()
        self.all_is_there()

    # What happens

    async def send(self) -> None:
        count = self.dice.randint(1, 12)
        self.queue.producer.send_many(("k", str(self.sent + number)) for number in range(count))
        self.sent += count

    async def foreign(self) -> None:
        last = int(self.raw.hget(self.keys.progress, "last") or 0)
        if self.raw.exists(self.keys.stream):
            self.raw.xadd(self.keys.stream, {"by": "hand"}, id=f"{last}-*")
            self.foreigners += 1

    async def grant(self) -> None:
        self.epoch += 1
        self.owner = self.dice.choice(["a", "b", "pod", ""])
        await self.queue.operator.grant(0, Uid(self.owner) if self.owner else None, Epoch(self.epoch))

    async def pause(self) -> None:
        await self.queue.operator.pause(0, Epoch(self.epoch))

    async def read_singly(self) -> None:
        try:
            entries = self.pod.read(0, Epoch(self.epoch), self.dice.randint(1, 5))
            done = [entry for entry in entries if self.dice.random() < 0.8]
            self.pod.ack(0, Epoch(self.epoch), [entry.offset for entry in done])
            self.acknowledged |= {entry.value for entry in done}
        except (StaleOwner, PartitionPaused):
            pass

    async def driver(self) -> None:
        if len(self.batches) == self.committed:
            start = self.batches[-1].end if self.batches else self.begins_at
            request = AheadRequest(0, Uid(self.owner), Epoch(self.epoch), start, self.dice.randint(1, 15))
            (found,) = self.twice(lambda: self.ranges.ahead(self.query, [request]))
            if isinstance(found, Gone):
                assert self.losses or self.acknowledged
                self.batches.append(Batch(start, max(found.last, start)))
            elif isinstance(found, Ahead) and found.end > start:
                self.batches.append(Batch(start, found.end))
        elif self.batches[-1].logged_by != self.query:
            self.log(self.batches[-1])

    def log(self, batch: Batch) -> None:
        (answer,) = self.twice(lambda: self.ranges.log(self.query, [RangeToLog(0, batch.start, batch.end)]))
        if isinstance(answer, Gone):  # as with failOnDataLoss=false
            assert self.losses or self.acknowledged, (batch, answer)
            batch.rows = {}
            if answer.last < answer.first:
                self.committed += 1
                self.tasks = [one for one in self.tasks if one.batch is not batch]
                return
            batch.start, batch.end = answer.first - 1, answer.last
            (answer,) = self.ranges.log(self.query, [RangeToLog(0, batch.start, batch.end, partly=True)])
            batch.rows = None
        assert isinstance(answer, Logged), (batch, answer)
        there = self.entries(batch.start, batch.end)
        assert batch.rows in (None, there), "it is as it was, or gone"
        batch.rows, batch.logged_by = there, self.query

    async def begin_task(self) -> None:
        if len(self.batches) > self.committed and self.batches[-1].logged_by == self.query:
            batch = self.batches[-1]
            self.attempts += 1
            uid, epoch = self.dice.choice([(self.owner, self.epoch), ("", 0), ("a", max(1, self.epoch - 1))])
            executor, evaluation = self.dice.choice("12"), self.dice.choice(["1.0", "2.0"])
            task = Task(self.query, batch.start, batch.end, uid, epoch, evaluation, self.attempts, executor)
            self.tasks.append(Running(task, batch, entry_id(batch.start).encode()))

    async def task(self) -> None:
        if not self.tasks:
            return
        one = self.dice.choice(self.tasks)
        task, key = one.task, (one.task.query, id(one.batch), one.task.evaluation)
        try:
            _, found = self.twice(lambda: task.page(self.raw, self.queue.name, one.after, PAGE))
        except RefusedError as refused:
            self.tasks.remove(one)
            if one.batch is self.batches[-1] and refused.args[0] == "UNLOGGED":
                await self.restart_driver()  # its query has failed
            return
        assert task.query == self.query or self.losses, "a later query has begun"
        assert self.answered.get(key, 0) <= task.attempt or self.losses, "a later attempt was answered"
        self.answered[key] = task.attempt
        one.rows |= {entry_number(entry): fields[b"v"] for entry, fields in found if b"v" in fields}
        if len(found) == PAGE:
            one.after = found[-1][0]
            return
        self.tasks.remove(one)
        if self.losses and one.rows != one.batch.rows:
            return  # it has read in two histories
        assert one.rows == one.batch.rows, task
        if one.batch is self.batches[-1] and len(self.batches) > self.committed:
            self.committed += 1

    async def finish(self) -> None:
        if self.committed:
            end = self.batches[self.committed - 1].end
            self.twice(lambda: self.ranges.finish(self.query, [RangeToFinish(0, end)]))

    async def restart_driver(self) -> None:
        self.queries.append(self.ranges.begin())
        assert self.queries[-2] < self.query

    async def zombie(self) -> None:
        if len(self.queries) > 1 and not self.losses:
            number = self.dice.choice(self.queries[:-1])
            start, end = self.begins_at, self.begins_at + self.dice.randint(0, 50)
            request = AheadRequest(0, Uid(self.owner), Epoch(self.epoch), start, 10)
            refused = [LaterQuery(self.query)]
            assert self.ranges.ahead(number, [request]) == refused
            assert self.ranges.log(number, [RangeToLog(0, start, end)]) == refused
            assert self.ranges.finish(number, [RangeToFinish(0, end)]) == refused

    async def jump(self) -> None:
        """Restart the server, without a loss."""
        self.raw.hset(self.keys.progress, "history", f"another {self.dice.random()}")

    async def save(self) -> None:
        """Save the state that a replica has."""
        dumped = {name: self.raw.dump(name) for name in self.raw.keys(f"pq:{{{self.queue.name}}}:*")}
        self.saved = dumped, self.sent

    async def fail_over(self) -> None:
        """Fail over: all later writes are lost."""
        if self.saved is None:
            return
        dumped, sent = self.saved
        for name in self.raw.keys(f"pq:{{{self.queue.name}}}:*"):
            self.raw.delete(name)
        for name, content in dumped.items():
            self.raw.restore(name, 0, content)
        await self.jump()
        self.raw.hset(queue_key(self.queue.name), "queryHistory", "another")
        self.lost |= {str(number).encode() for number in range(sent, self.sent)}
        self.losses += 1
        for batch in self.batches[self.committed :]:
            batch.rows, batch.logged_by = None, 0
        self.tasks.clear()
        self.saved = None
        owner = await self.queue.operator.grant(0, None, Epoch(self.epoch + 1))
        self.epoch, self.owner = owner.epoch, ""

    # What holds

    @property
    def query(self) -> int:
        return self.queries[-1]

    def entries(self, start: int, end: int) -> Rows:
        found: Any = self.raw.xrange(self.keys.stream, "(" + entry_id(start), entry_id(end))
        return {entry_number(entry): fields[b"v"] for entry, fields in found if b"v" in fields}

    def twice(self, ask: Callable[[], Answer]) -> Answer:
        """Ask, and sometimes again as after a lost reply. The answers are equal."""
        answer = ask()
        if self.dice.random() < 0.3:
            assert ask() == answer
        return answer

    def done(self) -> set[bytes]:
        """Return the values that Spark has processed."""
        return {value for batch in self.batches[: self.committed] for value in (batch.rows or {}).values()}

    @promised()
    def all_is_there(self) -> None:
        there = self.entries(0, 2**53)
        assert self.everything() - self.done() - self.acknowledged - self.lost <= set(there.values())
        committed, last, done = (int(word or 0) for word in self.raw.hmget(self.keys.progress, "committed", "last", "done"))
        left = sum(number > committed for number in there)
        assert last - done == left

    def everything(self) -> set[bytes]:
        return {str(number).encode() for number in range(self.sent)}

    async def read_the_rest(self) -> None:
        """Let Spark read all remaining entries."""
        self.tasks.clear()
        self.epoch, self.owner = self.epoch + 1, "a"
        await self.queue.operator.grant(0, Uid("a"), Epoch(self.epoch))
        for _ in range(1000):
            known, idle = len(self.batches), self.committed == len(self.batches)
            await self.driver()
            if idle and known == len(self.batches):
                break
            self.tasks.clear()
            await self.begin_task()
            while self.tasks:
                await self.task()
        await self.finish()

    async def end(self) -> None:
        await self.read_the_rest()
        assert self.everything() == self.done() | self.acknowledged | self.lost
        assert self.entries(0, 2**53) == {}
        set_aside, there = self.raw.xlen(self.keys.dead), self.raw.xlen(self.keys.stream)
        assert self.losses or set_aside + there == self.foreigners
        assert (await self.queue.operator.check()).lag[0] == 0
        assert await self.queue.operator.outstanding(0) == 0
        rows = [number for batch in self.batches for number in batch.rows or {}]
        assert len(rows) == len(set(rows)), "no batch has a row of another"


async def play(kind: type[World], server: RedisServer, seed: int) -> None:
    """Take random steps, then check the end."""
    queue = await make_queue(server.url, 1)
    with queue.raw() as raw:
        world = kind(seed, queue, raw)
        try:
            for _ in range(STEPS):
                await world.step()
            await world.end()
        finally:
            world.ranges.close()
            world.pod.close()
            await queue.close()


@pytest.mark.parametrize("seed", range(10))
async def test_a_batch_always_has_its_rows_and_nothing_is_lost(server: RedisServer, seed: int) -> None:
    await play(World, server, seed)


class SettingAside(World):
    """Batches are set aside in between, and checkpoints are lost. No failovers: those lose dead letters."""

    weights: Mapping[str, float] = {
        "send": 4, "grant": 1, "pause": 1, "driver": 8, "begin_task": 5, "task": 20, "finish": 3, "restart_driver": 1,
        "zombie": 2, "read_singly": 1, "jump": 0.5, "foreign": 0.5, "set_aside": 3, "lose_the_checkpoint": 0.3,
    }  # fmt: skip

    def __init__(self, seed: int, queue: Queue, raw: redis.Redis) -> None:
        super().__init__(seed, queue, raw)
        self.aside: set[int] = set()
        """The starts of batches that were set aside."""
        self.before: set[bytes] = set()
        """Values that were processed under lost checkpoints."""

    def log(self, batch: Batch) -> None:
        if batch.start not in self.aside:
            return super().log(batch)
        answers = self.twice(lambda: self.ranges.log(self.query, [RangeToLog(0, batch.start, batch.end)]))
        assert answers == [SetAside()]
        batch.rows = {}
        self.committed += 1
        self.tasks = [one for one in self.tasks if one.batch is not batch]
        return None

    async def set_aside(self) -> None:
        """Set a failed query's batch aside, and begin another query."""
        if len(self.batches) == self.committed or self.batches[-1].logged_by != self.query:
            return
        batch = self.batches[-1]
        told = [RangeToSetAside(0, batch.start, batch.end, 3)]
        (answer,) = self.twice(lambda: self.ranges.set_aside(self.query, told, "why"))
        if isinstance(answer, SetAside):
            self.aside.add(batch.start)
        else:
            assert isinstance(answer, Unlogged) and self.acknowledged, answer
        self.tasks.clear()
        await self.restart_driver()

    async def lose_the_checkpoint(self) -> None:
        """Processed but unfinished entries are delivered again."""
        self.before = self.done()
        self.tasks.clear()
        await self.restart_driver()
        self.batches.clear()
        self.committed, self.begins_at = 0, self.ranges.positions()[0].committed
        self.before -= set(self.entries(self.begins_at, 2**53).values())

    def letters(self) -> list[bytes]:
        return [letter[b"value"] for letter in self.queue.letters() if letter[b"key"]]

    def done(self) -> set[bytes]:
        return super().done() | self.before

    def all_is_there(self) -> None:
        there, letters = set(self.entries(0, 2**53).values()), self.letters()
        assert len(letters) == len(set(letters))
        assert not set(letters) & (there | self.done())
        assert self.everything() <= there | self.done() | self.acknowledged | set(letters)

    async def end(self) -> None:
        await self.read_the_rest()
        self.ranges.finish(self.query, [RangeToFinish(0, self.begins_at)])
        assert self.everything() == self.done() | self.acknowledged | set(self.letters())
        assert self.entries(0, 2**53) == {}
        assert (await self.queue.operator.check()).lag[0] == 0


@pytest.mark.parametrize("seed", range(6))
async def test_an_entry_is_always_done_in_the_queue_or_a_dead_letter(server: RedisServer, seed: int) -> None:
    await play(SettingAside, server, seed)
