"""Kafka's assignors, as in `org.apache.kafka.clients.consumer` of kafka-clients 4.1."""

import heapq
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from itertools import groupby, islice

from baton.assignors.building_blocks import (
    NOWHERE,
    Declaration,
    Holdings,
    PartitionList,
    holdings,
    in_rounds,
    in_runs,
    queue_by_queue,
    readable,
    readers,
    whole,
    zones_of,
)
from baton.assignors.request import Answer, Member, Request
from baton.model.ids import MemberId, Partition, QueueName

# Kafka's order of members, and nearness by zones (KIP-881).


def _by_instance(members: Mapping[MemberId, Member]) -> Sequence[MemberId]:
    """Static members by their instance, then dynamic ones by name (Kafka's order in range and round-robin, KIP-345)."""
    return sorted(members, key=lambda name: (members[name].instance is None, members[name].instance or name, name))


def _zones_matter(members: Iterable[str], partitions: Mapping[Partition, frozenset[str]]) -> bool:
    """Whether a member's zone has replicas of some partitions but not of others; if not, zones do not distinguish members.

    `members`: the members' zones. `partitions`: the zones with a replica of each partition.
    """
    everywhere = NOWHERE.union(*partitions.values()) if partitions else NOWHERE
    return not everywhere.isdisjoint(members) and any(zones != everywhere for zones in partitions.values())


class _Nearness:
    """The zones of the members, and of the partitions of some queues. If zones do not matter, no partition is far."""

    def __init__(self, request: Request, queues: Iterable[QueueName]) -> None:
        self._zones = {
            partition: zones_of(request, partition)
            for partitions in whole(queues if request.zones else (), request.queues)
            for partition in partitions
        }
        homes = {name: member.zone for name, member in request.members.items() if member.zone}
        self.matters = _zones_matter(homes.values(), self._zones)
        self._homes: Mapping[MemberId, str] = homes if self.matters else {}

    def zones(self, partition: Partition) -> frozenset[str]:
        return self._zones.get(partition, NOWHERE)

    def far(self, member: MemberId, partition: Partition) -> bool:
        """Whether the member has a zone without a replica of the partition."""
        home = self._homes.get(member)
        return home is not None and home not in self._zones[partition]

    def near(self, member: MemberId, partition: Partition) -> bool:
        """Whether the member has a zone with a replica of the partition."""
        home = self._homes.get(member)
        return home is not None and home in self._zones[partition]

    def rarest_first(self, partitions: Iterable[Partition]) -> list[Partition]:
        """Sort partitions by the number of members near them, the fewest first (stable)."""
        residents = Counter(self._homes.values())
        crowd = {zones: sum(residents[zone] for zone in zones) for zones in set(self._zones.values())}
        return sorted(partitions, key=lambda partition: crowd[self._zones[partition]]) if self.matters else list(partitions)


# Kafka's RangeAssignor: each queue separately, in runs of partitions.
#
# One member owns partition n of all queues of one size (co-partitioning). If queues do not divide evenly, the same first members
# get more of each. With zones (KIP-881), members first get partitions near them, without a change of counts or co-partitioning.


def range_(request: Request) -> Answer:
    """Exactly Kafka's answer: static members by instance, then dynamic ones by name (KIP-345)."""
    order = _by_instance(request.members)
    if not request.zones:
        return queue_by_queue(request, order, in_runs)
    subscribed = readable(request)
    assignment: dict[MemberId, list[Partition]] = {name: [] for name in request.members}
    queues = [
        _Queue(request, queue, [name for name in order if queue in subscribed[name]], assignment)
        for queue in sorted(request.queues)
        if request.queues[queue]
    ]
    if any(queue.zones_matter for queue in queues):
        _match_zones(queues)
    for queue in queues:
        queue.fill(near_only=False)
    return Answer({name: PartitionList.of(partitions) for name, partitions in assignment.items()})


def _match_zones(queues: Sequence["_Queue"]) -> None:
    """Give members what is near. Queues with the same readers and size are co-partitioned: one member gets partition n of all."""
    alike: dict[tuple[tuple[MemberId, ...], int], list[_Queue]] = defaultdict(list)
    for queue in queues:
        alike[tuple(queue.readers), queue.size].append(queue)
    for together in alike.values():
        if len(together) > 1:
            _match_together(together)
        elif together[0].zones_matter:
            together[0].fill(near_only=True)


