"""Baton's own assignor: the most even assignment, with the fewest moves, then the fewest zone mismatches.

The most even assignment has the least sum of load² / capacity; a member's load is the weight of its partitions.
`docs/concepts/minimal.md` has the proof.

Partitions of equal weight are counted (`counts`). With unequal weights, finding the most even assignment is NP-hard, like
dividing numbers into equal sums: a full search proves the answer for small groups; for large ones, moves and swaps improve an
assignment until none helps. Then partitions of equal weight change members to save moves and zone mismatches, which is exact
again.
"""

import heapq
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from math import lcm

from baton.assignors.building_blocks import Declaration, PartitionList, Place
from baton.assignors.own.counts import MOST_HOPS, CountTable, GroupedRequest, PartitionKind, grouped, level, settle
from baton.assignors.request import Answer, AssignorError, Request
from baton.model.ids import Partition

# Loads of unequal partitions on members of unequal capacity, as integers


Cost = tuple[int, int, int]
"""Unevenness, moves (less a constant) and zone mismatches, compared in this order."""


class Loads:
    """Weights of partitions, capacities of members, and the cost of an assignment."""

    def __init__(self, group: GroupedRequest) -> None:
        self.group = group
        self.held = group.held()
        self.kind: dict[Partition, PartitionKind] = {partition: kind for kind in group.kinds for partition in kind.partitions}
        scale = lcm(*(kind.weight.denominator for kind in group.kinds))
        self.weight = {partition: int(kind.weight * scale) for partition, kind in self.kind.items()}
        self.capacity = _whole(group.capacity)
        self.step = [lcm(*self.capacity) // capacity for capacity in self.capacity]
        """By member: the unevenness (load² / capacity) of a load of 1."""
        sets = [frozenset(kind.readers) for kind in group.kinds]
        self.readers = {p: readers for kind, readers in zip(group.kinds, sets, strict=True) for p in kind.partitions}
        self.heaviest_first = sorted(self.weight, key=lambda partition: (-self.weight[partition], partition))

    def misplaced(self, partition: Partition, place: Place) -> tuple[int, int]:
        """Moves and zone mismatches of this partition with this member, 0 or 1 each."""
        kind = self.kind[partition]
        homes = kind.homes or ((self.held[partition],) if partition in self.held else ())
        return int(bool(homes) and place not in homes), int(self.group.far(kind, place))

    def totals(self, owners: Mapping[Partition, Place]) -> list[int]:
        totals = [0] * len(self.capacity)
        for partition, place in owners.items():
            totals[place] += self.weight[partition]
        return totals

    def cost(self, owners: Mapping[Partition, Place]) -> Cost:
        wrong = [self.misplaced(partition, place) for partition, place in owners.items()]
        return self.unevenness(self.totals(owners)), sum(moved for moved, _ in wrong), sum(far for _, far in wrong)

    def unevenness(self, totals: Sequence[int]) -> int:
        return sum(total * total * step for total, step in zip(totals, self.step, strict=True))

    def least_unevenness(self, totals: Sequence[int], rest: int) -> int:
        """A lower bound with an additional load of `rest`: as if it were divisible and all members read everything."""
        level, width = rest, 0
        waiting = sorted(range(len(totals)), key=lambda place: Fraction(totals[place], self.capacity[place]))
        done = 0
        while done < len(waiting) and totals[waiting[done]] * width <= level * self.capacity[waiting[done]]:
            level += totals[waiting[done]]
            width += self.capacity[waiting[done]]
            done += 1
        over = sum(totals[place] ** 2 * self.step[place] for place in waiting[done:])
        return over - (-level * level * lcm(*self.capacity) // width if width else 0)


def _whole(capacities: Sequence[Fraction]) -> list[int]:
    scale = lcm(*(capacity.denominator for capacity in capacities))
    return [int(capacity * scale) for capacity in capacities]


# Unequal weights


MOST_STEPS = 30_000
"""The most steps of a search, which then takes the best so far: well below a second."""
MOST_TRADES = 1_000
"""The most improvements of an assignment."""
PARTNERS = 8
"""The number of members with the highest loads, and of those with the lowest, that try to trade."""

Owners = dict[Partition, Place]


def weigh(group: GroupedRequest) -> Owners:
    """The owner of each partition: the best assignment if MOST_STEPS suffice to search all, else the best found."""
    loads = Loads(group)
    return _Search(loads, _with_fewest_moves(loads, _improved(loads, _kept(loads)))).run()


def _kept(loads: Loads) -> Owners:
    """Let members (of several holders, the first) keep what they hold, heaviest first, up to an even share of everything."""
    held = loads.held | {partition: kind.homes[0] for partition, kind in loads.kind.items() if kind.homes}
    share, shares = sum(loads.weight.values()), sum(loads.capacity)
    totals = [0] * len(loads.capacity)
    owners: Owners = {}
    for partition in loads.heaviest_first:
        place = held.get(partition)
        if place is not None and (totals[place] + loads.weight[partition]) * shares <= share * loads.capacity[place]:
            owners[partition] = place
            totals[place] += loads.weight[partition]
    return owners


def _improved(loads: Loads, owners: Owners) -> Owners:
    """Give out free partitions, heaviest first, to the least loaded; then move and swap, from the most loaded members on."""
    owners = dict(owners)
    totals = loads.totals(owners)
    _deal(loads, owners, totals)
    owned_by: list[list[Partition]] = [[] for _ in totals]
    for partition, place in owners.items():
        owned_by[place].append(partition)
    trades = _Trades(loads, owned_by, totals)
    for _ in range(MOST_TRADES):
        if not trades.make_one():
            break
    return {partition: place for place, owned in enumerate(owned_by) for partition in owned}


def _deal(loads: Loads, owners: Owners, totals: list[int]) -> None:
    """Of the least loaded readers, choose the one with the least unevenness, then a holder, then the one with the fewest."""
    counts = Counter(owners.values())
    emptiest: dict[frozenset[Place], list[tuple[int, int, Place]]] = {}
    for partition in loads.heaviest_first:
        if partition in owners:
            continue
        weight, readers = loads.weight[partition], loads.readers[partition]
        heap = emptiest.get(readers)
        if heap is None:
            heap = emptiest[readers] = [(totals[reader] * loads.step[reader], counts[reader], reader) for reader in readers]
            heapq.heapify(heap)
        choice: list[Place] = []
        while heap and len(choice) < PARTNERS:
            height, count, reader = heapq.heappop(heap)
            known = totals[reader] * loads.step[reader], counts[reader], reader
            if known == (height, count, reader):
                choice.append(reader)
            else:
                heapq.heappush(heap, known)

        def burden(
            reader: Place, weight: int = weight, partition: Partition = partition
        ) -> tuple[int, tuple[int, int], int, Place]:
            more = weight * (2 * totals[reader] + weight) * loads.step[reader]
            return more, loads.misplaced(partition, reader), counts[reader], reader

        place = min(choice, key=burden)
        owners[partition] = place
        totals[place] += weight
        counts[place] += 1
        for reader in choice:
            heapq.heappush(heap, (totals[reader] * loads.step[reader], counts[reader], reader))


class _Trades:
    """Moves of one partition and swaps of two that make two members more even."""

    def __init__(self, loads: Loads, owned_by: list[list[Partition]], totals: list[int]) -> None:
        self._loads = loads
        self._owned_by = owned_by
        self._totals = totals

    def make_one(self) -> bool:
        """Make the best trade of the most loaded member that has one. False: none of the most loaded has one."""
        height = [total * step for total, step in zip(self._totals, self._loads.step, strict=True)]
        emptiest = sorted(range(len(height)), key=lambda place: (height[place], place))
        return any(self._trade(giver, emptiest) for giver in emptiest[: -PARTNERS - 1 : -1] if self._owned_by[giver])

    def _trade(self, giver: Place, emptiest: Iterable[Place]) -> bool:
        read = [self._loads.readers[partition] for partition in self._owned_by[giver]]
        takers = islice((place for place in emptiest if place != giver and any(place in readers for readers in read)), PARTNERS)
        best: tuple[int, Place, Partition, Partition | None] | None = None
        for taker in takers:
            for gain, given, back in self._between(giver, taker):
                if gain > 0 and (best is None or gain > best[0]):
                    best = gain, taker, given, back
        if best is None:
            return False
        _, taker, given, back = best
        self._pass(given, giver, taker)
        if back is not None:
            self._pass(back, taker, giver)
        return True

    def _pass(self, partition: Partition, giver: Place, taker: Place) -> None:
        self._owned_by[giver].remove(partition)
        self._owned_by[taker].append(partition)
        self._totals[giver] -= self._loads.weight[partition]
        self._totals[taker] += self._loads.weight[partition]

    def _between(self, giver: Place, taker: Place) -> Iterable[tuple[int, Partition, Partition | None]]:
        """Trades with their gains: each partition of the giver, alone or for the best match of the taker."""
        loads, totals = self._loads, self._totals
        back = sorted((p for p in self._owned_by[taker] if giver in loads.readers[p]), key=lambda p: (loads.weight[p], p))
        weights = [loads.weight[partition] for partition in back]
        steps = loads.step[giver] + loads.step[taker]
        ideal = (totals[giver] * loads.step[giver] - totals[taker] * loads.step[taker]) // steps
        for partition in sorted(self._owned_by[giver]):
            if taker not in loads.readers[partition]:
                continue
            weight = loads.weight[partition]
            yield self._gain(giver, taker, weight), partition, None
            fit = bisect_left(weights, weight - ideal)
            for at in range(max(0, fit - 1), min(len(back), fit + 1)):
                yield self._gain(giver, taker, weight - weights[at]), partition, back[at]

    def _gain(self, giver: Place, taker: Place, load: int) -> int:
        """The decrease of the unevenness if this load goes from giver to taker."""
        before, after = self._totals[giver], self._totals[taker]
        return load * ((2 * before - load) * self._loads.step[giver] - (2 * after + load) * self._loads.step[taker])


def _with_fewest_moves(loads: Loads, owners: Owners) -> Owners:
    """The same loads with the fewest moves, then mismatches: exchange partitions of equal weight."""
    settled = {
        partition: min(loads.kind[partition].readers, key=lambda r: (loads.misplaced(partition, r), r != owners[partition]))
        for partition, weight in loads.weight.items()
        if not weight
    }
    of_weight: dict[int, list[PartitionKind]] = defaultdict(list)
    for kind in loads.group.kinds:
        if kind.weight:
            of_weight[loads.weight[kind.partitions[0]]].append(kind)
    hops = MOST_HOPS
    for kinds in of_weight.values():
        partitions = [partition for kind in kinds for partition in kind.partitions]
        if len(partitions) == 1 or not any(any(loads.misplaced(partition, owners[partition])) for partition in partitions):
            settled |= {partition: owners[partition] for partition in partitions}
            continue
        part = replace(loads.group, kinds=kinds)
        table = CountTable(part)
        arcs = {(table.kind[arc], table.member[arc]): arc for arc in range(len(table.kind))}
        for arc, count in enumerate(table.count):
            table.put(arc, -count)
        for number, kind in enumerate(part.kinds):
            for partition in kind.partitions:
                table.put(arcs[number, owners[partition]], 1)
        hops = settle(table, hops, swap_loads=False)
        settled |= {partition: place for place, owned in enumerate(table.owned_by()) for partition in owned}
    return settled


class _Search:
    """A depth-first search, heaviest partition first, that leaves branches that cannot beat the best so far."""

    def __init__(self, loads: Loads, best: Owners) -> None:
        self._loads = loads
        self._best = best
        self._least: Cost = loads.cost(best)
        self._steps = 0
        self._order = loads.heaviest_first
        self._rest = [0]
        for partition in reversed(self._order):
            self._rest.append(self._rest[-1] + loads.weight[partition])
        self._rest.reverse()

    def run(self) -> Owners:
        if len(self._order) <= 64:  # MOST_STEPS never suffice for more
            self._descend({}, [0] * len(self._loads.capacity), 0, 0)
        return self._best

    def _descend(self, owners: Owners, totals: list[int], moves: int, far: int) -> None:
        self._steps += 1
        depth = len(owners)
        least = self._loads.least_unevenness(totals, self._rest[depth]), moves, far
        if self._steps > MOST_STEPS or least >= self._least:
            return
        if depth == len(self._order):
            self._best, self._least = dict(owners), least
            return
        partition = self._order[depth]
        weight = self._loads.weight[partition]
        for place in sorted(self._loads.kind[partition].readers, key=lambda r: (2 * totals[r] + weight) * self._loads.step[r]):
            moved, mismatch = self._loads.misplaced(partition, place)
            owners[partition] = place
            totals[place] += weight
            self._descend(owners, totals, moves + moved, far + mismatch)
            totals[place] -= weight
            del owners[partition]


# The assignor


MOST_ARCS = 1_000_000
"""The most pairs of a kind and a reader: 130 MB, and five seconds if everything moves."""


def minimal(request: Request) -> Answer:
    """The most even assignment; of these one with the fewest moves, and of these one with the fewest zone mismatches.

    If much moves, the search for the fewest moves ends early (`settle`), and more may move than necessary. With different
    weights, the answer is proved only for small groups (`weigh`). Raises AssignorError above MOST_ARCS.
    """
    group = grouped(request)
    _check_room(group)
    alike = len({kind.weight for kind in group.kinds}) <= 1
    return Answer(dict(zip(group.members, _count(group) if alike else _weigh(group), strict=True)))


def _check_room(group: GroupedRequest) -> None:
    kinds, arcs = len(group.kinds), sum(len(kind.readers) for kind in group.kinds)
    if arcs > MOST_ARCS:
        raise AssignorError(
            "minimal",
            f"finds {kinds:,} kinds of partitions (of the same zones, weight and readers), and their readers would come to "
            f"{arcs:,} in all, more than {MOST_ARCS:,}: let more partitions have the same in spec.partitionAttributes of the "
            "queues, or name another assignor in spec.assignors",
        )


def _count(group: GroupedRequest) -> Sequence[PartitionList]:
    """The answer for partitions of equal weight."""
    table = CountTable(group)
    level(table)
    settle(table)
    return table.owned_by()


def _weigh(group: GroupedRequest) -> Sequence[PartitionList]:
    owned_by: list[list[Partition]] = [[] for _ in group.members]
    for partition, place in weigh(group).items():
        owned_by[place].append(partition)
    return [PartitionList.of(owned) for owned in owned_by]


MINIMAL = Declaration(
    name="minimal",
    assign=minimal,
    source="Baton",
    good_at="The most even totals that exist, with the fewest moves, then the fewest zone mismatches: [proved](minimal.md). "
    "Weights of partitions and capacities of members",
    costs="A queue by itself may be uneven",
)
