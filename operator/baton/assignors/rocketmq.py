"""RocketMQ's assignors, as in `org.apache.rocketmq.client.consumer.rebalance` of rocketmq-client 5.3."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import md5
from re import findall
from typing import Annotated

from pydantic import AfterValidator, Field

from baton.assignors.building_blocks import (
    Deal,
    Declaration,
    Option,
    PartitionList,
    Traits,
    in_runs,
    queue_by_queue,
    readable,
    zones_of,
)
from baton.assignors.request import Answer, Assignor, AssignorError, EachOnce, Request, RequestError, Text, Whole, shown
from baton.model.ids import MemberId, Partition, QueueName

# RocketMQ's AllocateMessageQueueAveragely, its default: each queue in runs, members by name.


def average(request: Request) -> Answer:
    """Exactly RocketMQ's answer."""
    return queue_by_queue(request, sorted(request.members), in_runs)


AVERAGE = Declaration(
    name="average",
    assign=average,
    source="RocketMQ's AllocateMessageQueueAveragely",
    good_at="Runs of partitions, every queue for itself",
    costs="The first members have the rests of all queues; many moves",
    deal=lambda _: in_runs,
)


# RocketMQ's AllocateMessageQueueAveragelyByCircle: each queue in turn, members by name.


def circle(request: Request) -> Answer:
    """Exactly RocketMQ's answer. Each queue begins with the first reader, unlike Kafka's round-robin."""
    return queue_by_queue(request, sorted(request.members), _in_turn)


def _in_turn(_: QueueName, numbers: Sequence[int], readers: Sequence[MemberId]) -> Iterable[Sequence[int]]:
    return (numbers[place :: len(readers)] for place in range(min(len(numbers), len(readers))))


CIRCLE = Declaration(
    name="circle",
    assign=circle,
    source="RocketMQ's AllocateMessageQueueAveragelyByCircle",
    good_at="Every queue in turn, for itself",
    costs="As `average`, and nearly everything moves",
    deal=lambda _: _in_turn,
)


# RocketMQ's AllocateMessageQueueConsistentHash: members have points on a ring of hashes; a partition goes to the next point's.
#
# Few partitions move when a member joins or leaves. How even the shares are depends on the hashes.


VIRTUAL_NODES = 10
"""A member's points on the ring (RocketMQ's default)."""
MOST_VIRTUAL_NODES = 10_000
MOST_POINTS = 1_000_000
"""The most points of all rings of a request: about 50 MB of memory and a second of work."""
PARTITION_KEY = "{queue}-{partition}"
"""The hashed text of a partition. RocketMQ hashes `MessageQueue [topic=…, brokerName=…, queueId=…]`; Baton has no brokers."""


def consistent_hash(request: Request) -> Answer:
    """Exactly RocketMQ's answer for the same keys. Options: virtualNodes (0: no member gets anything), partitionKey. Raises
    AssignorError if the rings would have more than MOST_POINTS."""
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
    """Raise AssignorError if the rings, one for each set of readers, are too large."""
    fleets = {frozenset(name for name, one in request.members.items() if queue in one.subscribed) for queue in request.queues}
    if points * sum(map(len, fleets)) > MOST_POINTS:
        raise AssignorError(
            "consistent-hash",
            f"puts {points:,} points of each member on a ring, and so many members would have more than {MOST_POINTS:,}: give a "
            "lower virtualNodes",
        )


def _ring(readers: Sequence[MemberId], points: int) -> list[int]:
    """The sorted points, each a number: the hash, then the reader's index."""
    return sorted(_hash(f"{name}-{point}") << 32 | place for place, name in enumerate(readers) for point in range(points))


def next_on(ring: Sequence[int], key: int) -> int:
    """The index of the reader at the first point from a key on. If points coincide, the last reader wins."""
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


# RocketMQ's AllocateMessageQueueByMachineRoom: only the partitions of certain rooms, in runs, then the rest one by one.


def machine_room(request: Request) -> Answer:
    """Exactly RocketMQ's answer. Option rooms: a partition without a replica in one of them gets no owner."""
    return queue_by_queue(request, sorted(request.members), _of_rooms(request))


