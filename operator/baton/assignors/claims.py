"""Whose a partition is, where several members claim it: the newest generation wins, and equal generations are all holders."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from baton.assignors.hand import Hand
from baton.assignors.request import Member, Request
from baton.model.ids import MemberId, Partition, QueueName


@dataclass(frozen=True, slots=True)
class Holdings:
    """Whose is what. Whether a holder is still subscribed makes no difference here: until it lets go, it holds."""

    hands: Mapping[MemberId, Hand]
    """What each member claims."""
    alone: Mapping[QueueName, Sequence[MemberId | None]]
    """By queue and number the only holder, if there is just one. Queues that nobody claims anything of are missing."""
    several: Mapping[Partition, tuple[MemberId, ...]]
    """Partitions with several holders, sorted."""
    doubtful: frozenset[MemberId]
    """The members some of whose claims do not stand: all others hold what they claim, alone."""

    def held_alone(self, queues: Iterable[QueueName]) -> Iterator[tuple[Partition, MemberId]]:
        """By queue and number."""
        for queue in queues:
            for number, name in enumerate(self.alone.get(queue, ())):
                if name is not None:
                    yield Partition(queue, number), name

    def holders(self) -> dict[Partition, tuple[MemberId, ...]]:
        """By partition; nearly always just one."""
        alone = {partition: (name,) for partition, name in self.held_alone(self.alone)}
        return alone | dict(self.several)


def holdings(request: Request) -> Holdings:
    """Claims on what does not exist (any more) are dropped."""
    hands = {name: Hand.of(request.members[name].owned) for name in sorted(request.members)}
    newest: dict[QueueName, list[MemberId | None]] = {}
    several: dict[Partition, list[MemberId]] = {}
    doubtful: set[MemberId] = set()
    for name, hand in hands.items():
        for queue, number in hand.pairs():
            column = newest.get(queue)
            if column is None:
                column = newest[queue] = [None] * request.queues.get(queue, 0)
            if not 0 <= number < len(column):
                doubtful.add(name)
                continue
            before = column[number]
            if before is None:
                column[number] = name
                continue
            partition = Partition(queue, number)
            earlier, later = request.members[before].generation, request.members[name].generation
            if later > earlier:
                doubtful.update(several.pop(partition, (before,)))
                column[number] = name
            elif later == earlier:
                several.setdefault(partition, [before]).append(name)
            else:
                doubtful.add(name)
    for (queue, number), names in several.items():
        newest[queue][number] = None
        doubtful.update(names)
    return Holdings(hands, newest, {partition: tuple(names) for partition, names in several.items()}, frozenset(doubtful))


def holders(request: Request) -> dict[Partition, tuple[MemberId, ...]]:
    """Per claimed partition that exists, the members whose claim is the newest, sorted; nearly always just one."""
    return holdings(request).holders()


def exists(queues: Mapping[QueueName, int], partition: Partition) -> bool:
    """A claim on what does not exist any more is ignored."""
    return 0 <= partition.number < queues.get(partition.queue, 0)


def readable(request: Request) -> dict[MemberId, frozenset[QueueName]]:
    """Each member's subscriptions that exist."""
    known: dict[frozenset[QueueName], frozenset[QueueName]] = {}
    for member in request.members.values():
        if member.subscribed not in known:
            known[member.subscribed] = member.subscribed.intersection(request.queues)
    return {name: known[member.subscribed] for name, member in request.members.items()}


def readers(subscribed: Sequence[frozenset[QueueName]]) -> dict[QueueName, tuple[int, ...]]:
    """Per queue that somebody reads, in order: the places of its readers. Queues with the same readers share one tuple."""
    alike: dict[frozenset[QueueName], list[int]] = defaultdict(list)
    for place, queues in enumerate(subscribed):
        alike[queues].append(place)
    sets = list(alike.values())
    read_by: dict[QueueName, list[int]] = defaultdict(list)
    for number, queues in enumerate(alike):
        for queue in queues:
            read_by[queue].append(number)
    made: dict[tuple[int, ...], tuple[int, ...]] = {}
    places: dict[QueueName, tuple[int, ...]] = {}
    for queue in sorted(read_by):
        key = tuple(read_by[queue])
        if key not in made:
            made[key] = tuple(sorted(place for number in key for place in sets[number]))
        places[queue] = made[key]
    return places


def by_seat(members: Mapping[MemberId, Member]) -> Sequence[MemberId]:
    """In the order of joining, then by name."""
    return sorted(members, key=lambda name: (members[name].seat, name))


def by_instance(members: Mapping[MemberId, Member]) -> Sequence[MemberId]:
    """Static members by their instance, then dynamic ones by name (Kafka's order in range and round-robin, KIP-345)."""
    return sorted(members, key=lambda name: (members[name].instance is None, members[name].instance or name, name))