def _match_together(queues: Sequence["_Queue"]) -> None:
    """Give partition n of all these queues to the first member that is near all of them and has room in each queue."""
    first = queues[0]
    if not first.any_zone:
        return
    waiting = list(first.readers)
    for number in range(first.size):
        for name in waiting:
            if all(queue.is_near(name, number) and queue.room(name) for queue in queues):
                for queue in queues:
                    queue.give(name, [number])
                if not any(queue.room(name) for queue in queues):
                    waiting.remove(name)
                break


class _Queue:
    """A queue: the numbers without an owner, and how many more each reader may get."""

    def __init__(
        self, request: Request, name: QueueName, readers: Sequence[MemberId], assignment: dict[MemberId, list[Partition]]
    ) -> None:
        self._name = name
        self.readers = readers
        self.size = request.queues[name]
        self._assignment = assignment
        self._left: dict[int, None] = dict.fromkeys(range(self.size))
        self._count = dict.fromkeys(readers, 0)
        self._floor, self._extras = divmod(self.size, len(readers)) if readers else (0, 0)
        self._homes = {reader: request.members[reader].zone for reader in readers}
        homes = {home for home in self._homes.values() if home}
        self._zones = {Partition(name, number): zones_of(request, Partition(name, number)) for number in self._left}
        self.any_zone = bool(homes)
        self.zones_matter = _zones_matter(homes, self._zones)

    def is_near(self, reader: MemberId, number: int) -> bool:
        """Whether the reader is near; a reader without a zone is near everything."""
        home = self._homes[reader]
        return not home or home in self._zones[Partition(self._name, number)]

    def room(self, reader: MemberId) -> int:
        return max(0, self._floor + (self._extras > 0) - self._count[reader])

    def give(self, reader: MemberId, numbers: Sequence[int]) -> None:
        self._assignment[reader] += (Partition(self._name, number) for number in numbers)
        self._count[reader] += len(numbers)
        if self._count[reader] > self._floor:
            self._extras -= 1
        for number in numbers:
            del self._left[number]

    def fill(self, near_only: bool) -> None:
        """Give each reader in turn the lowest numbers left, as many as it has room for."""
        any_left = iter(list(self._left))
        for reader in self.readers:
            fitting = (number for number in self._left if self.is_near(reader, number)) if near_only else any_left
            numbers = list(islice(fitting, self.room(reader)))
            if numbers:
                self.give(reader, numbers)


RANGE = Declaration(
    name="range",
    assign=range_,
    source="Kafka's RangeAssignor",
    good_at="Partition *n* of several queues of one size is with the same member",
    costs="The first members have more; many moves",
)


# Kafka's RoundRobinAssignor: all partitions of all queues in turn.


def round_robin(request: Request) -> Answer:
    """Exactly Kafka's answer: queues by name, members by instance, then by name. Members that do not read a queue are skipped."""
    subscribed = readable(request)
    order = _by_instance(request.members)
    dealt: list[list[PartitionList]] = [[] for _ in order]
    turn = 0
    places = readers([subscribed[name] for name in order])
    for takers, queues in groupby(places, places.__getitem__):
        free = PartitionList.in_a_row(whole(queues, request.queues))
        first = bisect_left(takers, turn)
        for number, taker in enumerate((takers[first:] + takers[:first])[: len(free)]):
            dealt[taker].append(PartitionList.of(free[number :: len(takers)]))
        if free:
            turn = takers[(first + len(free) - 1) % len(takers)] + 1
    return Answer({name: PartitionList.in_a_row(parts) for name, parts in zip(order, dealt, strict=True)})


ROUND_ROBIN = Declaration(
    name="round-robin",
    assign=round_robin,
    source="Kafka's RoundRobinAssignor",
    good_at="Even totals, easy to foresee",
    costs="Nearly everything moves when a member comes or goes",
)


# The sticky assignors if all members read the same queues (Kafka's constrained assignment).


