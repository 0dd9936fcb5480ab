"""The rebalancing of Solace's partitioned queues: as even as can be, with the fewest hand-offs.

Solace describes six steps: create or delete partitions; map new ones to the flows with fewest; notify flows that are left with
none; check for balance; hand one partition from the flow with most to the flow with fewest; repeat. For one queue these steps end
in a balance with the fewest moves. For several queues, or members that read only some of them, single steps can need more moves.
So the assignor first finds the balance (`balance`), and then gives and takes partitions towards it.
"""

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence

from baton.assignors.building_blocks.holders import holdings
from baton.assignors.building_blocks.partition_list import PartitionList
from baton.assignors.building_blocks.subscriptions import by_rank, readable
from baton.assignors.declaration import Declaration, Traits
from baton.assignors.request import Answer, Request
from baton.assignors.solace.balance import Claims, fair_shares
from baton.model.ids import MemberId, Partition, QueueName

Columns = dict[QueueName, list[MemberId | None]]
"""By queue that somebody reads, and number: the owner; None: nobody yet."""
Room = dict[QueueName, dict[MemberId, int]]
"""By queue: how many more of it each member may have."""


def solace(request: Request) -> Answer:
    """Totals within one (or as even as the subscriptions allow), then every queue, with the fewest moves.

    A member gives up its highest numbers. What is free goes, lowest number first, to the member that has fewest at that point;
    of equal ones to the one that joined first, then by name.
    """
    claims = _claims(request)
    shares = fair_shares(claims)
    room = {queue: dict(counts) for queue, counts in shares.counts.items()}
    owners: Columns = {queue: [None] * claims.queues[queue] for queue in room}
    for (queue, number), name in shares.settled.items():
        owners[queue][number] = name
        room[queue][name] -= 1
    for queue, holders in claims.held.items():
        column, left = owners[queue], room[queue]
        for number, holder in enumerate(holders):
            if holder is not None and left.get(holder):
                column[number] = holder
                left[holder] -= 1
    _hand_out(claims.members, owners, room)
    return _answer(request, owners)


def place_new(request: Request) -> Answer:
    """Gives what nobody holds to the members with fewest; members keep what they hold.

    Fewest in total decides, then fewest of that queue, then the order of joining, then the name. A change of the partition count
    does this at once, whatever the group's assignor (Solace's second step).
    """
    claims = _claims(request)
    room: Room = {}
    for name in claims.members:
        for queue in claims.subscribed[name]:
            room.setdefault(queue, {})[name] = claims.queues[queue]
    owners: Columns = {queue: list(claims.held.get(queue, [None] * claims.queues[queue])) for queue in room}
    for (queue, number), names in claims.contested.items():
        owners[queue][number] = names[0]
    _hand_out(claims.members, owners, room)
    return _answer(request, owners)


def _claims(request: Request) -> Claims:
    subscribed = readable(request)
    known = holdings(request)
    held: Columns = {}
    for queue, names in known.alone.items():
        readers = {name for name in set(names) if name is not None and queue in subscribed[name]}
        if readers:
            held[queue] = [name if name in readers else None for name in names]
    contested: dict[Partition, tuple[MemberId, ...]] = {}
    for partition, names in known.several.items():
        homes = tuple(name for name in names if partition.queue in subscribed[name])
        if len(homes) == 1:
            held.setdefault(partition.queue, [None] * request.queues[partition.queue])[partition.number] = homes[0]
        elif homes:
            contested[partition] = homes
    return Claims(request.queues, by_rank(request.members), subscribed, held, contested)


def _hand_out(members: Sequence[MemberId], owners: Columns, room: Mapping[QueueName, Mapping[MemberId, int]]) -> None:
    """Gives every partition without an owner to the member with fewest of those with room."""
    totals = Counter(name for column in owners.values() for name in column)
    rank = {member: place for place, member in enumerate(members)}
    for queue in sorted(owners):
        column = owners[queue]
        if None not in column:
            continue
        counts = Counter(column)
        fewest = [(totals[name], counts[name], rank[name], name, places) for name, places in room[queue].items() if places > 0]
        heapq.heapify(fewest)
        for number in [number for number, name in enumerate(column) if name is None]:
            total, count, place, name, places = fewest[0]
            column[number] = name
            totals[name] = total + 1
            if places > 1:
                heapq.heapreplace(fewest, (total + 1, count + 1, place, name, places - 1))
            else:
                heapq.heappop(fewest)


def _answer(request: Request, owners: Columns) -> Answer:
    owned_by: dict[MemberId, list[tuple[QueueName, int]]] = {member: [] for member in request.members}
    for queue in sorted(owners):
        for number, name in enumerate(owners[queue]):
            if name is not None:
                owned_by[name].append((queue, number))
    return Answer({member: PartitionList.of_sorted(owned) for member, owned in owned_by.items()})


SOLACE = Declaration(
    name="solace",
    assign=solace,
    source="Solace's partitioned queues",
    good_at="As even as possible, totals and each queue, with the fewest moves there can be",
    traits=Traits(balances=True, gives_up_highest=True),
)
