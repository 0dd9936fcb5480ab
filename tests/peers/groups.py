"""Random groups that both sides can be asked about."""

from collections.abc import Mapping
from random import Random

from baton.assignors import Member, Request
from baton.model import MemberId, Partition, QueueName

ZONES = ("east", "north", "west")


def a_group(
    dice: Random,
    *,
    equal: bool | None = None,
    zones: bool = False,
    claims: bool = False,
    contested: bool = False,
    static: bool = False,
) -> Request:
    """Up to four queues of up to eight partitions and eight members. `equal` None: either way; each member reads something.

    `contested`: claims of two generations that can overlap. Without `claims` no member owns a partition.
    """
    queues = {QueueName(f"q{place}"): dice.randint(1, 8) for place in range(dice.randint(1, 4))}
    names = [MemberId(f"m{place}") for place in range(dice.randint(1, 8))]
    alike = dice.random() < 0.5 if equal is None else equal
    members: dict[MemberId, Member] = {}
    taken: set[Partition] = set()
    for name in names:
        some = [queue for queue in queues if alike or dice.random() < 0.6] or [dice.choice(list(queues))]
        offered = [Partition(queue, number) for queue in some for number in range(queues[queue])] if claims else []
        owned = [p for p in offered if (contested or p not in taken) and dice.random() < 1.5 / len(names)]
        taken.update(owned)
        members[name] = Member(
            subscribed=frozenset(some),
            owned=tuple(owned),
            generation=dice.choice([1, 2]) if contested else 1,
            instance=f"i{dice.randint(0, 99)}-{name}" if static and dice.random() < 0.4 else None,
            zone=dice.choice(ZONES) if zones else None,
        )
    replicas = dice.randint(1, 3)
    where = {q: tuple(frozenset(dice.sample(ZONES, replicas)) for _ in range(size)) for q, size in queues.items()}
    return Request(queues, members, where if zones else {})


def a_strange_group(dice: Random, *, zones: bool = False, static: bool = False, one_room: bool = False) -> Request:
    """What `a_group` leaves out: queues without partitions, subscriptions to a queue that does not exist, members that read
    nothing, up to twelve members for a partition, members, partitions and queues without a zone.

    `one_room`: every member has a zone, and every partition is in one. No member owns a partition.
    """
    queues = {QueueName(f"q{place}"): dice.choice([0, 1, 1, 2, 3, 7]) for place in range(dice.randint(1, 4))}
    members: dict[MemberId, Member] = {}
    for name in dice.sample([MemberId(f"m{place}") for place in range(20)], dice.choice([1, 2, 3, 5, 12])):
        members[name] = Member(
            subscribed=frozenset(queue for queue in (*queues, QueueName("gone")) if dice.random() < 0.6),
            instance=f"i{dice.randint(0, 99)}-{name}" if static and dice.random() < 0.4 else None,
            zone=dice.choice(ZONES) if one_room or (zones and dice.random() < 0.8) else None,
        )
    where: dict[QueueName, tuple[frozenset[str], ...]] = {}
    for queue, size in queues.items():
        if one_room or (zones and dice.random() < 0.8):
            where[queue] = tuple(
                frozenset(dice.sample((*ZONES, "south"), 1 if one_room else dice.randint(0, 3))) for _ in range(size)
            )
    return Request(queues, members, where)


def rebalanced(dice: Random, before: Request, owners: Mapping[Partition, str]) -> Request:
    """The group after `owners` was carried out, and then a member left, came, or both."""
    members = {
        name: Member(member.subscribed, tuple(sorted(p for p in owners if owners[p] == name)), 2, zone=member.zone)
        for name, member in before.members.items()
    }
    change = dice.choice(["leave", "join", "both"]) if len(members) > 1 else "join"
    if change != "join":
        del members[dice.choice(sorted(members))]
    if change != "leave":
        pattern = dice.choice(sorted(before.members))
        members[MemberId("newcomer")] = Member(before.members[pattern].subscribed, (), 2, zone=before.members[pattern].zone)
    return Request(before.queues, members, before.zones)
