"""Putting entries into a partitioned queue on Redis streams: in order per key, and once each, whatever happens on the way."""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from secrets import token_hex
from typing import Any, NamedTuple, Self
from weakref import WeakSet

from redis.exceptions import NoScriptError, RedisError

from baton.queues.protocol import QueueUnreachable
from baton.queues.redis import scripts
from baton.queues.redis.connection import absent, client, explain, passing
from baton.queues.redis.headers import Headers, pack
from baton.queues.redis.keys import partition_keys, queue_key
from baton.queues.redis.routing import RoutingTable, slot_of
from baton.queues.redis.url import read

_BATCH = 200
"""Entries per script: long ones keep others waiting."""
_BATCH_BYTES = 1_000_000
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0


class _Numbered(NamedTuple):
    producer: str
    """Who counts: for each slot the queue knows the last sequence."""
    slot: int
    sequence: int
    key: bytes
    value: bytes
    headers: bytes
    """Packed."""


class RedisProducer:
    """Sends entries to a queue (`namespace/name`); safe to use from several threads, and on both sides of a fork.

    Entries of one key stay in the order in which they were sent. A call that returned has its entries in the queue, once:
    retries after a lost connection make no duplicates. A call that raised (QueueUnreachable, after `patience` seconds) may have
    put some of them there.
    """

    def __init__(self, url: str, queue: str, *, patience: float = 30.0) -> None:
        """`patience`: for how long a call tries again while the server is down, full, or the queue not made yet. Seconds."""
        self._queue = queue
        self._url = read(url, own=True)
        self._patience = patience
        self._client = client(self._url, queue_key(queue))
        self._table: RoutingTable | None = None
        self._count_from_one()
        _producers.add(self)

    def _count_from_one(self) -> None:
        """In a new process. The queue would take what two processes send under one name and sequence for one entry."""
        self._name = token_hex(6)
        self._sequences: Counter[int] = Counter()
        self._lock = threading.Lock()
        self._held_up: set[int] = set()
        """Moving slots whose entries a thread is to send again: no other thread sends any of these slots meanwhile."""

    def send(self, key: bytes | str, value: bytes | str, headers: Headers | None = None) -> None:
        """`headers`: what goes beside them, such as a trace's context: names (str) and values (bytes or str)."""
        self.send_many([(key, value, headers)])

    def send_many(
        self, entries: Iterable[tuple[bytes | str, bytes | str] | tuple[bytes | str, bytes | str, Headers | None]]
    ) -> None:
        """Send (key, value) or (key, value, headers); many at once cost far less each than one by one. Raises TypeError for
        anything else than bytes or str, before anything is sent."""
        deadline = time.monotonic() + self._patience
        given = [(_bytes(key, "key"), _bytes(value, "value"), pack(*headers)) for key, value, *headers in entries]
        placed = [(slot_of(key), key, value, packed) for key, value, packed in given]
        self._deliver(deadline, {slot for slot, *_ in placed}, lambda: [self._number(*each) for each in placed])

    def send_again(self, entries: Iterable[tuple[str, bytes, bytes, bytes]]) -> None:
        """Send (name, key, value, packed headers), each under a name of its own: the queue takes it once within an hour, whoever
        sends it under this name, however often."""
        deadline = time.monotonic() + self._patience
        waiting = [_Numbered(name, slot_of(key), 1, key, value, headers) for name, key, value, headers in entries]
        self._deliver(deadline, {entry.slot for entry in waiting}, lambda: waiting)

    def _deliver(self, deadline: float, slots: set[int], numbered: Callable[[], list[_Numbered]]) -> None:
        """`numbered`: what there is to send, all of it of these slots."""
        waiting: list[_Numbered] | None = None
        held_up: set[int] = set()
        pause = _FIRST_PAUSE
        try:
            while True:
                if not self._lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
                    raise QueueUnreachable(self._busy())
                try:
                    if waiting is None and slots.isdisjoint(self._held_up):
                        waiting = numbered()
                    self._held_up -= held_up
                    held_up = set()
                    problem = self._busy()
                    while waiting is not None:
                        waiting, problem, moving = self._try(waiting)
                        if not waiting:
                            return
                        problem = f"{problem} {len(waiting)} entries may not have been sent."
                        if moving:
                            held_up = {entry.slot for entry in waiting}
                            self._held_up |= held_up
                            break
                        pause = _rest(pause, deadline, problem)
                finally:
                    self._lock.release()
                pause = _rest(pause, deadline, problem)
        finally:
            self._held_up -= held_up

    def _busy(self) -> str:
        return f"{self._url.place}: other threads have kept this producer busy for {self._patience:g} s."

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _number(self, slot: int, key: bytes, value: bytes, headers: bytes) -> _Numbered:
        self._sequences[slot] += 1
        return _Numbered(self._name, slot, self._sequences[slot], key, value, headers)

    def _try(self, waiting: list[_Numbered]) -> tuple[list[_Numbered], str, bool]:
        """Send what is waiting; what is left of it, in order, and why; and whether only its slots are in the way."""
        try:
            table = self._table or self._read_table()
            if table is None:
                return waiting, absent(self._url, "queue", self._queue), False
            moved = self._send(table, waiting)
        except (RedisError, OSError) as error:
            why = explain(error, self._url, self._queue)
            if not passing(error):
                raise QueueUnreachable(why) from None
            return waiting, why, False  # what had been added before the error is recognised by its sequence number
        if moved:
            self._table = None
        return moved, f"The slots of some keys of {self._queue} are moving between partitions.", True

    def _send(self, table: RoutingTable, waiting: list[_Numbered]) -> list[_Numbered]:
        """One pass over all partitions; what was refused because its slot has moved, in order.

        Of one partition only one batch is on its way at a time: a batch behind a refused one must not overtake it.
        """
        by_partition: dict[int, list[_Numbered]] = {}
        for entry in waiting:
            by_partition.setdefault(table.partitions[entry.slot], []).append(entry)
        queues = {partition: _batches(entries) for partition, entries in by_partition.items()}
        refused: set[int] = set()
        while batches := {partition: batch for partition, rest in queues.items() if (batch := next(rest, None))}:
            batches = {partition: [entry for entry in batch if entry.slot not in refused] for partition, batch in batches.items()}
            for partition, positions in self._add({p: batch for p, batch in batches.items() if batch}).items():
                refused.update(batches[partition][position].slot for position in positions)
        return [entry for entry in waiting if entry.slot in refused]

    def _add(self, batches: dict[int, list[_Numbered]]) -> dict[int, list[int]]:
        """Per partition, the positions in its batch that it refused."""
        requests = {partition: self._request(partition, batch) for partition, batch in batches.items()}
        if len(requests) == 1:  # as with a single entry, which would cost half as much again in a pipeline
            return {partition: scripts.ADD.run(self._client, *request) for partition, request in requests.items()}
        with self._client.pipeline(transaction=False) as pipe:
            for keys, arguments in requests.values():
                pipe.evalsha(scripts.ADD.sha, len(keys), *keys, *arguments)
            answers: dict[int, Any] = dict(zip(requests, pipe.execute(raise_on_error=False), strict=True))
        for partition, answer in answers.items():
            if isinstance(answer, NoScriptError):
                answers[partition] = scripts.ADD.run(self._client, *requests[partition])
            elif isinstance(answer, Exception):
                raise answer
        return answers

    def _request(self, partition: int, batch: Sequence[_Numbered]) -> tuple[Sequence[str], Sequence[Any]]:
        """Keys and arguments."""
        return partition_keys(self._queue, partition), (batch[0].producer, *(field for entry in batch for field in entry[1:]))

    def _read_table(self) -> RoutingTable | None:
        fields: list[Any] = self._client.hmget(queue_key(self._queue), "version", "table")
        version, text = fields
        ready = version is not None and text is not None
        self._table = RoutingTable.from_text(int(version), text.decode()) if ready else None
        return self._table


