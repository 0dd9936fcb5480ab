"""A topic of Kafka as the driver of a Spark query uses it: executors read ranges of its log, and the driver commits their ends.

The log keeps what was read, so a range can be read again without a record of it. The driver records its number, and up to where
entries may have been handed out, in the owner records beside the group's offsets. An entry's number is its offset plus one, so a
position is the same as a group's offset, that of the next entry.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from baton.model.extras import extra
from baton.queues.kafka.address import read, reader_address
from baton.queues.kafka.record import Committed, Record
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
    RangeToSetAside,
    SetAsideAnswer,
    Stale,
    Unlogged,
)
from baton.queues.protocol import PartitionUnavailable, QueueUnreachable

with extra("kafka"):
    from baton.queues.kafka.client import ASKED_WITHIN, KafkaClient, StaleToken
    from baton.queues.kafka.event_loop import EventLoopThread, each
    from baton.queues.kafka.fence import GRANTED_WITHIN, PartitionTransactions
    from baton.queues.kafka.group_offsets import topic_now, topic_of
    from baton.queues.kafka.topic import LogEnd, Topic, describe, offsets

T = TypeVar("T")

_TRIES = 5
_LOOK_EVERY = 0.02
"""Seconds between two looks for new entries."""
_KNOWN_FOR = 5.0
"""Seconds until the topic is described again, as it may have more partitions."""
_NEVER = 2**63
_NOTHING = Gone(0, -1)
"""The answer for a topic that was recreated, or replaced by another topic of the queue: none of the query's positions is in
it."""
RESERVED = 1000
"""Entries beyond a range that a commit reserves at least, or three times the range. If a driver is killed, so many are marked
redelivered without need."""

Change = Callable[[Committed], tuple[int, Record] | None]
"""Returns the commit that follows this one; None: none."""


class QueryRanges:
    """Answers `KafkaRanges` in its event loop: which ranges exist, up to where entries may be handed out, and what is finished.
    Methods raise QueueUnreachable.

    A query commits under the token in the record, regardless of the owner. So a grant does not end the query, and the broker
    refuses a commit begun before a grant, or before a later query.
    """

    def __init__(self, transactions: PartitionTransactions, queue: str) -> None:
        """`queue`: its name in messages."""
        self._transactions = transactions
        self._client = transactions.client
        self._queue = queue
        self._topic: Topic | None = None
        self._described_at = 0.0
        self.topic_id = ""
        """The topic that the query reads; empty: any. Records of a topic that was recreated since are not changed."""
        self._beginning = 0
        """The number of a query whose `begin` has failed; 0: none."""
        self._ends: dict[int, int] = {}
        """The last known position of each partition."""
        self.waits_from: dict[int, int] = {}
        """Partitions that were read to their end, and their last position then; _NEVER: only a grant helps."""

    async def begin(self) -> int:
        """See `LoggedRanges.begin`. After an error, the next call goes on with the same number: a very large topic takes several
        calls."""
        self.topic_id = (await self.topic(fresh=True)).topic_id
        partitions = await self._partitions()
        found = await self._seen(partitions)
        known = max(map(_query, found.values()), default=0)
        if known > self._beginning or not self._beginning:  # another query has begun meanwhile
            self._beginning = max(time.time_ns() // 1000, known + 1)
        await self.fence(self._beginning, partitions)
        number, self._beginning = self._beginning, 0
        return number

    @property
    def name(self) -> str:
        return self._transactions.topic

    async def topic(self, *, fresh: bool = False) -> Topic:
        """Return the topic as it was a few seconds ago at most; `fresh`: as it is now."""
        if fresh or self._topic is None or time.monotonic() - self._described_at > _KNOWN_FOR:
            self._topic, self._described_at = await describe(self._client, self.name), time.monotonic()
        return self._topic

    async def fence(self, query: int, partitions: Iterable[int]) -> int:
        """See `LoggedRanges.fence`."""
        return max(map(_query, (await self._claimed(query, partitions)).values()), default=query)

    async def check(self) -> None:
        """See `LoggedRanges.check`. Partitions that were never granted have no readers, and are not asked."""
        await self._all_bounds(await self._seen(await self._partitions()))

    async def positions(self) -> dict[int, PartitionBounds]:
        """See `LoggedRanges.positions`. A partition whose record is of a former topic with this name was not granted yet."""
        everything, topic_id = await self._partitions(), self.topic_id or (await self.topic()).topic_id
        owned = await self._seen(everything)
        found = {number: one for number, one in owned.items() if one.record is not None and one.record.topic_id == topic_id}
        begins, ends = await self._all_bounds(everything)
        return {
            number: PartitionBounds(max(found[number].offset, begins[number]), begins[number], ends[number])
            if number in found
            else PartitionBounds(begins[number], begins[number], ends[number], granted=False)
            for number in everything
        }

    async def _all_bounds(self, partitions: Collection[int]) -> tuple[Mapping[int, int], Mapping[int, int]]:
        """Return the ends of these partitions. Raises QueueUnreachable if one has no leader."""
        begins, ends = await self._bounds(partitions)
        if missing := sorted(set(partitions) - (begins.keys() & ends.keys())):
            raise QueueUnreachable(f"{self._client.address.place}: partition {missing[0]} of {self._queue} has no leader")
        return begins, ends

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
        """Return the records and the ends of these partitions. None: the queue was replaced by one with another topic, so no
        partition of this one will be granted; the topic may be gone too."""
        try:
            found, (begins, ends) = await asyncio.gather(self._claimed(query, numbers), self._bounds(numbers))
        except QueueUnreachable:
            if await self._is_elsewhere():
                return None
            raise
        return None if not found and await self._is_elsewhere() else (found, begins, ends)

    async def _is_elsewhere(self) -> bool:
        return await topic_now(self._client, self._queue) not in (None, self.name)

    def _ahead_of(
        self, query: int, asked: AheadRequest, seen: Committed | None, begin: int | None, end: int | None
    ) -> AheadAnswer:
        partition, start = asked.partition, asked.start
        self.waits_from[partition] = _NEVER
        if seen is not None and (later := _later(query, seen)):
            return later
        if seen is not None and self._recreated(seen):
            return _NOTHING
        if seen is None or seen.record is None or (seen.record.uid, seen.record.epoch) != (asked.uid, asked.epoch):
            return Stale()
        if begin is None or end is None:  # it has no leader
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
                f"{self._client.address.place}: partition {missing[0]} of {self._queue} has no leader, or no owner record: "
                "check whether its brokers run, and the conditions of the ConsumerGroup"
            )
        answers: dict[int, LogAnswer] = {}
        reserve: dict[int, Change] = {}
        for one in ranges:
            number = one.partition
            seen, begin, end = found[number], begins[number], ends[number]
            assert seen.record is not None
            if later := _later(query, seen):
                answers[number] = later
            elif self._recreated(seen):
                answers[number] = _NOTHING
            elif one.start < begin or one.end > end:
                answers[number] = Gone(begin + 1, end)
            else:
                answers[number] = Logged(min(one.end, max(seen.record.marked, seen.offset, one.start)))
                if seen.record.reserved < one.end:
                    reserve[number] = _reserving(one)
        for number, seen in (await self._changed(query, reserve, found)).items():
            answers[number] = _later(query, seen) or answers[number]
        return [answers[one.partition] for one in ranges]

    async def finish(self, query: int, ranges: Sequence[RangeToFinish]) -> list[FinishAnswer]:
        found = await self._seen([one.partition for one in ranges])
        unknown = [one.partition for one in ranges if one.end > self._ends.get(one.partition, -1)]
        self._ends |= await self._offsets(LogEnd.END, unknown) if unknown else {}
        there = [one for one in ranges if one.partition in found and one.end <= self._ends.get(one.partition, -1)]
        done = await self._changed(query, {one.partition: _finishing(query, one.end) for one in there}, found)
        return [self._finished(query, one, done.get(one.partition)) for one in ranges]

    def _finished(self, query: int, asked: RangeToFinish, seen: Committed | None) -> FinishAnswer:
        if seen is not None and (later := _later(query, seen)):
            return later
        return Finished() if seen is not None and seen.offset >= asked.end else Unlogged()

    async def news(self, places: Mapping[int, int], seconds: float, interrupted: asyncio.Event) -> set[int]:
        """Return partitions that go beyond these positions, as soon as one does."""
        until = time.monotonic() + seconds
        try:
            while not interrupted.is_set():
                ends = await self._offsets(LogEnd.END, places)
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

    # -- the ends of logs

    async def _bounds(self, partitions: Collection[int]) -> tuple[dict[int, int], dict[int, int]]:
        begins, ends = await asyncio.gather(self._offsets(LogEnd.BEGINNING, partitions), self._offsets(LogEnd.END, partitions))
        self._ends |= ends
        return begins, ends

    async def _offsets(self, place: LogEnd, partitions: Iterable[int]) -> dict[int, int]:
        """Return the offsets of partitions that have a leader, as readers of committed messages see them."""
        topic, asked = await self.topic(), dict.fromkeys(partitions, place)
        try:
            found = await offsets(self._client, topic, asked)
        except QueueUnreachable:
            self._topic = None  # leaders may have changed
            raise
        if found.keys() != asked.keys():
            self._topic = None
        return found

    async def _partitions(self) -> Sequence[int]:
        return sorted((await self.topic()).leaders)

    # -- owner records

    async def _seen(self, partitions: Iterable[int]) -> dict[int, Committed]:
        """Return the records of these partitions. A partition that was never granted has no record and is left out; so is one
        without an owner, as others may set its offset meanwhile."""
        found = await self._transactions.all_stable(tuple(partitions))
        return {number: one for number, one in found.items() if _is_owned(one)}

    async def _claimed(self, query: int, partitions: Iterable[int]) -> dict[int, Committed]:
        """As `_seen`, and each record names this query from now on, or a later one. Earlier queries, and pods that read alone,
        are refused."""
        found = await self._seen(partitions)
        if behind := [number for number, one in found.items() if _query(one) < query and not self._recreated(one)]:
            ends = await self._offsets(LogEnd.END, behind)
            found |= await each(
                lambda number: self._renewed(number, lambda seen: _claimed(seen, query, ends.get(number))), behind
            )
        return found

    async def _changed(self, query: int, changes: Mapping[int, Change], found: Mapping[int, Committed]) -> dict[int, Committed]:
        """Commit these changes, except for records with a later query, and return the resulting commits. `found`: the records as
        read a moment ago."""
        return await each(lambda number: self._change(query, number, changes[number], found[number]), changes)

    async def _change(self, query: int, number: int, change: Change, seen: Committed) -> Committed:
        for _ in range(_TRIES):
            wanted = change(seen) if _is_owned(seen) and _query(seen) <= query and not self._recreated(seen) else None
            if wanted is None:
                return seen
            try:
                await self._transactions.commit(number, *wanted, seen=seen)
                return Committed(*wanted)
            except StaleToken:  # another process is writing its token down, or has ended: then the query takes one
                seen, unchanged = await self._transactions.after_refusal(number, wanted[1].token)
                if unchanged:
                    seen = await self._renewed(number, lambda now: now.record)
        raise self._contended(number)

    async def _renewed(self, number: int, change: Callable[[Committed], Record | None]) -> Committed:
        for _ in range(_TRIES):
            try:
                return await self._transactions.renewed(number, change)
            except StaleToken:
                await asyncio.sleep(GRANTED_WITHIN / _TRIES)
        raise self._contended(number)

    def _contended(self, number: int) -> PartitionUnavailable:
        return PartitionUnavailable(
            f"{self._client.address.place}: partition {number} of {self.name} is granted again and again, or two drivers read "
            f"it: see that the group {self._client.group} has one operator and one driver"
        )

    def _recreated(self, seen: Committed) -> bool:
        """Whether the record is of a later topic with this name: the query's was deleted."""
        return bool(self.topic_id) and seen.record is not None and seen.record.topic_id != self.topic_id


