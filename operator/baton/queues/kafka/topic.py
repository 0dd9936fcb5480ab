"""A topic as its brokers describe it: its partitions, their leaders and the ends of their logs, and a group's offsets in them."""

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
from baton.queues.protocol import PartitionUnavailable, QueueUnreachable

# -- The description of a topic.

_FIRST_LEADER = 0
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
_NO_REPLICA = -1


class LogEnd(IntEnum):
    """The ends of a partition's log, as requests name them."""

    END = -1
    BEGINNING = -2


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic's description."""

    name: str
    topic_id: str
    leaders: Mapping[int, int]
    """The broker that leads each partition; -1: none."""
    racks: Mapping[int, str] = field(default_factory=dict)
    """The rack of each partition's preferred leader, if known. That is the first of the replicas, which leads unless it is away;
    then the rack of the present leader."""

    @property
    def partitions(self) -> int:
        return len(self.leaders)


async def describe(client: KafkaClient, name: str, refused: Callable[[int], QueueUnreachable] | None = None) -> Topic:
    """Describe a topic. Raises QueueUnreachable if it does not exist, or the user may not see it: the error that `refused`
    returns for the code, by default that the group cannot read it."""
    answer = await client.to_any(TopicMetadata(name))
    code, _, topic_id, _, partitions, *_ = answer.topics[0]
    if code:
        raise refused(int(code)) if refused is not None else client.refused("Metadata", code, name)
    racks = {node: rack for node, _, _, rack, _ in answer.brokers if rack}
    near: dict[int, str] = {}
    for _, number, leader, _, replicas, *_ in partitions:
        if rack := racks.get(replicas[0] if replicas else leader) or racks.get(leader):
            near[number] = rack
    return Topic(name, topic_id, {number: leader for _, number, leader, *_ in partitions}, near)


async def offsets(client: KafkaClient, topic: Topic, places: Mapping[int, int], *, uncommitted: bool = False) -> dict[int, int]:
    """Return the offset at a place of each partition, as readers of committed messages see it, or of all messages if
    `uncommitted`. A place is a LogEnd, or a time (milliseconds since 1970), which stands for the first message not older, or -1.
    Partitions without a leader, or whose leader has just changed or is away, are left out."""
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
                raise client.refused("ListOffsets", code, topic)
    return found


def without_leader(client: KafkaClient, topic: str, partition: int) -> PartitionUnavailable:
    """Return the error for a partition that `offsets` leaves out."""
    return PartitionUnavailable(
        f"{client.address.place}: partition {partition} of {topic} has no leader: check whether all brokers run"
    )


async def both_ends(client: KafkaClient, topic: Topic, partitions: Iterable[int]) -> tuple[dict[int, int], dict[int, int]]:
    """Return where these partitions' logs begin and end, as `offsets` does."""
    asked = [offsets(client, topic, dict.fromkeys(partitions, one)) for one in (LogEnd.BEGINNING, LogEnd.END)]
    begins, ends = await asyncio.gather(*asked)
    return begins, ends


# -- A group's offsets against the logs: what is left to do, and what is lost. Pure.


class CutOff(NamedTuple):
    """A log that ends before the group's offset."""

    place: int
    end: int
    """The end as first seen: what was sent since is behind it."""


def lag(committed: Mapping[int, Committed], begins: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, int]:
    """Return how many entries are not finished, of each partition whose log's end is known."""
    at = {number: one.offset if one.offset >= 0 else begins.get(number, 0) for number, one in committed.items()}
    return {number: max(0, end - max(at[number], begins.get(number, 0))) for number, end in ends.items()}


def offsets_of(
    committed: Mapping[int, Committed], begins: Mapping[int, int], ends: Mapping[int, int]
) -> dict[int, PartitionOffsets]:
    """Return the offsets of each partition whose log's ends are known. Only its owner knows how much it has in hand."""
    behind = lag(committed, begins, ends)
    return {
        number: PartitionOffsets(
            at if (at := committed[number].offset) >= 0 else None, begins[number], ends[number], entries, None
        )
        for number, entries in sorted(behind.items())
        if number in begins
    }


def unfinished(committed: Mapping[int, Committed], ends: Mapping[int, int]) -> dict[int, tuple[str, int]]:
    """See `QueueCheck.unfinished`. The present owner counts as one that the entry was handed out to."""
    found = {
        number: (one.offset, one.record.ends_for_next(one.offset, ends.get(number, 0)))
        for number, one in committed.items()
        if one.record is not None
    }
    return {number: (str(offset), times[offset]) for number, (offset, times) in found.items() if times.get(offset, 0) > 1}


