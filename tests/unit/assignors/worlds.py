"""Small groups for hypothesis, and the truth about them by trying everything."""

from collections import Counter
from collections.abc import Collection, Mapping
from itertools import product

from hypothesis import strategies as st

from baton.assignors import Answer, Member, Request
from baton.model import MemberId, Partition, QueueName

QUEUES = (QueueName("orders"), QueueName("payments"), QueueName("returns"))
ZONES = ("east", "north", "west")
Score = tuple[int, int, int]
Owners = Mapping[Partition, MemberId]
Holders = Mapping[Partition, Collection[MemberId]]


@st.composite
def requests(
    draw: st.DrawFn,
    most_partitions: int = 6,
    most_in_all: int = 1000,
    most_members: int = 4,
    contested: bool = False,
    zones: bool = False,
) -> Request:
    """A group: some queues, members that read all or some of them, and who owned what before (perhaps unsubscribed since)."""
    queues: dict[QueueName, int] = {}
    for queue in QUEUES[: draw(st.integers(1, len(QUEUES)))]:
        queues[queue] = draw(st.integers(0, min(most_partitions, most_in_all - sum(queues.values()))))
    names = [MemberId(f"m{place}") for place in range(draw(st.integers(1, most_members)))]
    everything = frozenset(queues)
    subscriptions = st.just(everything) if draw(st.booleans()) else st.sets(st.sampled_from(sorted(queues))).map(frozenset)
    subscribed = {name: draw(subscriptions) for name in names}
    owned: dict[MemberId, list[Partition]] = {name: [] for name in names}
    for partition in all_partitions(queues):
        holders = st.lists(st.sampled_from(names), max_size=2 if contested else 1, unique=True)
        for name in draw(holders):
            owned[name].append(partition)
    members = {
        name: Member(
            subscribed=subscribed[name],
            owned=tuple(owned[name]),
            generation=draw(st.integers(1, 3)) if contested else 1,
            zone=draw(st.none() | st.sampled_from(ZONES)) if zones else None,
            rank=draw(st.integers(0, 2)),
        )
        for name in names
    }
    replicas = st.sets(st.sampled_from(ZONES), max_size=2).map(frozenset)
    where = {queue: tuple(draw(replicas) for _ in range(size)) for queue, size in queues.items()} if zones else {}
    return Request(queues, members, where)


def all_partitions(queues: Mapping[QueueName, int]) -> list[Partition]:
    return [Partition(queue, number) for queue in sorted(queues) for number in range(queues[queue])]


def subscriptions(request: Request) -> dict[MemberId, frozenset[QueueName]]:
    return {name: member.subscribed for name, member in request.members.items()}


def owners_before(request: Request) -> dict[Partition, MemberId]:
    """Where nothing is contested."""
    return {partition: name for name, member in request.members.items() for partition in member.owned}


def holders(request: Request) -> dict[Partition, set[MemberId]]:
    """Those with the newest claim."""
    claims: dict[Partition, set[MemberId]] = {}
    for partition in all_partitions(request.queues):
        claimants = {name: member.generation for name, member in request.members.items() if partition in member.owned}
        if claimants:
            claims[partition] = {name for name in claimants if claimants[name] == max(claimants.values())}
    return claims


def score(owners: Owners, before: Holders) -> Score:
    """How uneven the totals are, how uneven the queues, and how many partitions moved: the least of it, in this order, is a
    balance with the fewest moves."""
    return (
        sum(count**2 for count in Counter(owners.values()).values()),
        sum(count**2 for count in Counter((name, partition.queue) for partition, name in owners.items()).values()),
        moves(owners, before),
    )


def moves(owners: Owners, before: Holders) -> int:
    return sum(name not in before.get(partition, (name,)) for partition, name in owners.items())


def best_score(queues: Mapping[QueueName, int], members: Mapping[MemberId, frozenset[QueueName]], before: Holders) -> Score:
    """By trying every assignment there is."""
    readers = {queue: [name for name in sorted(members) if queue in members[name]] for queue in queues}
    partitions = [partition for partition in all_partitions(queues) if readers[partition.queue]]
    return min(
        score(dict(zip(partitions, names, strict=True)), before)
        for names in product(*(readers[partition.queue] for partition in partitions))
    )


def loads(answer: Answer) -> Counter[MemberId]:
    """What everybody has in the end."""
    return Counter(dict.fromkeys(answer.assignment, 0)) + Counter(answer.owners().values())
