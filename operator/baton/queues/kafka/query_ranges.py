"""What a Spark query does with a topic: which ranges there are, up to where entries may be handed out, and what is done with."""

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from baton.queues.kafka.group_offsets import topic_now
from baton.queues.kafka.query_records import Change, QueryRecords
from baton.queues.kafka.record import Committed, Record
from baton.queues.kafka.topic import LogEnd, Topic
from baton.queues.kafka.topic_log import TopicLog
from baton.queues.logged_ranges import (
    Ahead,
    AheadAnswer,
    AheadRequest,
    FinishAnswer,
    Finished,
    Gone,
    LaterQuery,
    LogAnswer,
    Logged,
    PartitionBounds,
    Paused,
    RangeToFinish,
    RangeToLog,
    Stale,
    Unlogged,
)
from baton.queues.protocol import QueueUnreachable

_LOOK_EVERY = 0.02
"""Seconds between two looks for something new."""
_NEVER = 2**63
_NOTHING = Gone(0, -1)
"""Of a topic that was deleted and made again, or of another one that the queue has now: no position of the query's is one of
it."""
RESERVED = 1000
"""Entries beyond a range that a commit reserves at least: so many are marked redelivered without need, at most, where a driver
ends without a word; and three times the range, where that is more."""


class QueryRanges:
    """What `KafkaRanges` is asked, in its event loop. Methods raise QueueUnreachable."""

    def __init__(self, log: TopicLog, records: QueryRecords, queue: str) -> None:
        """`queue`: its name, for people."""
        self._log = log
        self._records = records
        self._queue = queue
        self._beginning = 0
        """The number of a query whose `begin` has not come to its end. 0: there is none."""
        self._ends: dict[int, int] = {}
        """The last position of each partition that was seen."""
        self.waits_from: dict[int, int] = {}
        """By partition that was read to its end: the last position that was there; _NEVER: only a grant helps."""

    async def begin(self) -> int:
        """Where it does not come to its end, the next one goes on with its number: over a very large topic it takes several."""
        self._records.topic_id = (await self._log.topic(fresh=True)).topic_id
        partitions = await self._partitions()
        found = await self._records.seen(partitions)
        known = max((one.record.query for one in found.values() if one.record is not None), default=0)
        if known > self._beginning or not self._beginning:  # another query has begun since
            self._beginning = max(time.time_ns() // 1000, known + 1)
        await self.fence(self._beginning, partitions)
        number, self._beginning = self._beginning, 0
        return number

    @property
    def name(self) -> str:
        """The topic's."""
        return self._log.name

    async def topic(self) -> Topic:
        """As it was a few seconds ago at most."""
        return await self._log.topic()

    async def fence(self, query: int, partitions: Collection[int]) -> int:
        found = await self._records.taken(query, partitions)
        return max((one.record.query for one in found.values() if one.record is not None), default=query)

    async def positions(self) -> dict[int, PartitionBounds]:
        partitions = await self._partitions()
        found = await self._records.seen(partitions)
        if unknown := sorted(set(partitions) - found.keys()):
            raise QueueUnreachable(
                f"{self._log.client.address.place}: partition {unknown[0]} of {self._queue} has no owner yet: wait until the "
                "operator has granted it, or see what the ConsumerGroup says"
            )
        begins, ends = await self._bounds(found)
        if missing := sorted(found.keys() - (begins.keys() & ends.keys())):
            raise QueueUnreachable(f"{self._log.client.address.place}: partition {missing[0]} of {self._queue} has no leader")
        return {
            number: PartitionBounds(max(one.offset, begins[number]), begins[number], ends[number])
            for number, one in sorted(found.items())
        }

    async def ahead(self, query: int, requests: Sequence[AheadRequest]) -> list[AheadAnswer]:
        looked = await self._look(query, [one.partition for one in requests])
        if looked is None:
            return [_NOTHING for _ in requests]
        found, begins, ends = looked
        return [
            self._ahead_of(query, one, found.get(one.partition), begins.get(one.partition), ends.get(one.partition))
            for one in requests
        ]

    async def _look(
        self, query: int, numbers: Sequence[int]
    ) -> tuple[Mapping[int, Committed], Mapping[int, int], Mapping[int, int]] | None:
        """The records of these, and where each begins and ends. None: the queue was replaced by one with another topic, and here
        nobody is granted anything again; the topic may be gone, too."""
        try:
            found, (begins, ends) = await asyncio.gather(self._records.taken(query, numbers), self._bounds(numbers))
        except QueueUnreachable:
            if await self._is_elsewhere():
                return None
            raise
        return None if not found and await self._is_elsewhere() else (found, begins, ends)

    async def _is_elsewhere(self) -> bool:
        return await topic_now(self._log.client, self._queue) not in (None, self.name)

    def _ahead_of(
        self, query: int, asked: AheadRequest, seen: Committed | None, begin: int | None, end: int | None
    ) -> AheadAnswer:
        partition, start = asked.partition, asked.start
        self.waits_from[partition] = _NEVER
        if seen is not None and (later := _later(query, seen)):
            return later
        if seen is not None and self._records.remade(seen):
            return _NOTHING
        if seen is None or seen.record is None or (seen.record.uid, seen.record.epoch) != (asked.uid, asked.epoch):
            return Stale()
        if begin is None or end is None:  # it has no leader just now
            return Paused()
        if start < begin or start > end:
            return Gone(begin + 1, end)
        to = min(end, start + asked.most_entries)
        if to == end:
            self.waits_from[partition] = end
        else:
            self.waits_from.pop(partition, None)
        return Ahead(to, end, start + 1, 0)

    async def log(self, query: int, ranges: Sequence[RangeToLog]) -> list[LogAnswer]:
        numbers = [one.partition for one in ranges]
        looked = await self._look(query, numbers)
        if looked is None:
            return [_NOTHING for _ in ranges]
        found, begins, ends = looked
        if missing := sorted(set(numbers) - (found.keys() & begins.keys() & ends.keys())):
            raise QueueUnreachable(
                f"{self._log.client.address.place}: partition {missing[0]} of {self._queue} has no leader, or no owner record: "
                "see whether its brokers run, and what the ConsumerGroup says"
            )
        answers: dict[int, LogAnswer] = {}
        reserve: dict[int, Change] = {}
        for one in ranges:
            number = one.partition
            seen, begin, end = found[number], begins[number], ends[number]
            assert seen.record is not None
            if later := _later(query, seen):
                answers[number] = later
            elif self._records.remade(seen):
                answers[number] = _NOTHING
            elif one.start < begin or one.end > end:
                answers[number] = Gone(begin + 1, end)
            else:
                answers[number] = Logged(min(one.end, max(seen.record.marked, seen.offset, one.start)))
                if seen.record.reserved < one.end:
                    reserve[number] = _reserving(one)
        for number, seen in (await self._records.changed(query, reserve, found)).items():
            answers[number] = _later(query, seen) or answers[number]
        return [answers[one.partition] for one in ranges]

    async def finish(self, query: int, ranges: Sequence[RangeToFinish]) -> list[FinishAnswer]:
        found = await self._records.seen([one.partition for one in ranges])
        unknown = [one.partition for one in ranges if one.end > self._ends.get(one.partition, -1)]
        self._ends |= await self._log.offsets(LogEnd.END, unknown) if unknown else {}
        there = [one for one in ranges if one.partition in found and one.end <= self._ends.get(one.partition, -1)]
        done = await self._records.changed(query, {one.partition: _finishing(query, one.end) for one in there}, found)
        return [self._finished(query, one, done.get(one.partition)) for one in ranges]

    def _finished(self, query: int, asked: RangeToFinish, seen: Committed | None) -> FinishAnswer:
        if seen is not None and (later := _later(query, seen)):
            return later
        return Finished() if seen is not None and seen.offset >= asked.end else Unlogged()

    async def news(self, places: Mapping[int, int], seconds: float, interrupted: asyncio.Event) -> set[int]:
        """Those of these partitions that go beyond these places, as soon as one does."""
        until = time.monotonic() + seconds
        try:
            while not interrupted.is_set():
                ends = await self._log.offsets(LogEnd.END, places)
                if woken := {partition for partition, end in ends.items() if end > places[partition]}:
                    return woken
                if (left := until - time.monotonic()) <= 0:
                    return set()
                try:
                    async with asyncio.timeout(min(left, _LOOK_EVERY)):
                        await interrupted.wait()
                except TimeoutError:
                    continue
        finally:
            interrupted.clear()
        return set()

    async def _bounds(self, partitions: Collection[int]) -> tuple[dict[int, int], dict[int, int]]:
        """Where each begins and ends."""
        begins, ends = await asyncio.gather(
            self._log.offsets(LogEnd.BEGINNING, partitions), self._log.offsets(LogEnd.END, partitions)
        )
        self._ends |= ends
        return begins, ends

    async def _partitions(self) -> Sequence[int]:
        return sorted((await self._log.topic()).leaders)


def _later(query: int, seen: Committed) -> LaterQuery | None:
    return LaterQuery(seen.record.query) if seen.record is not None and seen.record.query > query else None


def _reserving(one: RangeToLog) -> Change:
    """The group's offset stays where it is."""

    def change(seen: Committed) -> tuple[int, Record] | None:
        if seen.record is None or seen.record.reserved >= one.end:
            return None
        return seen.offset, replace(seen.record, reserved=_reserved(one.start, one.end))

    return change


def _finishing(query: int, end: int) -> Change:
    """Not where a pod has begun to read alone since: the record names no query then."""

    def change(seen: Committed) -> tuple[int, Record] | None:
        record = seen.record
        if record is None or record.query != query or seen.offset >= end:
            return None
        return end, replace(record.at(end), reserved=max(record.reserved, _reserved(seen.offset, end)))

    return change


def _reserved(start: int, end: int) -> int:
    return end + max(RESERVED, 3 * (end - start))
