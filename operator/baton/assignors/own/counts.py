"""The searches of `minimal` for partitions of equal weight.

Totals, moves and zone mismatches depend only on the number of partitions of each kind that a member has, so a thousand members
and a million partitions of a few kinds are a small problem. One search makes the table of these numbers as even as possible, and
another then saves moves and zone mismatches.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, groupby, pairwise, repeat
from math import lcm

from baton.assignors.building_blocks import PartitionList, Place, by_rank, holdings, in_rounds, readable, readers, whole
from baton.assignors.request import Request
from baton.model.ids import MemberId, Partition, QueueName

# Kinds of partitions, with the same readers, zones and weight


Zones = frozenset[str] | None
"""The members' zones with a replica. None: all, or unknown."""
_Likeness = tuple[Zones, Fraction, tuple[Place, ...]]
_ONE = Fraction(1)


@dataclass(frozen=True, slots=True)
class PartitionKind:
    """Partitions with the same readers, zones, weight and claimants."""

    readers: tuple[Place, ...]
    near: Zones
    weight: Fraction
    homes: tuple[Place, ...]
    """The readers with equal claims to each of them, if there are several. With any of these a partition does not move."""
    partitions: PartitionList


@dataclass(frozen=True, slots=True)
class GroupedRequest:
    """A request by kinds of partitions."""

    members: Sequence[MemberId]
    """The members, indexed by place."""
    kinds: Sequence[PartitionKind]
    home: Mapping[QueueName, Sequence[Place | None]]
    """By queue and number: the only reader with the newest claim. Unclaimed queues are missing."""
    zone: Sequence[str | None]
    capacity: Sequence[Fraction]

    def far(self, kind: PartitionKind, place: Place) -> bool:
        """Whether the member has a zone without replicas of this kind."""
        return kind.near is not None and self.zone[place] is not None and self.zone[place] not in kind.near

    def held(self) -> dict[Partition, Place]:
        """The holder of each partition with exactly one."""
        return {
            Partition(queue, number): place
            for queue, places in self.home.items()
            for number, place in enumerate(places)
            if place is not None
        }


def grouped(request: Request) -> GroupedRequest:
    """Group the request's partitions by kind, in the order of first partitions."""
    members = by_rank(request.members)
    place = {name: number for number, name in enumerate(members)}
    subscribed = readable(request)
    alone, several = holdings(request).of_readers(subscribed)
    home = {queue: [None if name is None else place[name] for name in names] for queue, names in alone.items()}
    contested: dict[QueueName, dict[int, tuple[Place, ...]]] = defaultdict(dict)
    for (queue, number), holders in several.items():
        contested[queue][number] = tuple(sorted(place[name] for name in holders))
    zones = [request.members[name].zone or None for name in members]
    capacity = [request.members[name].capacity for name in members]
    kinds = _kinds(request, [subscribed[name] for name in members], contested, frozenset(zone for zone in zones if zone))
    return GroupedRequest(members, kinds, home, zones, capacity)


def _kinds(
    request: Request,
    subscribed: Sequence[frozenset[QueueName]],
    contested: Mapping[QueueName, Mapping[int, tuple[Place, ...]]],
    homes: frozenset[str],
) -> list[PartitionKind]:
    read_by = readers(subscribed)
    parts: dict[tuple[int, _Likeness], list[PartitionList]] = defaultdict(list)
    same: dict[int, tuple[Place, ...]] = {id(places): places for places in read_by.values()}  # equal ones are one object
    for queue, everything in zip(read_by, whole(read_by, request.queues), strict=True):
        if queue not in request.zones and queue not in request.weights and queue not in contested:
            if everything:
                parts[id(read_by[queue]), (None, _ONE, ())].append(everything)
            continue
        own: dict[_Likeness, list[int]] = defaultdict(list)
        for number, like in enumerate(_likenesses(request, queue, contested.get(queue, {}), homes)):
            own[like].append(number)
        for like, numbers in own.items():
            parts[id(read_by[queue]), like].append(PartitionList((queue,) * len(numbers), tuple(numbers)))
    return [PartitionKind(same[places], *like, PartitionList.in_a_row(lists)) for (places, like), lists in parts.items()]


