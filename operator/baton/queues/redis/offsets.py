"""Reads a group's offsets in the partitions of a queue, and moves them forward.

They cannot be moved back, because finished entries are deleted."""

from collections.abc import Callable, Iterable, Mapping
from re import fullmatch
from typing import NamedTuple, TypeVar

from baton.model.ids import Epoch
from baton.queues.offsets import PartitionOffsets, Reached
from baton.queues.protocol import Claimant, QueueConflict
from baton.queues.redis import records, scripts
from baton.queues.redis.batches import ScriptRun
from baton.queues.redis.explanations import claimed_by_other
from baton.queues.redis.keys import ANY_PARTITION, PartitionKeys, partition_keys, queue_key
from baton.queues.redis.transport import Transport

T = TypeVar("T")

_BEGINNING = (-1, 0)
_AT_ONCE = 64
"""Partitions per script, so that the server is blocked for only a few milliseconds."""


class WaitingEntries(NamedTuple):
    """The unfinished entries of a partition."""

    age: float | None
    """Seconds since the oldest unfinished entry was sent. None: there is no entry to read."""
    vanished: int
    """Entries that vanished unfinished and were not counted before."""
    oldest: str
    """The oldest unfinished entry that was handed out; empty: none."""
    times: int
    """How often the oldest entry was handed out."""


class OffsetScripts:
    """Scripts for the offsets of one queue (`namespace/name`) and one group. Methods raise QueueUnreachable."""

    def __init__(self, transport: Transport, queue: str, claimant: Claimant, keys: Callable[[int], PartitionKeys]) -> None:
        self._transport = transport
        self._queue = queue
        self._claimant = claimant
        self._keys = keys

    async def offsets(self, count: int) -> Mapping[int, PartitionOffsets]:
        """Return the offsets of the first `count` partitions, leaving out those that do not exist."""
        found = await self._look(range(count), _offsets)
        return {partition: one for partition, one in found.items() if one is not None}

    async def waiting(self, partitions: Iterable[int]) -> Mapping[int, WaitingEntries]:
        """Return the unfinished entries of each of these partitions."""
        return await self._look(partitions, _waiting)

    async def _look(self, partitions: Iterable[int], read: Callable[[object], T]) -> dict[int, T]:
        """Run one script for each 64 partitions. A script that has looked at much data stops early, and the rest is asked
        again."""
        keys = partition_keys(self._queue, ANY_PARTITION)
        left, found = list(partitions), dict[int, T]()
        while left:
            parts = [left[begin : begin + _AT_ONCE] for begin in range(0, len(left), _AT_ONCE)]
            runs = [ScriptRun(scripts.OFFSETS, keys, part, weight=len(part)) for part in parts]
            answered = await self._transport.all(self._transport.asking, runs, records.some(read))
            for part, answers in zip(parts, answered, strict=True):
                found |= zip(part, answers, strict=False)
            left = [partition for partition in left if partition not in found]
        return found

    async def reach(self, partition: int, end: int, since: int | None) -> Reached:
        """See SetsOffsets."""
        behind, entries = _BEGINNING, 0
        while True:
            arguments = ("" if behind == _BEGINNING else "{}-{}".format(*behind), end, "" if since is None else since)
            answer = await self._transport.run(scripts.REACH, self._keys(partition), arguments, records.scalars(3))
            with self._transport.explained():
                entries += records.recorded(answer[1], "entries")
                if not answer[2]:
                    return Reached(records.recorded(answer[0], "offset"), entries)
                before, behind = behind, _entry(answer[2])
                if behind <= before:
                    raise records.OddAnswerError("an entry that is not after the previous one")

    async def skip(self, partition: int, epoch: Epoch, offset: int) -> None:
        """See SetsOffsets.set_offset."""
        await self._check_claim()
        answer: bytes | None = b"MORE"
        while answer == b"MORE":
            run = ScriptRun(scripts.SKIP, self._keys(partition), (epoch, offset))
            answer = await self._transport.batched(self._transport.durably, records.text, run)
        if answer != b"OK":
            raise QueueConflict(f"{self._queue}/{partition} {_REFUSED.get(answer, 'is no partition of this queue')}")

    async def _check_claim(self) -> None:
        """Raises QueueConflict if the queue belongs to another group."""
        group, uid = await self._transport.fields(queue_key(self._queue), "group", "uid")
        if uid != self._claimant.uid.encode():
            raise QueueConflict(claimed_by_other(self._queue, self._claimant, group, uid or b""))


_REFUSED: Mapping[bytes | None, str] = {
    b"GRANTED": "was granted to another pod meanwhile",
    b"OUTSIDE": "has no such entry (any more)",
}


def _entry(raw: bytes | int | None) -> tuple[int, int]:
    """Parse an entry's id into its two numbers. Raises OddAnswerError."""
    found = fullmatch(rb"([0-9]{1,20})-([0-9]{1,20})", raw) if isinstance(raw, bytes) else None
    if found is None:
        raise records.OddAnswerError("no entry where one belongs")
    return int(found[1]), int(found[2])


def _offsets(raw: object) -> PartitionOffsets | None:
    if raw == []:
        return None
    first, end, lag, pending = (records.recorded(one, "offsets") for one in records.scalars(8)(raw)[:4])
    return PartitionOffsets(first, first, end, max(0, lag), pending)


def _waiting(raw: object) -> WaitingEntries:
    if raw == []:
        return WaitingEntries(None, 0, "", 0)
    *_, age, vanished, oldest, times = records.scalars(8)(raw)
    return WaitingEntries(
        None if age == b"" else records.recorded(age, "offsets") / 1000,
        records.recorded(vanished, "offsets"),
        "{}-{}".format(*_entry(oldest)) if oldest else "",
        records.recorded(times, "offsets"),
    )