class _Deal:
    """Totals within one. Each member keeps what it holds, up to its share; the rest is dealt in turn, by name.

    If zones matter, a member keeps only what is near, and partitions go to near members first. Which members keep one more
    depends on a HashMap in Kafka, and on names here.
    """

    def __init__(self, request: Request, queues: Sequence[QueueName], before: Holdings, nearness: _Nearness) -> None:
        self._sizes = {queue: request.queues[queue] for queue in queues}
        self._before = before
        self._nearness = nearness
        self._floor, self._greater = divmod(sum(self._sizes.values()), len(request.members))
        """The least total, and how many members may still get one more."""
        self._ceiling = self._floor + (self._greater > 0)
        self._kept: dict[MemberId, PartitionList] = {}
        self._dealt: dict[MemberId, list[PartitionList]] = {name: [] for name in sorted(request.members)}
        self._count: dict[MemberId, int] = {}
        self._wanting: list[MemberId] = []
        """Members below the floor."""
        self._eager: deque[MemberId] = deque()
        """Members at the floor that may get one more."""
        self._owner = {queue: list(before.alone[queue]) for queue in queues if queue in before.alone}
        """By queue and number: the member that keeps it; None: free."""

    def run(self) -> dict[MemberId, PartitionList]:
        for name in self._dealt:
            self._keep(name)
        free: Sequence[Partition] = self._free()
        if self._nearness.matters:
            free = self._deal_near(self._nearness.rarest_first(free))
        self._deal(free)
        return {name: PartitionList.joined([kept, *self._dealt[name]]) for name, kept in self._kept.items()}

    def _free(self) -> PartitionList:
        parts: list[PartitionList] = []
        for queue, everything in zip(self._sizes, whole(self._sizes, self._sizes), strict=True):
            owners = self._owner.get(queue)
            if owners is None:
                parts.append(everything)
            elif None in owners:
                numbers = tuple(number for number, owner in enumerate(owners) if owner is None)
                parts.append(PartitionList((queue,) * len(numbers), numbers))
        return PartitionList.in_a_row(parts)

    def _keep(self, name: MemberId) -> None:
        """Let a member keep its lowest numbers of all queues, up to its share."""
        mine = self._mine(name)
        if (count := len(mine.numbers)) < self._floor:
            self._wanting.append(name)
        elif count >= self._ceiling and self._greater:
            self._one_more_is_great()
            mine = self._lowest(mine, self._ceiling)
        else:
            mine = self._lowest(mine, self._floor)
            if self._greater:
                self._eager.append(name)
        self._kept[name] = mine
        self._count[name] = len(mine.numbers)

    def _mine(self, name: MemberId) -> PartitionList:
        """What the member holds alone; if zones matter, only what is near."""
        owned = self._before.owned_by[name]
        if not owned.numbers:
            return owned
        if not self._nearness.matters and name not in self._before.doubtful and self._owner.keys() >= set(owned.queues):
            return owned
        mine: list[tuple[QueueName, int]] = []
        for queue, number in owned.pairs():
            owners = self._owner.get(queue, ())
            if not 0 <= number < len(owners) or owners[number] != name:
                continue
            if self._nearness.matters and self._nearness.far(name, Partition(queue, number)):
                self._owner[queue][number] = None
            else:
                mine.append((queue, number))
        return PartitionList.of_sorted(mine)

    def _lowest(self, mine: PartitionList, count: int) -> PartitionList:
        if len(mine.numbers) == count:
            return mine
        gone = nlargest(len(mine.numbers) - count, zip(mine.numbers, mine.queues, strict=True))
        for number, queue in gone:
            self._owner[queue][number] = None
        left_out = {(queue, number) for number, queue in gone}
        return PartitionList.of_sorted([pair for pair in mine.pairs() if pair not in left_out])

    def _one_more_is_great(self) -> None:
        self._greater -= 1
        if not self._greater:
            self._eager.clear()

    def _give(self, name: MemberId, owned: PartitionList) -> None:
        self._dealt[name].append(owned)
        self._count[name] += len(owned.numbers)

    def _deal_near(self, free: Sequence[Partition]) -> list[Partition]:
        """Give partitions to near members: in turn to those below the floor, else to those at it. Returns the rest."""
        turn = 0
        rest: list[Partition] = []
        for partition in free:
            place = self._next_near(partition, self._wanting, turn)
            if place is not None:
                name = self._wanting[place]
                self._give(name, PartitionList.of([partition]))
                if self._count[name] >= self._floor:
                    del self._wanting[place]
                    if self._count[name] < self._ceiling and self._greater:
                        self._eager.append(name)
                else:
                    place += 1
                turn = place % len(self._wanting) if self._wanting else 0
                continue
            place = self._next_near(partition, self._eager, 0)
            if place is None:
                rest.append(partition)
                continue
            name = self._eager[place]
            self._give(name, PartitionList.of([partition]))
            del self._eager[place]
            self._one_more_is_great()
        return rest

    def _next_near(self, partition: Partition, names: Sequence[MemberId], first: int) -> int | None:
        places = (place % len(names) for place in range(first, first + len(names)))
        return next((place for place in places if self._nearness.near(names[place], partition)), None)

    def _deal(self, free: Sequence[Partition]) -> None:
        """Deal partitions in turn to members below the floor, then one to each member at it."""
        wants = {name: self._floor - self._count[name] for name in self._wanting}
        for name, share in in_rounds(wants):
            self._give(name, PartitionList.of(free[share]))
            if self._count[name] == self._floor:
                self._eager.append(name)
        dealt = sum(wants.values())
        for place, name in zip(range(dealt, len(free)), self._eager, strict=False):
            self._give(name, PartitionList.of(free[place : place + 1]))


