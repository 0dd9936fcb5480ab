"""Whose a partition is, where several members claim it: the newest generation wins, and equal generations are all holders."""

from collections.abc import Mapping, Sequence

from baton.assignors.request import Member, Request
from baton.model.ids import MemberId, Partition, QueueName


def exists(queues: Mapping[QueueName, int], partition: Partition) -> bool:
    """A claim on what does not exist any more is ignored."""
    return 0 <= partition.number < queues.get(partition.queue, 0)


def readable(request: Request) -> dict[MemberId, frozenset[QueueName]]:
    """Each member's subscriptions that exist."""
    known = request.queues.keys()
    subscriptions: dict[frozenset[QueueName], frozenset[QueueName]] = {}
    return {
        name: subscriptions.setdefault(member.subscribed, member.subscribed & known) for name, member in request.members.items()
    }


def holders(request: Request) -> dict[Partition, tuple[MemberId, ...]]:
    """Per claimed partition that exists, the members whose claim is the newest, sorted; nearly always just one.

    Whether the holder is still subscribed makes no difference here: until it lets go, it holds.
    """
    newest: dict[Partition, tuple[int, list[MemberId]]] = {}
    for name in sorted(request.members):
        member = request.members[name]
        for partition in member.owned:
            if not exists(request.queues, partition):
                continue
            generation, names = newest.setdefault(partition, (member.generation, []))
            if member.generation > generation:
                newest[partition] = (member.generation, [name])
            elif member.generation == generation and name not in names:
                names.append(name)
    return {partition: tuple(names) for partition, (_, names) in newest.items()}


def by_seat(members: Mapping[MemberId, Member]) -> Sequence[MemberId]:
    """In the order of joining, then by name."""
    return sorted(members, key=lambda name: (members[name].seat, name))


def by_instance(members: Mapping[MemberId, Member]) -> Sequence[MemberId]:
    """Static members by their instance, then dynamic ones by name (Kafka's order in range and round-robin, KIP-345)."""
    return sorted(members, key=lambda name: (members[name].instance is None, members[name].instance or name, name))
