"""A topic as its brokers describe it: partitions, their leaders, and where they begin and end."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from aiokafka.protocol.offset import OffsetRequest

from baton.queues.kafka.answers import PASSING, Code
from baton.queues.kafka.client import BrokerLost, KafkaClient
from baton.queues.kafka.messages import TopicMetadata
from baton.queues.protocol import QueueUnreachable

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
    answer = await client.to_anybody(TopicMetadata(name))
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
            if code == Code.NONE:
                found[number] = offset
            elif code not in PASSING and code != Code.UNKNOWN_TOPIC_OR_PARTITION:
                raise client.refused("the question for offsets", code, topic)
    return found


async def both_ends(client: KafkaClient, topic: Topic, partitions: Iterable[int]) -> tuple[dict[int, int], dict[int, int]]:
    """Where the logs of these partitions begin and end, as of `offsets`."""
    asked = [offsets(client, topic, dict.fromkeys(partitions, one)) for one in (LogEnd.BEGINNING, LogEnd.END)]
    begins, ends = await asyncio.gather(*asked)
    return begins, ends
