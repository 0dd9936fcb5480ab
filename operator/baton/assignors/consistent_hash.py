"""RocketMQ's AllocateMessageQueueConsistentHash: members on a ring of hashes, a partition goes to the next one.

Few partitions move when a member comes or goes; how even the shares are is left to chance.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from hashlib import md5

from baton.assignors.queue_by_queue import Deal, queue_by_queue
from baton.assignors.request import Answer, Request
from baton.model.ids import MemberId, QueueName

VIRTUAL_NODES = 10
"""How many points on the ring a member has (RocketMQ's default)."""
PARTITION_KEY = "{queue}-{partition}"
"""What is hashed of a partition. RocketMQ hashes `MessageQueue [topic=…, brokerName=…, queueId=…]`; there are no brokers here."""


def consistent_hash(request: Request) -> Answer:
    """RocketMQ's answer, exactly, for the same keys. Options: virtualNodes (0: nobody gets anything), partitionKey."""
    return queue_by_queue(request, sorted(request.members), around_the_ring(request))


def around_the_ring(request: Request) -> Deal:
    points = request.options.get("virtualNodes", VIRTUAL_NODES)
    pattern = request.options.get("partitionKey", PARTITION_KEY)
    assert isinstance(points, int) and isinstance(pattern, str)
    rings: dict[tuple[MemberId, ...], tuple[list[int], list[int]]] = {}

    def deal(queue: QueueName, numbers: Sequence[int], readers: Sequence[MemberId]) -> Iterable[Sequence[int]]:
        places, hashes = rings.setdefault(tuple(readers), ([], []))
        if not hashes and points:
            ring = _ring(readers, points)
            hashes += sorted(ring)
            places += (ring[point] for point in hashes)
        hands: list[list[int]] = [[] for _ in readers]
        around = [text.replace("{queue}", queue) for text in pattern.split("{partition}")]
        for number in numbers if hashes else ():
            point = bisect_left(hashes, _hash(str(number).join(around)))
            hands[places[point % len(hashes)]].append(number)
        return hands

    return deal


def _ring(readers: Sequence[MemberId], points: int) -> dict[int, int]:
    """Per point whose it is, as a place among the readers. Where two points meet, the later name has it."""
    return {_hash(f"{name}-{point}"): place for place, name in enumerate(readers) for point in range(points)}


def _hash(key: str) -> int:
    """The first four bytes of the MD5, as RocketMQ takes them."""
    return int.from_bytes(md5(key.encode(), usedforsecurity=False).digest()[:4])
