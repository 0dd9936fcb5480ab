"""RocketMQ's AllocateMachineRoomNearby, around any other assignor: the members in a room get the partitions in it.

The assignor inside answers for each room by itself. Where no member in a room reads a queue, all its readers share the room.
"""

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace

from baton.assignors.building_blocks.partition_list import PartitionList
from baton.assignors.building_blocks.queue_by_queue import Deal, queue_by_queue
from baton.assignors.building_blocks.subscriptions import readable
from baton.assignors.building_blocks.zones import zones_of
from baton.assignors.declaration import Declaration, Option, Traits
from baton.assignors.fields import RequestError, Text, shown
from baton.assignors.request import Answer, Assignor, Request
from baton.model.ids import MemberId, Partition, QueueName

NAME = "machine-room-nearby"
WITHIN = "average"
"""The assignor inside each room, where the options name none: RocketMQ's default."""

Room = str
"""A zone; "" for members and partitions without one."""
_Part = dict[QueueName, list[int]]
"""Some partitions of some queues."""


def declared(
    built_in: Mapping[str, Declaration], get: Callable[[str], Assignor], names: Callable[[], Iterable[str]]
) -> Declaration:
    """The declaration, around one of all these assignors: `names` and `get` know the installed ones too."""

    def assign(request: Request) -> Answer:
        """The option within names the assignor. One that looks at one queue at a time answers exactly as RocketMQ does.

        Any other assignor answers once per room, for all its queues. A partition in several rooms counts to the first of them, by
        name, in which a member reads its queue.
        """
        name = request.options.get("within", WITHIN)
        assert isinstance(name, str)
        rooms = _Rooms(request)
        deal = built_in[name].deal if name in built_in else None
        if deal is not None:
            return queue_by_queue(request, sorted(request.members), _room_by_room(rooms, deal(request)))
        return _merged(request, [_ask(get(name), request, part, members) for part, members in rooms.parts()])

    def leaves_out(options: Mapping[str, object], zones: frozenset[str]) -> bool:
        inside = built_in.get(str(options.get("within", WITHIN)))
        return inside is not None and inside.traits.leaves_out is not None and inside.traits.leaves_out(options, zones)

    def options(raw: Mapping[str, object]) -> Mapping[str, Option]:
        """Those of the assignor inside stand beside within."""
        within, choice = raw.get("within", WITHIN), sorted({*names()} - {NAME})
        if not isinstance(within, str) or within not in choice:
            sentence = f"expected another assignor, found {shown(within)}; choose one of {', '.join(choice)}"
            raise RequestError("options.within", sentence)
        return {"within": Option(Text), **(built_in[within].options(raw) if within in built_in else {})}

    return Declaration(
        name=NAME,
        assign=assign,
        source="RocketMQ's AllocateMachineRoomNearby",
        good_at="What is in a room stays with members in it, around any other assignor",
        costs="As even as each room by itself",
        traits=Traits(leaves_out=leaves_out),
        options=options,
        check=_check,
    )


def _check(request: Request) -> None:
    """Refuses a member or a partition without a place, as RocketMQ does. Raises RequestError."""
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
    """Which members share which partitions."""

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
        """Whether a member takes part in this share."""
        return not own or self._of[member] == room

    def parts(self) -> list[tuple[_Part, set[MemberId]]]:
        """The shares of all queues together, each with the members that take part."""
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
    """The assignor's answer for some partitions of the request among some members.

    An assignor expects partitions that are numbered from 0, so the request renumbers them and the answer is numbered back. Other
    members that hold some of them are in the request without a subscription: a cooperative assignor waits for their release.
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


def _merged(request: Request, answers: Iterable[Answer]) -> Answer:
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