def _of_rooms(request: Request) -> Deal:
    rooms = request.options.get("rooms")
    assert rooms is None or isinstance(rooms, frozenset)

    def deal(queue: QueueName, numbers: Sequence[int], readers: Sequence[MemberId]) -> Iterable[Sequence[int]]:
        ours = [n for n in numbers if rooms is None or not rooms.isdisjoint(zones_of(request, Partition(queue, n)))]
        floor, rest = divmod(len(ours), len(readers))
        tail = floor * len(readers)
        for place in range(len(readers)):
            yield ours[place * floor : (place + 1) * floor] + ours[tail + place : tail + place + (place < rest)]

    return deal


def _leaves_out(options: Mapping[str, object], zones: frozenset[str]) -> bool:
    rooms = options.get("rooms")
    return isinstance(rooms, frozenset) and rooms.isdisjoint(zones)


_RoomNames = Annotated[list[Text], EachOnce, AfterValidator(frozenset)]

MACHINE_ROOM = Declaration(
    name="machine-room",
    assign=machine_room,
    source="RocketMQ's AllocateMessageQueueByMachineRoom",
    good_at="Only partitions of certain rooms",
    costs="Partitions elsewhere get no owner",
    traits=Traits(leaves_out=_leaves_out),
    deal=_of_rooms,
    options=lambda _: {"rooms": Option(_RoomNames, missing="machine-room gives out the partitions of these rooms only")},
)


# RocketMQ's AllocateMachineRoomNearby, around any other assignor: the members in a room get its partitions.
#
# The inner assignor divides each room separately. If no member in a room reads a queue, all its readers share the room.


NEARBY = "machine-room-nearby"
WITHIN = "average"
"""The default of the inner assignor, like RocketMQ's."""

Room = str
"""A zone; empty for members and partitions without one."""
_Part = dict[QueueName, list[int]]
"""Some partitions of some queues."""


def nearby(
    built_in: Mapping[str, Declaration], get: Callable[[str], Assignor], names: Callable[[], Iterable[str]]
) -> Declaration:
    """The declaration of the assignor around any of these; `names` and `get` include the installed ones."""

    def assign(request: Request) -> Answer:
        """The option `within` names the inner assignor. If that divides queues separately, the answer is exactly RocketMQ's.

        Any other divides all queues of a room together. A partition in several rooms belongs to the first of them, by name, in
        which a member reads its queue.
        """
        name = request.options.get("within", WITHIN)
        assert isinstance(name, str)
        rooms = _Rooms(request)
        deal = built_in[name].deal if name in built_in else None
        if deal is not None:
            return queue_by_queue(request, sorted(request.members), _room_by_room(rooms, deal(request)))
        return _merged_answers(request, [_ask(get(name), request, part, members) for part, members in rooms.parts()])

    def leaves_out(options: Mapping[str, object], zones: frozenset[str]) -> bool:
        inside = built_in.get(str(options.get("within", WITHIN)))
        return inside is not None and inside.traits.leaves_out is not None and inside.traits.leaves_out(options, zones)

    def options(raw: Mapping[str, object]) -> Mapping[str, Option]:
        """`within`, and the inner assignor's options."""
        within, choice = raw.get("within", WITHIN), sorted({*names()} - {NEARBY})
        if not isinstance(within, str) or within not in choice:
            sentence = f"expected another assignor, found {shown(within)}; choose one of {', '.join(choice)}"
            raise RequestError("options.within", sentence)
        return {"within": Option(Text), **(built_in[within].options(raw) if within in built_in else {})}

    return Declaration(
        name=NEARBY,
        assign=assign,
        source="RocketMQ's AllocateMachineRoomNearby",
        good_at="What is in a room stays with members in it, around any other assignor",
        costs="As even as each room by itself",
        traits=Traits(leaves_out=leaves_out),
        options=options,
        check=_check_zones,
    )


def _check_zones(request: Request) -> None:
    """Raise RequestError for a member or a partition without a zone, like RocketMQ."""
    subscribed = readable(request)
    for name in sorted(request.members):
        if subscribed[name] and not request.members[name].zone:
            raise RequestError(f"members.{name}.zone", "is missing; machine-room-nearby must know where every member is")
    for queue in sorted(frozenset().union(*subscribed.values())):
        if request.queues[queue] and queue not in request.zones:
            raise RequestError(f"zones.{queue}", "is missing; machine-room-nearby must know where every partition is")
        for number, zones in enumerate(request.zones.get(queue, ())):
            if not zones:
                raise RequestError(f"zones.{queue}[{number}]", "is empty; machine-room-nearby must know where every partition is")


