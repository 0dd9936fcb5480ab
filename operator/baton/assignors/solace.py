"""The rebalancing of Solace's partitioned queues: as even as can be, with the fewest hand-offs.

Solace describes six steps: create or delete partitions; map new ones to the flows with fewest; tell flows that are left with
none; check for balance; hand one partition from the fullest to the emptiest; repeat. For one queue these steps end in a balance
with the fewest moves there can be. For several queues, or members that read only some of them, single steps can end in a
balance that cost more, so the balance is found first (`baton.assignors.balance`) and the steps are then taken towards it.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Mapping

from baton.assignors.balance import Claims, fair_shares
from baton.assignors.claims import by_seat, holders, readable
from baton.assignors.request import Answer, Request
from baton.model.ids import MemberId, Partition, QueueName


def solace(request: Request) -> Answer:
    """Totals within one (or as even as the subscriptions allow), then every queue, with the fewest moves.

    Of what a member must give up, it gives the highest numbers. What is free goes, lowest number first, to the member that has
    fewest at that point, then by joining, then by name.
    """
    claims = _claims(request)
    shares = fair_shares(claims)
    homes: dict[tuple[MemberId, QueueName], list[Partition]] = defaultdict(list)
    for partition, member in claims.held.items():
        homes[member, partition.queue].append(partition)
    settled = Counter((member, partition.queue) for partition, member in shares.settled.items())
    owners: dict[Partition, MemberId] = dict(shares.settled)
    for (member, queue), partitions in homes.items():
        keeps = shares.counts.get((member, queue), 0) - settled[member, queue]
        owners.update((partition, member) for partition in sorted(partitions)[:keeps])
    room = Counter(shares.counts)
    room.subtract(Counter((member, partition.queue) for partition, member in owners.items()))
    _hand_out(claims, owners, room)
    return _answer(request, owners)


def place_new(request: Request) -> Answer:
    """Only gives what nobody holds to the members that have fewest; whoever holds something keeps it.

    Fewest in total decides, then fewest of that queue, then joining, then the name. This is what a change of the partition count
    does at once, whatever the group's assignor.
    """
    claims = _claims(request)
    owners = dict(claims.held) | {partition: names[0] for partition, names in claims.contested.items()}
    _hand_out(claims, owners, None)
    return _answer(request, owners)


def _claims(request: Request) -> Claims:
    subscribed = readable(request)
    held: dict[Partition, MemberId] = {}
    contested: dict[Partition, tuple[MemberId, ...]] = {}
    for partition, names in holders(request).items():
        homes = tuple(name for name in names if partition.queue in subscribed[name])
        if len(homes) == 1:
            held[partition] = homes[0]
        elif homes:
            contested[partition] = homes
    return Claims(request.queues, by_seat(request.members), subscribed, held, contested)


def _hand_out(claims: Claims, owners: dict[Partition, MemberId], room: Mapping[tuple[MemberId, QueueName], int] | None) -> None:
    """Gives every partition without an owner to the member with fewest, of those with room for it (None: no bound)."""
    totals = Counter(owners.values())
    of_queue = Counter((member, partition.queue) for partition, member in owners.items())
    rank = {member: place for place, member in enumerate(claims.members)}
    for queue in sorted(claims.queues):
        left = {
            member: claims.queues[queue] if room is None else room[member, queue]
            for member in claims.members
            if queue in claims.subscribed[member]
        }
        fewest = [
            (totals[member], of_queue[member, queue], rank[member], member) for member, places in left.items() if places > 0
        ]
        heapq.heapify(fewest)
        for partition in (Partition(queue, number) for number in range(claims.queues[queue])):
            if partition in owners or not fewest:
                continue
            total, count, place, member = heapq.heappop(fewest)
            owners[partition] = member
            totals[member] += 1
            left[member] -= 1
            if left[member]:
                heapq.heappush(fewest, (total + 1, count + 1, place, member))


def _answer(request: Request, owners: Mapping[Partition, MemberId]) -> Answer:
    assignment: dict[MemberId, list[Partition]] = {member: [] for member in request.members}
    for partition in sorted(owners):
        assignment[owners[partition]].append(partition)
    return Answer({member: tuple(partitions) for member, partitions in assignment.items()})