def _likenesses(
    request: Request, queue: QueueName, contested: Mapping[int, tuple[Place, ...]], homes: frozenset[str]
) -> Iterable[_Likeness]:
    size, zones, weights = request.queues[queue], request.zones.get(queue), request.weights.get(queue)
    for number in range(size):
        near = zones[number] & homes if zones is not None and zones[number] and not homes <= zones[number] else None
        yield near, _ONE if weights is None else weights[number], contested.get(number, ())


# The number of partitions of each kind that each member has, and the cost of one more or one less.
#
# An arc (of a flow network) is a kind and one of its readers. Arcs are numbers, with their values in lists, because `minimal`
# visits the arcs of thousands of members many times.


Arc = int


class CountTable:
    """The table of counts, initially of what the members hold. A load is a number of partitions, without weights."""

    def __init__(self, group: GroupedRequest) -> None:
        self.group = group
        self.kind: list[int] = []
        self.member: list[Place] = []
        self.held: list[int] = []
        """By arc: the number of partitions that the member holds."""
        self.far: list[bool] = []
        self.of_kind: list[range] = []
        self.of_member: list[list[Arc]] = [[] for _ in group.members]
        self.count: list[int] = []
        self.load = [0] * len(group.members)
        self._homes = [_homes(kind, group.home) for kind in group.kinds]
        for kind, homes in zip(group.kinds, self._homes, strict=True):
            self._add(kind, Counter(homes))
        for arc, member in enumerate(self.member):
            self.of_member[member].append(arc)
        self.worth = 1 + sum(len(kind.partitions) for kind in group.kinds)
        """The cost of a move: more than all zone mismatches together."""
        scale = lcm(*(capacity.numerator for capacity in group.capacity))
        self.step = [scale * capacity.denominator // capacity.numerator for capacity in group.capacity]
        """By member: the unevenness (the sum of load² / capacity) of a load of 1."""

    def _add(self, kind: PartitionKind, held: Mapping[Place | None, int]) -> None:
        self.of_kind.append(range(len(self.kind), len(self.kind) + len(kind.readers)))
        self.kind += [len(self.of_kind) - 1] * len(kind.readers)
        self.member += kind.readers
        self.far += [kind.near is not None and self.group.far(kind, reader) for reader in kind.readers]
        if kind.homes:
            self.held += [len(kind.partitions) if reader in kind.homes else 0 for reader in kind.readers]
            self.count += [0] * len(kind.readers)
            return
        counts = [held.get(reader, 0) for reader in kind.readers] if held else [0] * len(kind.readers)
        self.held += counts
        self.count += counts
        for member, count in zip(kind.readers, counts, strict=True):
            self.load[member] += count

    def up(self, member: Place) -> int:
        """The unevenness that one more partition adds."""
        return (2 * self.load[member] + 1) * self.step[member]

    def down(self, member: Place) -> int:
        """The unevenness that one less partition removes."""
        return (2 * self.load[member] - 1) * self.step[member]

    def gain(self, arc: Arc) -> int:
        """The cost of one more of the kind, in moves and zone mismatches; negative if the member has fewer than it held."""
        return self.far[arc] - self.worth * (self.count[arc] < self.held[arc])

    def loss(self, arc: Arc) -> int:
        """The cost of one less of the kind, in moves and zone mismatches."""
        return self.worth * (self.count[arc] <= self.held[arc]) - self.far[arc]

    def put(self, arc: Arc, units: int) -> None:
        """Add units (may be negative) of the kind to the member."""
        self.count[arc] += units
        self.load[self.member[arc]] += units

    def owned_by(self) -> list[PartitionList]:
        """The partitions of each member: the lowest numbers that it holds, and the rest in turn."""
        everything = [kind.partitions for kind in self.group.kinds]
        at: list[list[int]] = [[] for _ in self.load]
        """By member: the indexes of its partitions within all kinds."""
        first = 0
        for number, (part, arcs) in enumerate(zip(everything, self.of_kind, strict=True)):
            room = {self.member[arc]: self.count[arc] for arc in arcs if self.count[arc]}
            rest: Sequence[int] = range(first, first + len(part))
            if self._homes[number] or self.group.kinds[number].homes:
                rest = self._keep(number, rest, room, at)
            for place, share in in_rounds(room):
                at[place] += rest[share]
            first += len(part)
        row = PartitionList.in_a_row(everything)
        for mine in at:
            mine.sort()
        owned_by = [row.at(mine) for mine in at]
        in_order = all(before[-1] < after[0] for before, after in pairwise(everything))
        return owned_by if in_order else [PartitionList.of(owned.pairs()) for owned in owned_by]

    def _keep(self, number: int, kind: Sequence[int], room: dict[Place, int], at: list[list[int]]) -> list[int]:
        """Let members keep what they hold of a kind, as far as they have room. Returns the rest."""
        claimants = self.group.kinds[number].homes
        homes = chain.from_iterable([place] * room.get(place, 0) for place in claimants) if claimants else self._homes[number]
        rest: list[int] = []
        for one, place in zip(kind, chain(homes, repeat(None)), strict=False):
            left = 0 if place is None else room.get(place, 0)
            if place is None or not left:
                rest.append(one)
                continue
            at[place].append(one)
            if left == 1:
                del room[place]
            else:
                room[place] = left - 1
        return rest


def _homes(kind: PartitionKind, home: Mapping[QueueName, Sequence[Place | None]]) -> list[Place | None]:
    """The holders of the kind's partitions; empty: none is held."""
    if not any(queue in home for queue in set(kind.partitions.queues)):
        return []
    homes: list[Place | None] = []
    for queue, numbers in kind.partitions.by_queue():
        places = home.get(queue)
        homes += [None] * len(numbers) if places is None else [places[number] for number in numbers]
    return homes


# From what the members hold to the most even assignment.
#
# Units move along paths: a member gives a partition of a kind to a reader, which gives one of another kind to another reader, and
# so on. Only the loads at the ends of a path change. An assignment is the most even one exactly if no path makes it more even
# (Harvey, Ladner, Lovász and Tamir 2003, for semi-matchings), because the sum of load² / capacity is convex and separable. One
# search backwards from the members with the least load visits every node once, and finds a path or proves that there is none. As
# in Dinic's algorithm, one search serves many units: they use all shortest paths that it found.


_UNSEEN = -1


def level(table: CountTable) -> None:
    """Give out free partitions, then move units along paths until no path makes the table more even."""
    _deal(table)
    while _Search(table).improve():
        pass


def _deal(table: CountTable) -> None:
    """Give free partitions to the readers with the least load: near ones first, up to an even share of everything, then any."""
    sizes = [len(kind.partitions) for kind in table.group.kinds]
    free = [size - sum(table.count[arc] for arc in arcs) for size, arcs in zip(sizes, table.of_kind, strict=True)]
    fewest_readers_first = sorted(range(len(sizes)), key=lambda kind: len(table.of_kind[kind]))
    even = sum(sizes) // max(1, sum(map(bool, table.of_member)))
    for kind in fewest_readers_first if any(table.far) else ():
        near = [arc for arc in table.of_kind[kind] if not table.far[arc] and table.load[table.member[arc]] < even]
        room = sum(even - table.load[table.member[arc]] for arc in near)
        free[kind] -= _deal_out(table, min(room, free[kind]), near, even)
    for kind in fewest_readers_first:
        _deal_out(table, free[kind], table.of_kind[kind], None)


def _deal_out(table: CountTable, units: int, arcs: Sequence[Arc], most: int | None) -> int:
    """Give units one by one to the reader that keeps the table most even, up to a load of `most`. Returns their number."""
    if not units:
        return 0
    if most is None and len({table.step[table.member[arc]] for arc in arcs}) == len({table.gain(arc) for arc in arcs}) == 1:
        _give_out_at_once(table, units, arcs)
        return units
    emptiest = [(table.up(table.member[arc]), table.gain(arc), place, arc) for place, arc in enumerate(arcs)]
    heapq.heapify(emptiest)
    for _ in range(units):
        _, _, place, arc = emptiest[0]
        table.put(arc, 1)
        if table.load[table.member[arc]] == most:
            heapq.heappop(emptiest)
        else:
            heapq.heapreplace(emptiest, (table.up(table.member[arc]), table.gain(arc), place, arc))
    return units


def _give_out_at_once(table: CountTable, units: int, arcs: Sequence[Arc]) -> None:
    """Give them at once to members that differ only in load: all that get any reach the same level, the first ones one more."""
    loads = [table.load[table.member[arc]] for arc in arcs]
    volume, takers, level = units, 0, 0
    for load in sorted(loads):
        if takers and (volume + load) // (takers + 1) < load:
            break
        volume, takers = volume + load, takers + 1
        level, above = divmod(volume, takers)
    for arc, load in zip(arcs, loads, strict=True):
        if load <= level:
            one_more = above > 0
            above -= one_more
            table.put(arc, level - load + one_more)


class _Search:
    """A search of the whole table, and the moves along the paths that it found."""

    def __init__(self, table: CountTable) -> None:
        self._table = table
        self._depth = [_UNSEEN] * len(table.of_member)
        self._kind_depth = [_UNSEEN] * len(table.of_kind)
        """The distance to a root. A kind is as deep as the members that take from it; members that give of it are one deeper.
        Each group of roots begins deeper than the previous group ended, so their paths do not meet."""
        self._give_at = [0] * len(table.of_member)
        self._take_at = [0] * len(table.of_kind)
        """The first arc that may still be usable."""

    def improve(self) -> bool:
        """Move units along the paths found. False: there is no path."""
        table, improved, first = self._table, False, 0
        height = [(2 * load + 1) * step for load, step in zip(table.load, table.step, strict=True)]
        for price, equals in groupby(sorted(range(len(height)), key=height.__getitem__), height.__getitem__):
            roots = [member for member in equals if self._depth[member] == _UNSEEN]
            reached = self._spread(roots, first)
            fuller = [(-table.down(member), self._depth[member], member) for member in reached if table.down(member) > price]
            heapq.heapify(fuller)  # of equal loads the nearest first, because short paths take fewer moves
            while fuller:
                _, depth, giver = fuller[0]
                if self._move(giver, first):
                    improved = True
                    heapq.heapreplace(fuller, (-table.down(giver), depth, giver))
                elif table.down(giver) <= min(map(table.up, roots)):
                    break
                else:
                    heapq.heappop(fuller)
            if reached:
                first = self._depth[reached[-1]] + 1
        return improved

    def _spread(self, roots: list[Place], first: int) -> list[Place]:
        """The members whose units can reach a root, nearest first."""
        reached = list(roots)
        table, depth, kind_depth = self._table, self._depth, self._kind_depth
        for root in roots:
            depth[root] = first
        for taker in reached:
            for arc in table.of_member[taker]:
                kind = table.kind[arc]
                if kind_depth[kind] != _UNSEEN:
                    continue
                kind_depth[kind] = depth[taker]
                for other in table.of_kind[kind]:
                    giver = table.member[other]
                    if table.count[other] and depth[giver] == _UNSEEN:
                        depth[giver] = depth[taker] + 1
                        reached.append(giver)
        return reached

    def _move(self, giver: Place, first: int) -> bool:
        """Move one unit from the giver to a root, if there is a path left that makes the two more even."""
        table, price, at = self._table, self._table.down(giver), giver
        path: list[tuple[Arc, Arc]] = []
        while self._depth[at] > first or table.up(at) >= price:
            step = self._step(at, first)
            if step is not None:
                path.append(step)
                at = table.member[step[1]]
            elif path:
                given, taken = path.pop()
                self._take_at[table.kind[taken]] += 1
                at = table.member[given]
            else:
                return False
        for given, taken in path:
            table.put(given, -1)
            table.put(taken, 1)
        return True

    def _step(self, giver: Place, first: int) -> tuple[Arc, Arc] | None:
        """An arc on which the giver gives, and one on which a member nearer to a root takes; None: none left."""
        table, depth, arcs = self._table, self._depth[giver], self._table.of_member[giver]
        while depth > first and self._give_at[giver] < len(arcs):
            given = arcs[self._give_at[giver]]
            kind = table.kind[given]
            takers = table.of_kind[kind]
            open_ = table.count[given] and self._kind_depth[kind] == depth - 1
            while open_ and self._take_at[kind] < len(takers):
                taken = takers[self._take_at[kind]]
                if self._depth[table.member[taken]] == depth - 1:
                    return given, taken
                self._take_at[kind] += 1
            self._give_at[giver] += 1
        return None


# The fewest moves among the most even assignments, and among those the fewest zone mismatches.
#
# Two equally even assignments differ by cycles of units (A gives one to B, B to C, C to A), and by paths whose giver has one step
# of load more than the receiver, so that the two swap loads. A node for each height of such a step closes these paths to cycles.
# The table has the least cost exactly if no cycle has a negative cost (Klein 1967). The search lowers distances (Bellman and
# Ford), beginning at arcs with a negative cost, and cancels the cycles that it finds. Once no distance can be lowered, the
# distances are the proof. A search that takes too long ends without a proof: the table is as even, with fewer moves than before.


MOST_HOPS = 20_000_000
"""The most arcs that a search visits: two or three seconds. If all partitions move, it visits about the square of the
kinds times the members."""

_Node = int
"""Kinds, then members, then heights of steps as they are found."""
_NO_NODE = _NO_ARC = -1
_Hop = tuple[_Node, _Node, Arc]
"""From a node to the next one, and the arc between them."""


def settle(table: CountTable, hops: int = MOST_HOPS, *, swap_loads: bool = True) -> int:
    """Cancel cycles until none is left, or for at most `hops`. Returns the remaining hops. `swap_loads` False: keep all loads."""
    return _Settling(table, hops, swap_loads).run() if any(table.held) or any(table.far) else hops


class _Settling:
    def __init__(self, table: CountTable, hops: int, swap_loads: bool) -> None:
        self._table = table
        self._swap_loads = swap_loads
        self._hops_left = hops
        self._members = len(table.of_kind)
        """The node of the first member."""
        self._heights = self._members + len(table.of_member)
        """The node of the first height."""
        self._distance = [0] * self._heights
        """The search starts from every node."""
        self._before = [_NO_NODE] * self._heights
        self._via = [_NO_ARC] * self._heights
        self._height: dict[int, _Node] = {}
        self._with_step: list[dict[Place, None]] = []
        """By height: the members that would lower the unevenness by that much by giving a unit."""
        for member in range(len(table.of_member)):
            self._equals(table.down(member))[member] = None
        self._guests: list[dict[Arc, None]] = [{} for _ in table.of_member]
        """By member: the arcs on which it has more than it held; giving one of these away costs no move."""
        for arc, (count, held) in enumerate(zip(table.count, table.held, strict=True)):
            if count > held:
                self._guests[table.member[arc]][arc] = None

    def run(self) -> int:
        """Return the remaining hops."""
        active: dict[_Node, None] = dict.fromkeys(self._cheap())
        while active and self._hops_left > 0:
            active = self._lower(active)
            for cycle in list(self._cycles(active)):
                while self._cost(cycle) < 0:
                    active |= dict.fromkeys(self._push(cycle))
                for _, node, _ in cycle:
                    self._before[node] = _NO_NODE
                    active[node] = None
        return max(0, self._hops_left)

    def _node(self, height: int) -> _Node:
        if height not in self._height:
            self._height[height] = len(self._distance)
            self._distance.append(0)
            self._before.append(_NO_NODE)
            self._via.append(_NO_ARC)
            self._with_step.append({})
        return self._height[height]

    def _equals(self, height: int) -> dict[Place, None]:
        return self._with_step[self._node(height) - self._heights]

    def _cheap(self) -> Iterator[_Node]:
        """The nodes at which arcs with a negative cost begin."""
        table = self._table
        for arc, (count, held, far) in enumerate(zip(table.count, table.held, table.far, strict=True)):
            if far or count < held:
                if table.gain(arc) < 0:
                    yield table.kind[arc]
                if count and table.loss(arc) < 0:
                    yield self._members + table.member[arc]

    def _lower(self, active: Iterable[_Node]) -> dict[_Node, None]:
        """Lower the distances of the nodes next to active ones, in one round. Returns the nodes whose distance fell."""
        nearer: dict[_Node, None] = {}
        distance, before, via = self._distance, self._before, self._via
        farthest = max(distance[: self._members])
        for node in active:
            here = distance[node]
            hops = self._next(node, farthest)
            self._hops_left -= len(hops)
            for there, arc, cost in hops:
                if here + cost < distance[there]:
                    distance[there] = here + cost
                    before[there], via[there] = node, arc
                    nearer[there] = None
        return nearer

    def _next(self, node: _Node, farthest: int) -> Sequence[tuple[_Node, Arc, int]]:
        """The next nodes, with arcs and costs. Arcs that cost a move are omitted if they cannot lower a distance, because no kind
        is farther than `farthest`."""
        table = self._table
        kind, member, count, held, far, worth = table.kind, table.member, table.count, table.held, table.far, table.worth
        first = self._members
        if node < first:  # as CountTable.gain
            return [(first + member[a], a, far[a] - worth if count[a] < held[a] else far[a]) for a in table.of_kind[node]]
        if node >= self._heights:
            return [(first + other, _NO_ARC, 0) for other in self._with_step[node - self._heights]]
        arcs = table.of_member[node - first] if self._distance[node] + worth <= farthest else self._guests[node - first]
        hops = [(kind[a], a, worth - far[a] if count[a] <= held[a] else -far[a]) for a in arcs if count[a]]
        if self._swap_loads:
            hops.append((self._node(table.up(node - first)), _NO_ARC, 0))
        return hops

    def _cycles(self, starts: Iterable[_Node]) -> Iterator[list[_Hop]]:
        """The disjoint cycles among the predecessors of these nodes."""
        seen: dict[_Node, _Node] = {}
        for start in starts:
            node = start
            while node not in seen:
                seen[node] = start
                if self._before[node] == _NO_NODE:
                    break
                node = self._before[node]
            else:
                if seen[node] == start:
                    yield self._around(node)

    def _around(self, node: _Node) -> list[_Hop]:
        cycle: list[_Hop] = []
        at = node
        while not cycle or at != node:
            cycle.append((self._before[at], at, self._via[at]))
            at = self._before[at]
        return cycle

    def _cost(self, cycle: Iterable[_Hop]) -> int:
        """The cost of a unit around the cycle; 0 if an arc of the cycle can no longer take one."""
        table, total = self._table, 0
        for here, there, arc in cycle:
            if there >= self._heights:
                if self._node(table.up(here - self._members)) != there:
                    return 0
            elif here >= self._heights:
                if there - self._members not in self._with_step[here - self._heights]:
                    return 0
            elif here < self._members:
                total += table.gain(arc)
            elif table.count[arc]:
                total += table.loss(arc)
            else:
                return 0
        return total

    def _push(self, cycle: Iterable[_Hop]) -> list[_Node]:
        """Move one unit around the cycle. Returns the heights whose members changed."""
        table, first = self._table, self._members
        swapped = {there - first: None for here, there, _ in cycle if here >= self._heights}
        swapped |= {here - first: None for here, there, _ in cycle if there >= self._heights}
        for member in swapped:
            del self._equals(table.down(member))[member]
        for here, _, arc in cycle:
            if arc != _NO_ARC:
                table.put(arc, 1 if here < first else -1)
                guests = self._guests[table.member[arc]]
                if table.count[arc] > table.held[arc]:
                    guests[arc] = None
                else:
                    guests.pop(arc, None)
        for member in swapped:
            self._equals(table.down(member))[member] = None
        return [self._node(table.down(member)) for member in swapped]