def lost_entries(committed: Mapping[int, Committed], begins: Mapping[int, int]) -> dict[int, int]:
    """Return how many unfinished entries were deleted at most, of each partition with any."""
    found = {number: begins.get(number, 0) - one.offset for number, one in committed.items() if one.offset >= 0}
    return {number: count for number, count in sorted(found.items()) if count > 0}


def cut_off(committed: Mapping[int, Committed], ends: Mapping[int, int], before: Mapping[int, CutOff]) -> dict[int, CutOff]:
    """Return the partitions whose log ends before the group's offset. One in `before` stays as long as the offset does: new
    entries do not move it."""
    found = {number: CutOff(one.offset, ends.get(number, one.offset)) for number, one in committed.items()}
    still = {number: cut for number, cut in before.items() if number in found and found[number].place == cut.place}
    return {number: cut for number, cut in sorted((found | still).items()) if cut.place > cut.end}


# -- Warnings about a group's offsets in a topic, with the cure. Pure.

_NAMED = 3
"""Partitions that a message details at most."""


def place_warnings(cluster: str, group: str, topic: str, lost: Mapping[int, int], cuts: Mapping[int, CutOff]) -> tuple[str, ...]:
    """Return warnings with their cure. `lost`: how many unfinished entries of each partition were deleted. `cuts`: partitions
    whose log was cut off."""
    found = []
    if lost:
        found.append(
            f"{cluster}: the offset of the group {group} in partitions {format_numbers(lost)} of {topic} is gone: up to "
            f"{sum(lost.values())} entries were deleted before they were finished, by the topic's retention or by a user. Their "
            "owners wait: set the offset with `baton offsets reset`, as the guide to Kafka describes, and keep entries longer"
        )
    if cuts:
        told = ", ".join(f"partition {number} at {cut.end}, not {cut.place}" for number, cut in list(cuts.items())[:_NAMED])
        found.append(
            f"{cluster}: in partitions {format_numbers(cuts)} of {topic} the log ends before the offset of the group {group} "
            f"({told}): the log was cut off, because a lagging replica leads or a disk was restored, or a user set the offset. "
            "Their owners wait until the log is as long again, and skip what is sent until then: set the offset to "
            "the end with `baton offsets reset --to latest`, as the guide to Kafka describes"
        )
    return tuple(found)


# -- Abandoned foreign transactions: entries behind one cannot be read, and an offset committed in one is unknown.

_LONG = 60.0
"""Seconds. By default (transaction.timeout.ms), transactions of Kafka's own producers are aborted by then."""


class OpenTransactions:
    """Foreign transactions in one topic, and over one group's offsets in it."""

    def __init__(self, client: KafkaClient, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._begun: dict[int, tuple[int, float]] = {}
        """For each partition whose log goes on behind an open transaction: where that begins, and since when it is seen
        (monotonic)."""
        self._over_place: Collection[int] = ()

    def saw(self, ends: Mapping[int, int], last: Mapping[int, int], over_place: Collection[int]) -> None:
        """`ends`: the ends of the logs for readers of committed messages. `last`: the ends for all messages. `over_place`:
        partitions with a foreign commit of their offset under way."""
        now = time.monotonic()
        found = {number: end for number, end in ends.items() if last.get(number, end) > end}
        before = {number: one for number, one in self._begun.items() if found.get(number) == one[0]}
        self._begun = {number: (end, now) for number, end in found.items()} | before
        self._over_place = over_place

    def warnings(self) -> tuple[str, ...]:
        """Return warnings about transactions that have been open for long."""
        cluster, topic, found = self._client.address.place, self._topic, list[str]()
        since = time.monotonic() - _LONG
        if long := {number: begin for number, (begin, seen) in sorted(self._begun.items()) if seen <= since}:
            number, begin = next(iter(long.items()))
            found.append(
                f"{cluster}: a producer has had a transaction open for more than {_LONG:.0f} s in partitions "
                f"{format_numbers(long)} of {topic} (in {number} since offset {begin}). Messages after that offset are "
                "not delivered to readers of committed messages, and count as no lag, until it ends: "
                f"{TOOL} describe-producers --topic {topic} --partition {number} shows its ProducerId, and {TOOL} list whose "
                f"that is. Let that program end it, or end it with {TOOL} forceTerminateTransaction --transactionalId; if the "
                f"list lacks that id, with {TOOL} abort --topic {topic} --partition {number} --start-offset {begin}"
            )
        if self._over_place:
            found.append(f"{cluster}: {foreign_transaction(self._client.group, topic, format_numbers(self._over_place))}")
        return tuple(found)
