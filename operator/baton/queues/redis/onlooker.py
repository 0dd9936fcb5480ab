"""Shows entries of a queue on Redis streams as its consumer would see them, by read-only commands."""

import time
from collections.abc import Iterator
from re import ASCII, fullmatch
from typing import Any

from baton.model.ids import Epoch, QueueName
from baton.queues.entry import Entry
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis.connection import client
from baton.queues.redis.dead_letters import partitions_of
from baton.queues.redis.explanations import absent, explained
from baton.queues.redis.headers import unpack
from baton.queues.redis.keys import entry_id, entry_number, partition_keys, queue_key
from baton.queues.redis.producer import RedisProducer
from baton.queues.redis.records import recorded
from baton.queues.redis.url import read

_LOOK_EVERY = 0.2
_AT_ONCE, _BYTES = 100, 4_000_000
"""Limits of one answer: entries, and bytes (a single entry may have more)."""
_PROGRESS = ("last", "committed", "finished", "largest")


class RedisOnlooker:
    """`Onlooker` (baton.queues.onlooker). The rights of an operator, a producer or a consumer suffice."""

    def __init__(self, url: str, queue: str, stands_in: str = "the URL") -> None:
        self._given, self._queue = url, queue
        self._url = read(url, stands_in=stands_in)
        self._client = client(self._url, queue_key(queue))

    def partitions(self) -> int:
        with explained(self._url, self._queue):
            return partitions_of(self._client, self._url, self._queue)

    def peek(self, partition: int, offset: str | None = None) -> Iterator[Entry]:
        """See Onlooker. Yields all unfinished entries, including those that were handed out; finished ones are deleted. Entries
        of a moving slot appear once their old partition has been read up to them."""
        if offset is not None and not fullmatch(r"[0-9]{1,16}(-0)?", offset, ASCII):
            raise ValueError("a Redis queue has offsets such as 1795338000123456-0")
        last, done, largest = self._progress(partition)
        behind = done if offset is None else max(done, entry_number(offset) - 1)
        yield from self._between(partition, behind, last, largest)

    def tail(self) -> Iterator[Entry | None]:
        """See Onlooker. Checks five times a second, so entries that are sent and finished in between are missed."""
        seen = {partition: self._progress(partition)[0] for partition in range(self.partitions())}
        while True:
            yield None
            time.sleep(_LOOK_EVERY)
            known = range(self.partitions())
            with explained(self._url, self._queue), self._client.pipeline(transaction=False) as pipe:
                for partition in known:
                    pipe.hget(partition_keys(self._queue, partition).progress, "last")
                ends = [recorded(raw, "last") for raw in pipe.execute()]
            for partition, end in enumerate(ends):
                if end > seen.get(partition, 0):
                    last, _, largest = self._progress(partition)
                    yield from self._between(partition, seen.get(partition, 0), last, largest)
                    seen[partition] = last

    def producer(self) -> RedisProducer:
        return RedisProducer(self._given, self._queue)

    def close(self) -> None:
        self._client.close()

    def _progress(self, partition: int) -> tuple[int, int, int]:
        """Return the last entry, the entry up to which all are finished, and the size of the largest entry."""
        with explained(self._url, self._queue):
            found: list[Any] = self._client.hmget(partition_keys(self._queue, partition).progress, *_PROGRESS)
            last, committed, finished, largest = map(recorded, found, _PROGRESS)
        if found[0] is None:
            raise QueueUnreachable(absent(self._url, f"partition {partition} of", self._queue))
        return last, max(committed, finished), largest

    def _between(self, partition: int, behind: int, last: int, largest: int) -> Iterator[Entry]:
        """Yield the entries of Baton producers after `behind`, up to `last`."""
        stream = partition_keys(self._queue, partition).stream
        at_once = max(1, min(_AT_ONCE, _BYTES // max(1, largest)))
        start = f"({entry_id(behind)}"
        while True:
            with explained(self._url, self._queue):
                found: Any = self._client.xrange(stream, start, entry_id(last), at_once)
            for offset, fields in found:
                start = f"({offset.decode()}"
                if (entry := self._entry(partition, offset.decode(), fields)) is not None:
                    yield entry
            if len(found) < at_once:
                return

    def _entry(self, partition: int, offset: str, fields: dict[bytes, bytes]) -> Entry | None:
        """None: a Baton producer did not add the entry, so consumers do not see it."""
        of_baton = [*fields] in ([b"k", b"v", b"t"], [b"k", b"v", b"t", b"h"]) and fullmatch(r"[0-9]+-0", offset)
        if not of_baton or not fullmatch(rb"[0-9]{1,16}", fields[b"t"]):
            return None
        name, headers = QueueName(self._queue.rpartition("/")[2]), unpack(fields.get(b"h"))
        return Entry(name, partition, offset, fields[b"k"], fields[b"v"], int(fields[b"t"]), Epoch(0), False, headers)
