"""What is compared: a queue of Baton's with our producer and consumer, and as many bare streams with redis-py."""

import asyncio
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import IO, TypeAlias

import redis

from baton.model.ids import Epoch, QueueName
from baton.model.ledger import MemberEntry
from baton.queues.protocol import Claimant
from baton.queues.redis import RedisProducer, RedisQueue
from baton.queues.redis.routing import RoutingTable
from tests.bench.readers import BARE_GROUP, GROUP, POD, UID, bare_streams
from tests.processes import ChildProcess

_Field: TypeAlias = "bytes | bytearray | memoryview[int] | str | int | float"
Fields: TypeAlias = "dict[_Field, _Field]"
"""As redis-py takes them: a dict of bytes alone is none of these to a type checker."""
_EPOCH = Epoch(1)
_AT_ONCE = 200
"""Entries in one round trip of a producer."""
_LENGTH = 100
"""Bytes of a value."""
_ROOT = Path(__file__).parents[2]


class Reading:
    """A consumer's process."""

    def __init__(self, process: "subprocess.Popen[str]", answers: IO[str], asks: IO[str]) -> None:
        self._process, self._answers, self._asks = process, answers, asks

    def begin(self) -> None:
        print("go", file=self._asks, flush=True)

    def answer(self) -> str:
        """The next line. Raises RuntimeError where the process has ended."""
        if not (line := self._answers.readline()):
            raise RuntimeError(f"the consumer's process ended with status {self._process.wait()}")
        return line

    def worked(self) -> float:
        """Seconds of processor time of its threads, up to now. (Linux; 0 elsewhere.)"""
        tasks = Path(f"/proc/{self._process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


class Side(ABC):
    """A queue with so many partitions, empty, and its producer."""

    name: str

    def __init__(self, url: str, queue: str, partitions: int, folder: Path) -> None:
        """`queue` is namespace/name. `folder`: an empty one."""
        self.url, self.queue, self.partitions, self.folder = url, queue, partitions, folder
        table = RoutingTable.even(1, partitions)
        found: dict[int, bytes] = {}
        for number in range(1_000_000):
            found.setdefault(table.partition_of(b"key-%d" % number), b"key-%d" % number)
            if len(found) == partitions:
                break
        self.keys = [found[number] for number in range(partitions)]

    @abstractmethod
    def send(self, number: int) -> None:
        """An entry that says when it was sent, to the partition `number`."""

    @abstractmethod
    def fill(self, numbers: Sequence[int]) -> None:
        """Entries for these partitions, in one call of a producer."""

    @abstractmethod
    def linger(self, number: int) -> None:
        """An entry that goes with others, in one request (200 of them with redis-py)."""

    @abstractmethod
    def flush(self) -> None:
        """All of these are in the queue then."""

    @abstractmethod
    def unfinished(self) -> int:
        """Entries that are not acknowledged."""

    @abstractmethod
    def close(self) -> None: ...

    def fill_evenly(self, count: int) -> None:
        numbers = islice(cycle(range(self.partitions)), count)
        while some := list(islice(numbers, _AT_ONCE)):
            self.fill(some)

    @contextmanager
    def reading(self, count: int = 0) -> Iterator[Reading]:
        """A process that is ready to begin (readers.py)."""
        arguments = (self.name, self.url, self.queue, self.partitions, self.folder, count)
        command = [sys.executable, "-m", "tests.bench.readers", *map(str, arguments)]
        with ChildProcess(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None and process.stdout is not None
            reading = Reading(process, process.stdout, process.stdin)
            try:
                reading.answer()
                yield reading
            finally:
                process.stdin.close()  # this ends it
                process.wait()


class Ours(Side):
    """Baton's."""

    name = "ours"

    def __init__(self, url: str, queue: str, partitions: int, folder: Path) -> None:
        super().__init__(url, queue, partitions, folder)
        asyncio.run(self._make())
        grants = {QueueName(queue.partition("/")[2]): dict.fromkeys(range(partitions), _EPOCH)}
        (folder / POD).write_text(MemberEntry(GROUP, POD, UID, 1, True, grants, {}).to_json())
        self._producer = RedisProducer(url, queue)

    async def _make(self) -> None:
        operator = RedisQueue(self.url, self.queue, Claimant(GROUP, "uid-of-the-group"))
        try:
            await operator.ensure(self.partitions)
            await asyncio.gather(*(operator.grant(number, UID, _EPOCH) for number in range(self.partitions)))
        finally:
            await operator.close()

    def send(self, number: int) -> None:
        self._producer.send(self.keys[number], _value())

    def fill(self, numbers: Sequence[int]) -> None:
        self._producer.send_many((self.keys[number], _value()) for number in numbers)

    def linger(self, number: int) -> None:
        self._producer.produce(self.keys[number], _value())

    def flush(self) -> None:
        self._producer.flush()

    def unfinished(self) -> int:
        return asyncio.run(self._lag())

    async def _lag(self) -> int:
        operator = RedisQueue(self.url, self.queue, Claimant(GROUP, "uid-of-the-group"))
        try:
            return sum((await operator.check()).lag.values())
        finally:
            await operator.close()

    def close(self) -> None:
        self._producer.close()


class Bare(Side):
    """redis-py alone: XADD, XREADGROUP and XACK."""

    name = "bare"

    def __init__(self, url: str, queue: str, partitions: int, folder: Path) -> None:
        super().__init__(url, queue, partitions, folder)
        self._streams = bare_streams(queue, partitions)
        self._client = redis.Redis.from_url(url, protocol=2)
        self._pipe = self._client.pipeline(transaction=False)
        for stream in self._streams:
            self._client.xgroup_create(stream, BARE_GROUP, id="0", mkstream=True)

    def send(self, number: int) -> None:
        self._client.xadd(self._streams[number], self._fields(number))

    def fill(self, numbers: Sequence[int]) -> None:
        with self._client.pipeline(transaction=False) as pipe:
            for number in numbers:
                pipe.xadd(self._streams[number], self._fields(number))
            pipe.execute()

    def linger(self, number: int) -> None:
        self._pipe.xadd(self._streams[number], self._fields(number))
        if len(self._pipe) == _AT_ONCE:
            self._pipe.execute()

    def flush(self) -> None:
        self._pipe.execute()

    def unfinished(self) -> int:
        groups = [self._client.xinfo_groups(stream)[0] for stream in self._streams]
        return sum(int(group["pending"]) + int(group["lag"] or 0) for group in groups)

    def close(self) -> None:
        self._client.close()

    def _fields(self, number: int) -> Fields:
        return {b"k": self.keys[number], b"v": _value()}


def _value() -> bytes:
    return b"%020d" % time.monotonic_ns() + b"." * (_LENGTH - 20)
