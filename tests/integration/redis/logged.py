"""A Spark query's side of a queue in tests: the driver logs and finishes ranges, tasks read them as the JVM does."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import redis

from baton.model.ids import Epoch, Uid
from baton.queues.logged_ranges import (
    Ahead,
    AheadRequest,
    Gone,
    Logged,
    PartitionBounds,
    RangeToFinish,
    RangeToLog,
    RangeToSetAside,
)
from baton.queues.redis import scripts
from baton.queues.redis.keys import PartitionKeys, entry_id, partition_keys
from baton.queues.redis.ranges import RedisRanges, keys_of_ranges
from baton.queues.redis.scripts import Script
from tests.integration.redis.conftest import Queue
from tests.redis_command import command


class RefusedError(Exception):
    """The queue refused a task's read. The first word is the reason."""


@dataclass(frozen=True)
class Task:
    """One attempt of a task that reads one range, in pages."""

    query: int
    start: int
    end: int
    uid: str = ""
    epoch: int = 0
    evaluation: str = "1.0"
    attempt: int = 1
    executor: str = "1"
    partition: int = 0

    def rows(self, raw: redis.Redis, queue: str, page: int = 100) -> list[bytes]:
        """Return the values of entries that a Baton producer added. Raises RefusedError."""
        return [fields[b"v"] for entry_id, fields in self.entries(raw, queue, page) if entry_id.endswith(b"-0")]

    def entries(self, raw: redis.Redis, queue: str, page: int = 100) -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
        """One page after the other."""
        after = entry_id(self.start).encode()
        while True:
            _, found = self.page(raw, queue, after, page)
            yield from found
            if len(found) < page:
                return
            after = found[-1][0]

    def page(
        self, raw: redis.Redis, queue: str, after: bytes, page: int = 100
    ) -> tuple[str, list[tuple[bytes, dict[bytes, bytes]]]]:
        """Return the answer (owner or lent) and the entries."""
        keys = partition_keys(queue, self.partition)
        command(raw, "SCRIPT", "LOAD", scripts.READING.text)
        with raw.pipeline(transaction=False) as pipe:
            arguments = (self.query, self.uid, self.epoch, self.start, self.end, self.evaluation, self.attempt, self.executor)
            pipe.xrange(keys.stream, b"(" + after, entry_id(self.end), count=page)
            pipe.evalsha(scripts.READING.sha, len(keys), *keys, *arguments)
            found, answer = pipe.execute()
        if answer[0] != b"OK":
            raise RefusedError(*(word.decode() if isinstance(word, bytes) else word for word in answer))
        return answer[1].decode(), found


def words_of_one(raw: redis.Redis, script: Script, keys: PartitionKeys, *arguments: object) -> list[str]:
    """Return the answer of a script for many partitions, for one of them."""
    answer: bytes = script.run(raw, (*keys_of_ranges(keys), keys.never), (len(arguments), *arguments))
    return answer.decode().split(" ")


def ahead(
    ranges: RedisRanges,
    query: int,
    owner: tuple[str, int],
    start: int,
    *,
    most: int = 100,
    most_bytes: int = 0,
    partition: int = 0,
) -> Ahead:
    """Return how far the queue lets a range reach."""
    uid, epoch = owner
    (answer,) = ranges.ahead(query, [AheadRequest(partition, Uid(uid), Epoch(epoch), start, most, most_bytes)])
    assert isinstance(answer, Ahead), answer
    return answer


def logged(ranges: RedisRanges, query: int, start: int, end: int, partition: int = 0) -> Logged:
    (answer,) = ranges.log(query, [RangeToLog(partition, start, end)])
    assert isinstance(answer, Logged), answer
    return answer


def ranges_of(queue: Queue) -> RedisRanges:
    return RedisRanges(queue.url, queue.name)


class Query:
    """A Spark query over partition 0, which pod a owns at epoch 1. Positions count from where the query begins."""

    def __init__(self, queue: Queue, ranges: RedisRanges, raw: redis.Redis) -> None:
        self.queue, self.ranges, self.raw, self.keys = queue, ranges, raw, partition_keys(queue.name, 0)
        self.number, self.start = ranges.begin(), ranges.positions()[0].committed

    def gone(self, first: int, last: int) -> Gone:
        return Gone(self.start + first, self.start + last)

    def bounds(self) -> PartitionBounds:
        return self.ranges.positions()[0]

    def asks(self, start: int = 0, uid: str = "a", epoch: int = 1, most: int = 10) -> object:
        (answer,) = self.ranges.ahead(self.number, [AheadRequest(0, Uid(uid), Epoch(epoch), self.start + start, most)])
        return answer

    def ahead(self, start: int = 0, **bounds: int) -> Ahead:
        return ahead(self.ranges, self.number, ("a", 1), self.start + start, **bounds)

    def end(self, start: int = 0, **bounds: int) -> int:
        """Return how far a range may reach."""
        return self.ahead(start, **bounds).end - self.start

    def log(self, start: int, end: int, **options: bool) -> object:
        (answer,) = self.ranges.log(self.number, [RangeToLog(0, self.start + start, self.start + end, **options)])
        return answer

    def logged(self, start: int, end: int) -> None:
        assert isinstance(answer := self.log(start, end), Logged), answer

    def finish(self, end: int) -> object:
        (answer,) = self.ranges.finish(self.number, [RangeToFinish(0, self.start + end)])
        return answer

    def set_aside(self, start: int, end: int, why: str) -> object:
        (answer,) = self.ranges.set_aside(self.number, [RangeToSetAside(0, self.start + start, self.start + end, 3)], why)
        return answer

    def task(self, start: int, end: int, *owner: Any, **attempt: Any) -> Task:
        return Task(self.number, self.start + start, self.start + end, *owner, **attempt)

    def rows(self, start: int, end: int, *owner: Any, **attempt: Any) -> list[bytes]:
        return self.task(start, end, *owner, **attempt).rows(self.raw, self.queue.name)

    def words(self, script: Script, *positions: int, more: Sequence[object] = ()) -> list[str]:
        """The answer of one run of a script, which may have to be run again."""
        return words_of_one(self.raw, script, self.keys, self.number, *(self.start + one for one in positions), *more)

    def add_foreign(self, position: int, count: int = 1, field: str = "hand") -> None:
        """Add entries by hand, after the entry at this position."""
        with self.raw.pipeline() as pipe:
            for nth in range(count):
                pipe.xadd(self.keys.stream, {"by": field}, id=f"{self.start + position}-{nth + 1}")
            pipe.execute()

    def delete(self, *positions: int) -> None:
        self.raw.xdel(self.keys.stream, *(entry_id(self.start + one) for one in positions))

    def jump(self) -> None:
        """Let the numbers jump, as after a restart of the server."""
        self.raw.hset(self.keys.progress, "history", "another one")

    async def counts(self) -> tuple[int, int, int]:
        """Dead letters, entries in the stream, and the lag."""
        lag = (await self.queue.operator.check()).lag[0]
        return self.raw.xlen(self.keys.dead), self.raw.xlen(self.keys.stream), lag
