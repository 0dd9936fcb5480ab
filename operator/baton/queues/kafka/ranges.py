"""A topic of Kafka, as the driver of a Spark query sees it: executors read ranges of its log, and the driver commits their ends.

The log keeps what was read, so nothing has to be recorded for a range to be read again. What the driver records is its number
and up to where entries may have been handed out: in the owner records, beside the group's offsets. An entry's number is its
offset and one: so a position is what Kafka calls the offset of a group, that of the next entry.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from baton.model.extras import extra
from baton.queues.kafka.address import read
from baton.queues.kafka.reader_address import reader_address
from baton.queues.logged_ranges import (
    AheadAnswer,
    AheadRequest,
    FinishAnswer,
    LogAnswer,
    PartitionBounds,
    RangeToFinish,
    RangeToLog,
    RangeToSetAside,
    SetAsideAnswer,
)
from baton.queues.protocol import QueueUnreachable

with extra("kafka"):
    from baton.queues.kafka.client import ASKED_WITHIN, KafkaClient
    from baton.queues.kafka.event_loop import EventLoopThread
    from baton.queues.kafka.group_offsets import topic_of
    from baton.queues.kafka.query_ranges import QueryRanges
    from baton.queues.kafka.query_records import QueryRecords
    from baton.queues.kafka.topic_log import TopicLog
    from baton.queues.kafka.transaction import PartitionTransactions

T = TypeVar("T")


class KafkaRanges:
    """`LoggedRanges` (baton.queues.spark_side) of a topic. Every method raises QueueUnreachable, also where the operator has not
    granted any of its partitions yet, and may be repeated after that. One thread asks; another may be in `wait` meanwhile."""

    sizes_known = False
    sets_aside = False

    def __init__(self, url: str, queue: str, group: str) -> None:
        """`queue` and `group` are namespace/name."""
        self._url = url
        address = read(url)
        if address.settings:
            raise QueueUnreachable(
                f"The address has the setting {next(iter(address.settings))}, which is of the client of pods that read alone: "
                "take it out of the URL that the fleet is given"
            )
        self._group = address.group or group.replace("/", ".", 1)
        self._queue = queue.rpartition("/")[2]
        self._client = KafkaClient(address, self._group, "baton-spark")
        self._loop = EventLoopThread("baton-kafka-ranges")
        self._interrupted = asyncio.Event()
        self._opened: QueryRanges | None = None

    def begin(self) -> int:
        """The number of a query that begins: the time in microseconds, or more. All earlier ones are refused from now on."""
        return self._loop.run(self._begin(), ASKED_WITHIN)

    def fence(self, query: int, partitions: Sequence[int]) -> int:
        """The latest query that one of these partitions knows: `query`, unless that is over. Earlier ones are refused then."""
        return self._ask(lambda topic: topic.fence(query, partitions))

    def positions(self) -> Mapping[int, PartitionBounds]:
        """Of all partitions, once each has been granted: before, nobody knows where the group begins in it."""
        return self._ask(lambda topic: topic.positions())

    def ahead(self, query: int, requests: Sequence[AheadRequest]) -> list[AheadAnswer]:
        """In the order of the requests. The sizes of entries are not known."""
        return self._ask(lambda topic: topic.ahead(query, requests))

    def log(self, query: int, ranges: Sequence[RangeToLog]) -> list[LogAnswer]:
        """In their order. They are there, and it is recorded up to where entries may be handed out. The same range may be logged
        again."""
        return self._ask(lambda topic: topic.log(query, ranges))

    def finish(self, query: int, ranges: Sequence[RangeToFinish]) -> list[FinishAnswer]:
        """In their order: the group's offset goes to their ends. To finish once more changes nothing."""
        return self._ask(lambda topic: topic.finish(query, ranges))

    def set_aside(self, query: int, ranges: Sequence[RangeToSetAside], why: str) -> list[SetAsideAnswer]:
        """Not over a topic (`sets_aside`)."""
        raise NotImplementedError

    def wait(self, partitions: Sequence[int], timeout: float) -> set[int]:
        """Wait until there is something new in one of these partitions. Answers which; the empty set after `timeout` seconds. One
        that `ahead` was not asked for, or not up to its end, ends the wait at once."""
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
        """End the wait that another thread is in, or the next one."""
        self._loop.call(self._interrupted.set)

    def address(self) -> Mapping[str, object]:
        """What a reader needs to know of the queue, fit for JSON: with the password, so never to be shown."""
        topic = self._ask(lambda ranges: ranges.topic())
        return {"kind": "kafka", "server": reader_address(read(self._url), topic.name, topic.topic_id, self._group)}

    def close(self) -> None:
        """Close the connections."""
        self._loop.close(self._client.close)

    # -- the topic

    def _open(self) -> QueryRanges:
        return self._loop.run(self._find(), ASKED_WITHIN)

    async def _begin(self) -> int:
        """The topic may be another one by now: the PartitionedQueue was replaced."""
        topic = await topic_of(self._client, self._queue)
        if self._opened is not None and self._opened.name != topic:
            self._opened = None
        return await (await self._find(topic)).begin()

    async def _find(self, known: str | None = None) -> QueryRanges:
        """`known`: the topic's name, where it has just been asked for."""
        if self._opened is None:
            topic = known or await topic_of(self._client, self._queue)
            log = TopicLog(self._client, topic)
            records = QueryRecords(PartitionTransactions(self._client, topic), log)
            self._opened = QueryRanges(log, records, self._queue)
        return self._opened

    def _ask(self, what: Callable[[QueryRanges], Awaitable[T]], within: float = ASKED_WITHIN) -> T:
        async def asked() -> T:
            return await what(await self._find())

        return self._loop.run(asked(), within)