def _batches(entries: Sequence[_Numbered]) -> Iterator[list[_Numbered]]:
    """What one script takes: of one producer each."""
    batch: list[_Numbered] = []
    size = 0
    for entry in entries:
        full = len(batch) == _BATCH or size + len(entry.value) + len(entry.headers) > _BATCH_BYTES
        if batch and (full or entry.producer != batch[0].producer):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += len(entry.key) + len(entry.value) + len(entry.headers)
    if batch:
        yield batch


def _rest(pause: float, deadline: float, problem: str) -> float:
    """Sleep before the next try; how long to sleep after it. Raises QueueUnreachable if there is no time for one."""
    if time.monotonic() + pause > deadline:
        raise QueueUnreachable(problem)
    time.sleep(pause)
    return min(pause * 2, _LONGEST_PAUSE)


def _bytes(text: bytes | str, what: str) -> bytes:
    if isinstance(text, str):
        return text.encode()
    if isinstance(text, bytes):
        return text
    raise TypeError(f"a {what} is bytes or str, not {type(text).__name__}")


_producers: WeakSet[RedisProducer] = WeakSet()
"""Of this process, and what it has of the one that it was forked from."""


def _forked() -> None:
    for producer in list(_producers):
        producer._count_from_one()


os.register_at_fork(after_in_child=_forked)
