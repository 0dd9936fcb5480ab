"""A Spark query's side of a queue in tests: the driver logs and finishes ranges, tasks read them as the JVM does."""

from collections.abc import Iterator
from dataclasses import dataclass

import redis

from baton.model.ids import Epoch, Uid
from baton.queues.logged_ranges import Ahead, AheadRequest, Logged, RangeToLog
from baton.queues.redis import scripts
from baton.queues.redis.keys import PartitionKeys, entry_id, partition_keys
from baton.queues.redis.ranges import RedisRanges, keys_of_ranges
from baton.queues.redis.scripts import Script
from tests.integration.redis.conftest import Queue
from tests.redis_command import command


class RefusedError(Exception):
    """The queue does not let a task read: its first word says why."""


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
        """The values, of what a producer of Baton's added. Raises RefusedError."""
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
        """How it was answered (owner or lent), and the entries."""
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
    """What a script that acts on many partitions answers of one."""
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
    """How far a range may go, which the queue says."""
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
