"""Listing, reading, redriving and dropping the dead letters of a queue."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from re import fullmatch
from typing import Any, Self

from baton.queues.dead_letters import Letter, LetterId, LetterLine, Redriven
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis import scripts
from baton.queues.redis.connection import client
from baton.queues.redis.explanations import absent, explained
from baton.queues.redis.headers import unpack
from baton.queues.redis.keys import PartitionKeys, partition_keys, queue_key
from baton.queues.redis.producer import RedisProducer
from baton.queues.redis.records import count
from baton.queues.redis.url import RedisUrl, read

PAGE = 100
"""Dead letters per request, and per redrive or drop."""
_BYTES = 4_000_000
"""Limit of the values in memory at once (a single one may be larger)."""
_SHOWN = 300
"""Bytes of a key or a reason in a list."""
_FIRST, _LAST = "-", "+"


@dataclass(frozen=True, slots=True)
class _StoredLetter(Letter):
    packed_headers: bytes


class RedisDeadLetters:
    """`DeadLetters` (baton.queues.dead_letters) of one queue (`namespace/name`). Needs only the rights of a producer."""

    def __init__(self, url: str, queue: str, stands_in: str = "the URL") -> None:
        self._queue = queue
        self._url = read(url, stands_in=stands_in)
        self._client = client(self._url, queue_key(queue))
        self._producer = RedisProducer(url, queue)

    def counts(self) -> dict[int, int]:
        with explained(self._url, self._queue), self._client.pipeline(transaction=False) as pipe:
            partitions = partitions_of(self._client, self._url, self._queue)
            for partition in range(partitions):
                pipe.xlen(self._keys(partition).dead)
            return dict(enumerate(pipe.execute()))

    def until_now(self) -> str:
        with explained(self._url, self._queue):
            seconds, microseconds = self._client.time()
        return f"{seconds * 1000 + microseconds // 1000}-{2**63 - 1}"

    def page(self, partition: int, after: LetterId | None = None, limit: int = PAGE, last: str = _LAST) -> list[LetterLine]:
        first = f"({after.entry}" if after is not None else _FIRST
        with explained(self._url, self._queue):
            found = scripts.LETTERS.run(self._client, self._keys(partition), [first, last, min(limit, PAGE), _SHOWN])
            return [_summary(partition, raw) for raw in found]

    def every(self, partition: int, last: str = _LAST) -> Iterator[list[LetterLine]]:
        after = None
        while page := self.page(partition, after, last=last):
            yield page
            after = page[-1].letter

    def find(self, letter: LetterId) -> Letter | None:
        [found] = self._read([letter])
        return found

    def redrive(self, letters: Sequence[LetterId]) -> Redriven:
        """Send dead letters to the end of the queue, in this order, as a producer does. Each is removed when the queue has it.

        May be repeated after an error: entries that the queue accepted within the last hour are not added twice.
        """
        found = self._read(letters)
        good = [one for one in found if one is not None and one.timestamp is not None]
        self._producer.send_again((_name(one.letter), one.key, one.value, one.packed_headers) for one in good)
        self.drop([one.letter for one in good])
        missing = found.count(None)
        return Redriven(len(good), len(letters) - len(good) - missing, missing)

    def portions(self, letters: Iterable[LetterLine]) -> Iterator[list[LetterId]]:
        portion: list[LetterId] = []
        size = 0
        for one in letters:
            if portion and (len(portion) == PAGE or size + one.size > _BYTES):
                yield portion
                portion, size = [], 0
            portion.append(one.letter)
            size += one.size
        if portion:
            yield portion

    def drop(self, letters: Iterable[LetterId]) -> int:
        by_partition: dict[int, list[str]] = {}
        for partition, entry in letters:
            by_partition.setdefault(partition, []).append(entry)
        with explained(self._url, self._queue), self._client.pipeline(transaction=False) as pipe:
            for partition, entries in by_partition.items():
                pipe.xdel(self._keys(partition).dead, *entries)
            return sum(pipe.execute())

    def close(self) -> None:
        self._producer.close()
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _read(self, letters: Sequence[LetterId]) -> list[_StoredLetter | None]:
        with explained(self._url, self._queue), self._client.pipeline(transaction=False) as pipe:
            for partition, entry in letters:
                pipe.xrange(self._keys(partition).dead, entry, entry)
            answers = pipe.execute()
        return [_letter(one, answer[0][1]) if answer else None for one, answer in zip(letters, answers, strict=True)]

    def _keys(self, partition: int) -> PartitionKeys:
        return partition_keys(self._queue, partition)


def partitions_of(server: Any, url: RedisUrl, queue: str) -> int:
    """Return the number of partitions, former ones included. Raises QueueUnreachable if the queue does not exist, and
    RedisError."""
    fields: list[Any] = server.hmget(queue_key(queue), "partitions", "most")
    if fields[0] is None:
        raise QueueUnreachable(absent(url, "queue", queue))
    return max(count(each) for each in fields if each is not None)


def _name(letter: LetterId) -> str:
    """The producer name for redriving the letter, by which the queue recognizes a repetition."""
    return f"dead-{letter.partition}-{letter.entry}"


def _summary(partition: int, raw: Sequence[Any]) -> LetterLine:
    entry, offset, key, key_size, size, timestamp, deliveries, why = raw
    return LetterLine(
        LetterId(partition, _text(entry)),
        _text(offset),
        key,
        key_size,
        size,
        _number(timestamp),
        _number(deliveries),
        _text(why),
    )


def _letter(letter: LetterId, fields: dict[bytes, bytes]) -> _StoredLetter:
    packed = fields.get(b"headers", b"")
    return _StoredLetter(
        letter,
        _text(fields.get(b"offset", b"")),
        fields.get(b"key", b""),
        fields.get(b"value", b""),
        _number(fields.get(b"timestamp", b"")),
        _number(fields.get(b"deliveries", b"")),
        _text(fields.get(b"why", b"")),
        unpack(packed),
        packed,
    )


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def _number(raw: bytes) -> int | None:
    return int(raw) if fullmatch(rb"[0-9]{1,15}", raw) else None