def _is_owned(seen: Committed) -> bool:
    return seen.record is not None and bool(seen.record.group) and seen.record.uid is not None


def _query(seen: Committed) -> int:
    return seen.record.query if seen.record is not None else 0


def _claimed(seen: Committed, query: int, end: int | None) -> Record | None:
    """Return the record for a query that begins. The log ends at `end`; None: the partition has no leader. What was reserved
    before may have been handed out."""
    record = seen.record
    if record is None or not _is_owned(seen) or record.query > query:
        return record  # to get the new token all the same
    again, stale = record.again_for_next(record.reserved if end is None else end), record.stale_for_next()
    return replace(record, query=query, reader="", again=again, stale=stale, reserved=seen.offset, released=False)


def _later(query: int, seen: Committed) -> LaterQuery | None:
    return LaterQuery(seen.record.query) if seen.record is not None and seen.record.query > query else None


def _reserving(one: RangeToLog) -> Change:
    """Return a change that leaves the group's offset where it is."""

    def change(seen: Committed) -> tuple[int, Record] | None:
        if seen.record is None or seen.record.reserved >= one.end:
            return None
        return seen.offset, replace(seen.record, reserved=_reserved(one.start, one.end))

    return change


def _finishing(query: int, end: int) -> Change:
    """Return a change that moves the offset, unless a pod has begun to read alone since: then the record names no query."""

    def change(seen: Committed) -> tuple[int, Record] | None:
        record = seen.record
        if record is None or record.query != query or seen.offset >= end:
            return None
        return end, replace(record.at(end), reserved=max(record.reserved, _reserved(seen.offset, end)))

    return change


