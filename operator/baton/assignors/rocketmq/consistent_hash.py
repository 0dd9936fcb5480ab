"""RocketMQ's AllocateMessageQueueConsistentHash: members stand on a ring of hashes, and a partition goes to the next one.

Few partitions move when a member comes or goes. The hashes decide how even the shares are.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from hashlib import md5
from re import findall
from typing import Annotated

from pydantic import AfterValidator, Field

from baton.assignors.building_blocks.queue_by_queue import Deal, queue_by_queue
from baton.assignors.contract import AssignorError
from baton.assignors.declaration import Declaration, Option
from baton.assignors.fields import Text, Whole
from baton.assignors.request import Answer, Request
from baton.model.ids import MemberId, QueueName

VIRTUAL_NODES = 10
"""How many points on the ring a member has (RocketMQ's default)."""
MOST_VIRTUAL_NODES = 10_000
MOST_POINTS = 1_000_000
"""On all rings of one request: some 50 MB of memory and a second of work."""
PARTITION_KEY = "{queue}-{partition}"
"""What is hashed of a partition. RocketMQ hashes `MessageQueue [topic=…, brokerName=…, queueId=…]`; there are no brokers here."""


def consistent_hash(request: Request) -> Answer:
    """Exactly RocketMQ's answer for the same keys. Options: virtualNodes (0: nobody gets anything), partitionKey. Raises
    AssignorError where the rings would have more than MOST_POINTS."""
    return queue_by_queue(request, sorted(request.members), _around_the_ring(request))


def _around_the_ring(request: Request) -> Deal:
    points = request.options.get("virtualNodes", VIRTUAL_NODES)
    pattern = request.options.get("partitionKey", PARTITION_KEY)
    assert isinstance(points, int) and isinstance(pattern, str)
    _check_room(request, points)
    rings: dict[tuple[MemberId, ...], list[int]] = {}

    def deal(queue: QueueName, numbers: Sequence[int], readers: Sequence[MemberId]) -> Iterable[Sequence[int]]:
        there = tuple(readers)
        if there not in rings:
            rings[there] = _ring(there, points)
        ring = rings[there]
        owned_by: list[list[int]] = [[] for _ in readers]
        around = [text.replace("{queue}", queue) for text in pattern.split("{partition}")]
        for number in numbers if ring else ():
            owned_by[next_on(ring, _hash(str(number).join(around)))].append(number)
        return owned_by

    return deal


def _check_room(request: Request, points: int) -> None:
    """Raises AssignorError where the rings are too large: there is one for each set of readers."""
    fleets = {frozenset(name for name, one in request.members.items() if queue in one.subscribed) for queue in request.queues}
    if points * sum(map(len, fleets)) > MOST_POINTS:
        raise AssignorError(
            "consistent-hash",
            f"puts {points:,} points of each member on a ring, and so many members would have more than {MOST_POINTS:,}: give a "
            "lower virtualNodes",
        )


def _ring(readers: Sequence[MemberId], points: int) -> list[int]:
    """The points in order. Each is one number: the hash, then the reader's index."""
    return sorted(_hash(f"{name}-{point}") << 32 | place for place, name in enumerate(readers) for point in range(points))


def next_on(ring: Sequence[int], key: int) -> int:
    """The index of the reader at the next point from a key on. Where points coincide, the last reader has it."""
    found = bisect_left(ring, key << 32)
    meeting = (ring[found] if found < len(ring) else ring[0]) >> 32
    return ring[bisect_left(ring, meeting + 1 << 32) - 1] & 0xFFFFFFFF


def _hash(key: str) -> int:
    """The first four bytes of the MD5, as RocketMQ takes them."""
    return int.from_bytes(md5(key.encode(), usedforsecurity=False).digest()[:4])


def _names_the_partition(pattern: str) -> str:
    if "{partition}" not in pattern:
        raise ValueError(f"{pattern!r} is the same for every partition; it needs {{partition}}")
    for word in findall(r"\{(\w*)\}", pattern):
        if word not in ("queue", "partition"):
            raise ValueError(f"there is no {{{word}}}; there are {{queue}} and {{partition}}")
    return pattern


_OPTIONS = {
    "virtualNodes": Option(Annotated[Whole, Field(le=MOST_VIRTUAL_NODES)]),
    "partitionKey": Option(Annotated[Text, AfterValidator(_names_the_partition)]),
}

CONSISTENT_HASH = Declaration(
    name="consistent-hash",
    assign=consistent_hash,
    source="RocketMQ's AllocateMessageQueueConsistentHash",
    good_at="Few moves, each member by itself can compute it",
    costs="Shares differ widely",
    deal=_around_the_ring,
    options=lambda _: _OPTIONS,
)