class _Rooms:
    """The partitions and the members of rooms."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._of = {name: member.zone or "" for name, member in request.members.items()}
        self._subscribed = readable(request)
        self._manned = {(self._of[name], queue) for name, queues in self._subscribed.items() for queue in queues}

    def shares(self, queue: QueueName, numbers: Iterable[int]) -> dict[tuple[bool, Room], list[int]]:
        """The numbers of a queue by room. True: only the members in the room share them; False: all readers do."""
        shares: dict[tuple[bool, Room], list[int]] = defaultdict(list)
        for number in numbers:
            rooms = sorted(zones_of(self._request, Partition(queue, number))) or [""]
            manned = [room for room in rooms if (room, queue) in self._manned]
            shares[bool(manned), (manned or rooms)[0]].append(number)
        return shares

    def mine(self, member: MemberId, own: bool, room: Room) -> bool:
        """Whether a member participates in this share."""
        return not own or self._of[member] == room

    def parts(self) -> list[tuple[_Part, set[MemberId]]]:
        """The shares of all queues, each with its members."""
        parts: dict[tuple[bool, Room], _Part] = defaultdict(dict)
        for queue in sorted(frozenset().union(*self._subscribed.values())):
            for share, numbers in self.shares(queue, range(self._request.queues[queue])).items():
                parts[share][queue] = numbers
        return [(parts[share], {name for name in self._of if self.mine(name, *share)}) for share in sorted(parts)]


def _room_by_room(rooms: _Rooms, within: Deal) -> Deal:
    def deal(queue: QueueName, numbers: Sequence[int], readers: Sequence[MemberId]) -> Iterable[Sequence[int]]:
        owned_by: dict[MemberId, list[int]] = {name: [] for name in readers}
        for share, of_share in rooms.shares(queue, numbers).items():
            mine = [name for name in readers if rooms.mine(name, *share)]
            for name, dealt in zip(mine, within(queue, of_share, mine), strict=False):
                owned_by[name] += dealt
        return map(sorted, owned_by.values())

    return deal


def _ask(assignor: Assignor, request: Request, part: _Part, members: Container[MemberId]) -> Answer:
    """The assignor's answer for some of the partitions and members.

    Assignors expect partitions numbered from 0, so they are renumbered. Other members that hold some of them are in the inner
    request without a subscription, so that a cooperative assignor waits for their release.
    """
    inner = {Partition(queue, old): Partition(queue, new) for queue, olds in part.items() for new, old in enumerate(olds)}
    outer = {new: old for old, new in inner.items()}
    asked = {
        name: replace(
            member,
            subscribed=member.subscribed if name in members else frozenset(),
            owned=tuple(inner[partition] for partition in member.owned if partition in inner),
        )
        for name, member in request.members.items()
    }
    answer = assignor(
        replace(
            request,
            queues={queue: len(numbers) for queue, numbers in part.items()},
            members={name: member for name, member in asked.items() if name in members or member.owned},
            zones={queue: tuple(of[n] for n in part[queue]) for queue, of in request.zones.items() if queue in part},
        )
    )

    def numbered(side: Mapping[MemberId, Sequence[Partition]]) -> dict[MemberId, tuple[Partition, ...]]:
        return {name: tuple(outer[partition] for partition in owned) for name, owned in side.items()}

    return Answer(numbered(answer.assignment), numbered(answer.withheld))


def _merged_answers(request: Request, answers: Iterable[Answer]) -> Answer:
    assignment: dict[MemberId, list[Partition]] = {name: [] for name in request.members}
    withheld: dict[MemberId, list[Partition]] = defaultdict(list)
    for answer in answers:
        for owned_by, side in ((assignment, answer.assignment), (withheld, answer.withheld)):
            for name, partitions in side.items():
                owned_by[name] += partitions
    return Answer(
        {name: PartitionList.of(owned) for name, owned in assignment.items()},
        {name: PartitionList.of(owned) for name, owned in withheld.items() if owned},
    )