def _reserved(start: int, end: int) -> int:
    return end + max(RESERVED, 3 * (end - start))


class KafkaRanges:
    """`LoggedRanges` (baton.queues.logged_ranges) of a topic. Every method raises QueueUnreachable also before the operator's
    first grant."""

    sizes_known = False
    sets_aside = False

    def __init__(self, url: str, queue: str, group: str) -> None:
        """`queue` and `group` are namespace/name."""
        self._url = url
        address = read(url)
        if address.settings:
            raise QueueUnreachable(
                f"The address has the setting {next(iter(address.settings))}, which only applies to pods that read alone: "
                "remove it from the URL of the fleet"
            )
        self._group = address.group or group.replace("/", ".", 1)
        self._queue = queue.rpartition("/")[2]
        self._client = KafkaClient(address, self._group, "baton-spark")
        self._loop = EventLoopThread().user()
        self._interrupted = asyncio.Event()
        self._opened: QueryRanges | None = None

    @property
    def log_id(self) -> str:
        """The brokers' id of the topic."""
        return self._opened.topic_id if self._opened is not None else ""

    def begin(self) -> int:
        """See LoggedRanges. The number is the time in microseconds or more."""
        return self._loop.run(self._begin(), ASKED_WITHIN)

    def fence(self, query: int, partitions: Sequence[int]) -> int:
        return self._ask(lambda topic: topic.fence(query, partitions))

    def check(self) -> None:
        self._ask(lambda topic: topic.check())

    def positions(self) -> Mapping[int, PartitionBounds]:
        return self._ask(lambda topic: topic.positions())

    def ahead(self, query: int, requests: Sequence[AheadRequest]) -> list[AheadAnswer]:
        return self._ask(lambda topic: topic.ahead(query, requests))

    def log(self, query: int, ranges: Sequence[RangeToLog]) -> list[LogAnswer]:
        """See LoggedRanges. Checks that the ranges exist, and records up to where entries may be handed out."""
        return self._ask(lambda topic: topic.log(query, ranges))

    def finish(self, query: int, ranges: Sequence[RangeToFinish]) -> list[FinishAnswer]:
        return self._ask(lambda topic: topic.finish(query, ranges))

    def set_aside(self, query: int, ranges: Sequence[RangeToSetAside], why: str) -> list[SetAsideAnswer]:
        """Not available for topics (`sets_aside`)."""
        raise NotImplementedError

    def wait(self, partitions: Sequence[int], timeout: float) -> set[int]:
        waits_from = self._open().waits_from
        places = {partition: waits_from.get(partition) for partition in partitions}
        woken = {partition for partition, place in places.items() if place is None}
        if not woken:
            known = {partition: place for partition, place in places.items() if place is not None}
            woken = self._ask(lambda topic: topic.news(known, timeout, self._interrupted), timeout + ASKED_WITHIN)
        for partition in woken:
            waits_from.pop(partition, None)
        return woken

    def interrupt(self) -> None:
        self._loop.call(self._interrupted.set)

    def address(self) -> Mapping[str, object]:
        topic = self._ask(lambda ranges: ranges.topic())
        return {"kind": "kafka", "server": reader_address(read(self._url), topic.name, topic.topic_id, self._group)}

    def close(self) -> None:
        self._loop.close(self._client.close)

    # -- the topic

    def _open(self) -> QueryRanges:
        return self._loop.run(self._find(), ASKED_WITHIN)

    async def _begin(self) -> int:
        """Find the topic again, as the PartitionedQueue may have been replaced by one with another topic."""
        topic = await topic_of(self._client, self._queue)
        if self._opened is not None and self._opened.name != topic:
            self._opened = None
        return await (await self._find(topic)).begin()

    async def _find(self, known: str | None = None) -> QueryRanges:
        """`known`: the topic's name, if it was just found."""
        if self._opened is None:
            topic = known or await topic_of(self._client, self._queue)
            self._opened = QueryRanges(PartitionTransactions(self._client, topic), self._queue)
        return self._opened

    def _ask(self, what: Callable[[QueryRanges], Awaitable[T]], within: float = ASKED_WITHIN) -> T:
        async def asked() -> T:
            return await what(await self._find())

        return self._loop.run(asked(), within)