# The sticky assignors if members read different queues (Kafka's general assignment).


class _Table:
    """Readers keep what they hold (if zones matter, only what is near). The readers with the fewest get the rest. Then single
    partitions move while a move makes two members more even, so the moves come to an end.

    Kafka's algorithm, with three differences. A partition returns to an earlier owner only if that member still reads its queue.
    Another partition of the queue returns in its place only if it came from the same member. Names and numbers decide the order,
    where Kafka depends on a HashMap.
    """

    def __init__(self, request: Request, queues: Sequence[QueueName], before: Holdings, nearness: _Nearness) -> None:
        self._request = request
        self._nearness = nearness
        self._subscribed = {name: member.subscribed.intersection(queues) for name, member in request.members.items()}
        self._owned_by: dict[MemberId, dict[Partition, None]] = {name: {} for name in sorted(request.members)}
        self._owner: dict[Partition, MemberId] = {}
        self._readers = {queue: [name for name in self._owned_by if queue in self._subscribed[name]] for queue in queues}
        self._must_revoke = False
        for partition, name in before.held_alone(queues):
            if partition.queue not in self._subscribed[name] or nearness.far(name, partition):
                self._must_revoke = True
            else:
                self._take(name, partition)
        self._emptiest = {queue: [(len(self._owned_by[name]), name) for name in names] for queue, names in self._readers.items()}
        for heap in self._emptiest.values():
            heapq.heapify(heap)
        self._moved: dict[tuple[QueueName, MemberId, MemberId], set[Partition]] = defaultdict(set)
        self._origin: dict[Partition, MemberId] = {}

    def run(self) -> dict[MemberId, PartitionList]:
        fewest_readers_first = sorted(self._readers, key=lambda queue: (len(self._readers[queue]), queue))
        partitions = [Partition(queue, n) for queue in fewest_readers_first for n in range(self._request.queues[queue])]
        free = [partition for partition in partitions if partition not in self._owner]
        if self._nearness.matters:
            self._give_near(free)
        for partition in free:
            if partition not in self._owner:
                self._take(self._emptiest_reader(partition.queue)[1], partition)
        earlier = _earlier_owners(self._request)
        if not self._must_revoke:
            self._even_out(free, earlier)
        self._even_out(partitions, earlier)
        return {name: PartitionList.of(owned) for name, owned in self._owned_by.items()}

    def _take(self, name: MemberId, partition: Partition) -> None:
        """Let the member take the partition. `_emptiest_of` corrects the heaps later."""
        self._owned_by[name][partition] = None
        self._owner[partition] = name

    def _shrink(self, name: MemberId, partition: Partition) -> None:
        del self._owned_by[name][partition]
        for queue in self._subscribed[name]:
            heapq.heappush(self._emptiest[queue], (len(self._owned_by[name]), name))

    def _emptiest_reader(self, queue: QueueName) -> tuple[int, MemberId]:
        return self._emptiest_of(self._emptiest[queue])

    def _emptiest_of(self, heap: list[tuple[int, MemberId]]) -> tuple[int, MemberId]:
        while heap[0][0] != len(self._owned_by[heap[0][1]]):
            heapq.heapreplace(heap, (len(self._owned_by[heap[0][1]]), heap[0][1]))
        return heap[0]

    def _give_near(self, partitions: Iterable[Partition]) -> None:
        """Give each to the near reader with the fewest. Partitions of one queue in the same zones share a heap."""
        heaps: dict[tuple[QueueName, frozenset[str]], list[tuple[int, MemberId]]] = {}
        for partition in partitions:
            alike = partition.queue, self._nearness.zones(partition)
            if alike not in heaps:
                near = (name for name in self._readers[partition.queue] if not self._nearness.far(name, partition))
                heaps[alike] = [(len(self._owned_by[name]), name) for name in near]
                heapq.heapify(heaps[alike])
            if heaps[alike]:
                self._take(self._emptiest_of(heaps[alike])[1], partition)

    def _even_out(self, partitions: Iterable[Partition], earlier: Mapping[Partition, MemberId]) -> None:
        partitions = [partition for partition in partitions if len(self._readers[partition.queue]) > 1]
        changed = True
        while changed:
            changed = False
            for partition in partitions:
                enough = len(self._owned_by[self._owner[partition]]) - 1
                before = earlier.get(partition)
                if before is not None and partition.queue in self._subscribed[before] and len(self._owned_by[before]) < enough:
                    self._move(partition, before)
                    changed = True
                else:
                    count, name = self._emptiest_reader(partition.queue)
                    if count < enough:
                        self._move(partition, name)
                        changed = True

    def _move(self, partition: Partition, receiver: MemberId) -> None:
        """Move this partition. If another one moved the opposite way, move that one back instead, which saves a move."""
        giver = self._owner[partition]
        back = [p for p in self._moved.get((partition.queue, receiver, giver), ()) if self._owner[p] == giver]
        moving = min(back, default=partition)
        origin = self._origin.pop(moving, giver)
        self._moved[moving.queue, origin, giver].discard(moving)
        if origin != receiver:
            self._origin[moving] = origin
            self._moved[moving.queue, origin, receiver].add(moving)
        self._shrink(giver, moving)
        self._take(receiver, moving)


