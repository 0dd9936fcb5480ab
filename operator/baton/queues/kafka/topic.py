"""A topic as its brokers describe it: partitions, their leaders, where they begin and end, and where a group is in them."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from confluent_kafka import KafkaError as Code

from baton.model.ranges import format_numbers
from baton.queues.kafka.client import PASSING, BrokerLost, KafkaClient, OffsetRequest, TopicMetadata, foreign_transaction
from baton.queues.kafka.client import TRANSACTIONS_TOOL as TOOL
from baton.queues.kafka.record import Committed
from baton.queues.offsets import PartitionOffsets
from baton.queues.protocol import QueueUnreachable

# -- A topic as its brokers describe it: partitions, their leaders, and where they begin and end.

_FIRST_LEADER = 0
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
_NO_REPLICA = -1


class LogEnd(IntEnum):
    """The two ends of a partition's log, as requests name them."""

    END = -1
    BEGINNING = -2


@dataclass(frozen=True, slots=True)
class Topic:
    """As it is now."""

    name: str
    topic_id: str
    leaders: Mapping[int, int]
    """The broker that leads each partition; -1: none does."""
    racks: Mapping[int, str] = field(default_factory=dict)
    """Of each partition whose preferred leader has a rack: that one. It is the first of the replicas, and leads unless it is
    away; then it is the rack of the broker that leads."""

    @property
    def partitions(self) -> int:
        return len(self.leaders)


async def describe(client: KafkaClient, name: str, refused: Callable[[int], QueueUnreachable] | None = None) -> Topic:
    """Raises QueueUnreachable where there is no such topic, or the user may not see it: what `refused` makes of the error code,
    or that the group cannot read it."""
    answer = await client.to_any(TopicMetadata(name))
    code, _, topic_id, _, partitions, *_ = answer.topics[0]
    if code:
        raise refused(int(code)) if refused is not None else client.refused("the question for the topic", code, name)
    racks = {node: rack for node, _, _, rack, _ in answer.brokers if rack}
    near: dict[int, str] = {}
    for _, number, leader, _, replicas, *_ in partitions:
        if rack := racks.get(replicas[0] if replicas else leader) or racks.get(leader):
            near[number] = rack
    return Topic(name, topic_id, {number: leader for _, number, leader, *_ in partitions}, near)


async def offsets(client: KafkaClient, topic: Topic, places: Mapping[int, int], *, uncommitted: bool = False) -> dict[int, int]:
    """The offset at a place of each partition, as a reader of committed messages sees it, or one of all. A place is a LogEnd, or
    a time (milliseconds since 1970): of the first message that is not older; -1: all are. Partitions without a leader, or whose
    leader has just changed or is away, are left out."""
    isolation = _READ_UNCOMMITTED if uncommitted else _READ_COMMITTED
    by_leader: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, place in places.items():
        if (leader := topic.leaders.get(number, -1)) >= _FIRST_LEADER:
            by_leader[leader].append((number, int(place)))
    asked = [_offsets(client, topic.name, leader, those, isolation) for leader, those in by_leader.items()]
    return {number: offset for found in await asyncio.gather(*asked) for number, offset in found.items()}


async def _offsets(
    client: KafkaClient, topic: str, leader: int, places: Collection[tuple[int, int]], isolation: int
) -> dict[int, int]:
    found: dict[int, int] = {}
    try:
        answer = await client.to_broker(leader, OffsetRequest(_NO_REPLICA, isolation, [(topic, list(places))]))
    except BrokerLost:
        return found
    for _, partitions in answer.topics:
        for number, code, _, offset, *_ in partitions:
            if code == Code.NO_ERROR:
                found[number] = offset
            elif code not in PASSING and code != Code.UNKNOWN_TOPIC_OR_PART:
                raise client.refused("the question for offsets", code, topic)
    return found


async def both_ends(client: KafkaClient, topic: Topic, partitions: Iterable[int]) -> tuple[dict[int, int], dict[int, int]]:
    """Where the logs of these partitions begin and end, as of `offsets`."""
    asked = [offsets(client, topic, dict.fromkeys(partitions, one)) for one in (LogEnd.BEGINNING, LogEnd.END)]
    begins, ends = await asyncio.gather(*asked)
    return begins, ends


# -- Where a group is in the logs of a topic's partitions: what is still to be done, and what cannot be done any more. Pure.


class CutOff(NamedTuple):
    """A log that ends before the place of the group."""

    place: int
    end: int
    """As it was seen first: what was sent since is behind it."""


def lag(committed: Mapping[int, Committed], begins: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, int]:
    """Entries that are not done, of each partition whose log's end is known."""
    at = {number: one.offset if one.offset >= 0 else begins.get(number, 0) for number, one in committed.items()}
    return {number: max(0, end - max(at[number], begins.get(number, 0))) for number, end in ends.items()}


def offsets_of(
    committed: Mapping[int, Committed], begins: Mapping[int, int], ends: Mapping[int, int]
) -> dict[int, PartitionOffsets]:
    """Of each partition whose log's ends are known. What its owner has in hand only the owner knows."""
    behind = lag(committed, begins, ends)
    return {
        number: PartitionOffsets(
            at if (at := committed[number].offset) >= 0 else None, begins[number], ends[number], entries, None
        )
        for number, entries in sorted(behind.items())
        if number in begins
    }


