"""The readers of queues, and the orders in which assignors serve members."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from baton.assignors.request import Member, Request
from baton.model.ids import MemberId, QueueName

Place = int
"""A member: its index in the order in which an assignor serves members."""


def readable(request: Request) -> dict[MemberId, frozenset[QueueName]]:
    """The existing queues of each member's subscription."""
    known: dict[frozenset[QueueName], frozenset[QueueName]] = {}
    for member in request.members.values():
        if member.subscribed not in known:
            known[member.subscribed] = member.subscribed.intersection(request.queues)
    return {name: known[member.subscribed] for name, member in request.members.items()}


def readers(subscribed: Sequence[frozenset[QueueName]]) -> dict[QueueName, tuple[int, ...]]:
    """The readers of each queue that has any: their indexes in `subscribed`, ascending. Queues are in the order of their names.

    Queues with the same readers share one tuple.
    """
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


def by_rank(members: Mapping[MemberId, Member]) -> Sequence[MemberId]:
    """The members in the order of joining, then by name."""
    return sorted(members, key=lambda name: (members[name].rank, name))


def by_instance(members: Mapping[MemberId, Member]) -> Sequence[MemberId]:
    """Static members by their instance, then dynamic ones by name (Kafka's order in range and round-robin, KIP-345)."""
    return sorted(members, key=lambda name: (members[name].instance is None, members[name].instance or name, name))
