"""The assignor `minimal` where partitions weigh differently.

To find the most even assignment of unequal weights is NP-hard, as it is to divide numbers into equal sums. A full search proves
the answer for a small group. Moves and swaps improve a large one until none helps. Then partitions of equal weight change
members where that saves moves or zone mismatches, which is exact again.
"""

import heapq
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from baton.assignors.building_blocks.subscriptions import Place
from baton.assignors.own.count_table import CountTable
from baton.assignors.own.fewest_moves import MOST_HOPS, settle
from baton.assignors.own.partition_kinds import GroupedRequest, PartitionKind
from baton.assignors.own.weighted_loads import Cost, Loads
from baton.model.ids import Partition

MOST_STEPS = 30_000
"""Steps of a search before it takes the best so far: well below a second."""
MOST_TRADES = 1_000
"""Improvements of one start."""
PARTNERS = 8
"""How many members with the highest loads try a trade, and with how many of those with the lowest."""

Owners = dict[Partition, Place]


def weigh(group: GroupedRequest) -> Owners:
    """The owner of each partition: the best assignment if MOST_STEPS steps suffice to search all, else the best that it found."""
    loads = Loads(group)
    return _Search(loads, _with_fewest_moves(loads, _improved(loads, _kept(loads)))).run()


def _kept(loads: Loads) -> Owners:
    """Members keep what they hold (of several holders the first), heaviest first, up to an even share of everything."""
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
    """Gives out what has no owner, heaviest first, to the least loaded; then moves and swaps from the most loaded members on."""
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
    """Of the least loaded readers: the one that makes the least unevenness, then one that holds it, then the one with fewest."""
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
        """Makes the best trade of the most loaded member that has one. False: none of the most loaded has."""
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
        """Trades with their gains: each partition of the giver, alone or for the best fitting one of the taker."""
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
        """By how much the unevenness falls when this load goes from giver to taker."""
        before, after = self._totals[giver], self._totals[taker]
        return load * ((2 * before - load) * self._loads.step[giver] - (2 * after + load) * self._loads.step[taker])


def _with_fewest_moves(loads: Loads, owners: Owners) -> Owners:
    """The same loads with the fewest moves, then mismatches, by changes among equal weights."""
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
    """Depth first, heaviest partition first. It leaves a branch that cannot become better than the best so far."""

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
        if len(self._order) <= 64:  # MOST_STEPS never suffices for deeper ones
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