def _earlier_owners(request: Request) -> dict[Partition, MemberId]:
    """By partition: the newest claimant among the members that missed the last generation; ties are broken by name."""
    newest = max((member.generation for member in request.members.values()), default=0)
    owners: dict[Partition, tuple[int, MemberId]] = {}
    for name in sorted(request.members):
        member = request.members[name]
        for partition in member.owned if member.generation < newest else ():
            known = owners.get(partition)
            if 0 <= partition.number < request.queues.get(partition.queue, 0) and (known is None or member.generation > known[0]):
                owners[partition] = (member.generation, name)
    return {partition: name for partition, (_, name) in owners.items()}


# Kafka's StickyAssignor and CooperativeStickyAssignor: as even as single moves can make it; owners keep what they have.
#
# The newest generation's claim wins. Claims of one generation on the same partition cancel out (KIP-54, KIP-429, KAFKA-12984).


def sticky(request: Request) -> Answer:
    """The whole plan at once, for an eager protocol: all members release everything first (KIP-54)."""
    return Answer(_target(request, holdings(request)))


def cooperative_sticky(request: Request) -> Answer:
    """Like `sticky`, but withholds what another member still holds; the first request after its release assigns it (KIP-429).

    If several members hold a partition with equal claims, all except its receiver have to release it first.
    """
    before = holdings(request)
    assignment = _target(request, before)
    withheld: dict[MemberId, PartitionList] = {}
    for name, owned in assignment.items():
        if owned is before.owned_by[name]:
            continue
        waits = _held_by_others(name, owned, before)
        if waits:
            withheld[name] = PartitionList.of_sorted(waits)
            gone = set(waits)
            assignment[name] = PartitionList.of_sorted([pair for pair in owned.pairs() if pair not in gone])
    return Answer(assignment, withheld)


def _target(request: Request, before: Holdings) -> dict[MemberId, PartitionList]:
    subscriptions = {member.subscribed for member in request.members.values()}
    read = frozenset().union(*subscriptions)
    queues = [queue for queue in sorted(request.queues) if queue in read and request.queues[queue]]
    nearness = _Nearness(request, queues)
    if not request.members:
        return {}
    if len(subscriptions) == 1:
        return _Deal(request, queues, before, nearness).run()
    return _Table(request, queues, before, nearness).run()


def _held_by_others(name: MemberId, owned: PartitionList, before: Holdings) -> list[tuple[QueueName, int]]:
    """The partitions among `owned` that another member holds."""
    waits: list[tuple[QueueName, int]] = []
    if not before.alone:
        return waits
    for queue, number in owned.pairs():
        column = before.alone.get(queue)
        if column is None:
            continue
        holder = column[number]
        if holder != name and (holder is not None or Partition(queue, number) in before.several):
            waits.append((queue, number))
    return waits


_GOOD_AT = "Even totals; members keep what they have"
_COSTS = "A queue by itself may be uneven"

STICKY = Declaration(name="sticky", assign=sticky, source="Kafka's StickyAssignor", good_at=_GOOD_AT, costs=_COSTS)
COOPERATIVE_STICKY = Declaration(
    name="cooperative-sticky",
    assign=cooperative_sticky,
    source="Kafka's CooperativeStickyAssignor",
    good_at=_GOOD_AT,
    costs=_COSTS,
)