def unfinished(committed: Mapping[int, Committed], ends: Mapping[int, int]) -> dict[int, tuple[str, int]]:
    """See `QueueCheck.unfinished`: the owner that reads now counts as one that was handed it out."""
    found = {
        number: (one.offset, one.record.ends_for_next(one.offset, ends.get(number, 0)))
        for number, one in committed.items()
        if one.record is not None
    }
    return {number: (str(offset), times[offset]) for number, (offset, times) in found.items() if times.get(offset, 0) > 1}


def lost_entries(committed: Mapping[int, Committed], begins: Mapping[int, int]) -> dict[int, int]:
    """Of each partition of which entries were deleted that the group had not done, how many that are at most."""
    found = {number: begins.get(number, 0) - one.offset for number, one in committed.items() if one.offset >= 0}
    return {number: count for number, count in sorted(found.items()) if count > 0}


def cut_off(committed: Mapping[int, Committed], ends: Mapping[int, int], before: Mapping[int, CutOff]) -> dict[int, CutOff]:
    """Of each partition whose log ends before the group's place. One that did so `before` does it as long as the offset stays
    the same, because entries that were not read do not move it."""
    found = {number: CutOff(one.offset, ends.get(number, one.offset)) for number, one in committed.items()}
    stands = {number: cut for number, cut in before.items() if number in found and found[number].place == cut.place}
    return {number: cut for number, cut in sorted((found | stands).items()) if cut.place > cut.end}


# -- What is wrong with the place of a group in a topic, in sentences with the cure. Pure.

_NAMED = 3
"""Partitions of which a sentence says more."""


def place_warnings(cluster: str, group: str, topic: str, lost: Mapping[int, int], cuts: Mapping[int, CutOff]) -> tuple[str, ...]:
    """`lost`: partitions of which entries were deleted that were not done, and how many. `cuts`: those whose log was cut off."""
    found = []
    if lost:
        found.append(
            f"{cluster}: the offset of the group {group} in partitions {format_numbers(lost)} of {topic} is gone: up to "
            f"{sum(lost.values())} entries were deleted before they were finished, by the topic's retention or by a user. Their "
            "owners wait: set the offset again by `baton offsets reset`, as the guide to Kafka says, and keep entries longer"
        )
    if cuts:
        told = ", ".join(f"partition {number} at {cut.end}, not {cut.place}" for number, cut in list(cuts.items())[:_NAMED])
        found.append(
            f"{cluster}: in partitions {format_numbers(cuts)} of {topic} the log ends before the offset of the group {group} "
            f"({told}): the log was cut off, because a lagging replica leads or a disk was restored, or a user set the offset. "
            "Their owners wait until the log is as long again, and skip what is sent until then: set the offset to "
            "the end by `baton offsets reset --to latest`, as the guide to Kafka says"
        )
    return tuple(found)


# -- Abandoned transactions of others: entries behind one cannot be read, and an offset under one is unknown.

_LONG = 60.0
"""Seconds: a transaction of Kafka's own producers is aborted by then, unless they are told otherwise (transaction.timeout.ms)."""


class OpenTransactions:
    """Of one topic, and of one group's place in it."""

    def __init__(self, client: KafkaClient, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._begun: dict[int, tuple[int, float]] = {}
        """By partition whose log goes on behind an open transaction: where that begins, and since when it is seen (monotonic)."""
        self._over_place: Collection[int] = ()

    def saw(self, ends: Mapping[int, int], last: Mapping[int, int], over_place: Collection[int]) -> None:
        """`ends`: where each partition ends for who reads committed messages. `last`: where it does. `over_place`: partitions of
        whose place a commit is under way that is none of Baton's."""
        now = time.monotonic()
        found = {number: end for number, end in ends.items() if last.get(number, end) > end}
        before = {number: one for number, one in self._begun.items() if found.get(number) == one[0]}
        self._begun = {number: (end, now) for number, end in found.items()} | before
        self._over_place = over_place

    def warnings(self) -> tuple[str, ...]:
        """Those that are open for long."""
        cluster, topic, said = self._client.address.place, self._topic, []
        since = time.monotonic() - _LONG
        if long := {number: begin for number, (begin, seen) in sorted(self._begun.items()) if seen <= since}:
            number, begin = next(iter(long.items()))
            said.append(
                f"{cluster}: a producer has had a transaction open for more than {_LONG:.0f} s in partitions "
                f"{format_numbers(long)} of {topic} (in {number} since offset {begin}). Messages after that offset are "
                "not delivered to readers of committed messages, and count as no lag, until it ends: "
                f"{TOOL} describe-producers --topic {topic} --partition {number} shows its ProducerId, and {TOOL} list whose "
                f"that is. Let that program end it, or end it by {TOOL} forceTerminateTransaction --transactionalId; if the "
                f"list lacks that id, by {TOOL} abort --topic {topic} --partition {number} --start-offset {begin}"
            )
        if self._over_place:
            said.append(f"{cluster}: {foreign_transaction(self._client.group, topic, format_numbers(self._over_place))}")
        return tuple(said)
