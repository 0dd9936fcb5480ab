"""From what the members hold to the most even assignment.

A unit can go along a path: a member gives one of a kind to a reader of it, which gives one of another kind to a reader of that,
and so on. Only the ends of a path change their load. An assignment is the most even one exactly when no path makes it more even
(Harvey, Ladner, Lovász and Tamir 2003, for semi-matchings): the sum of load² / capacity is convex and separable. One search
backwards from the members with the least load visits every node once. It finds a path or proves that there is none. As in
Dinic's algorithm, one search serves many units: they take all shortest paths that it found.
"""

import heapq
from collections.abc import Sequence
from itertools import groupby

from baton.assignors.building_blocks.subscriptions import Place
from baton.assignors.own.count_table import Arc, CountTable

_UNSEEN = -1


def level(table: CountTable) -> None:
    """Gives out what nobody holds, then moves units along paths until no path makes the table more even."""
    _deal(table)
    while _Search(table).improve():
        pass


def _deal(table: CountTable) -> None:
    """Gives what is free to the readers with the least load: first to near ones, up to an even share of everything, then to
    any."""
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
    """Gives units one by one to the reader that makes the table least uneven, up to a load of `most`; returns how many."""
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
    """The same where the members differ only in their loads: all that get something end at one level, the first ones one above
    it."""
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
    """One search over the whole table, and the moves along the paths that it found."""

    def __init__(self, table: CountTable) -> None:
        self._table = table
        self._depth = [_UNSEEN] * len(table.of_member)
        self._kind_depth = [_UNSEEN] * len(table.of_kind)
        """How far a unit must go to a root. A kind is as deep as the members that take from it; members that give of it are one
        deeper. Each group of roots begins deeper than the group before it ended, so their paths do not meet."""
        self._give_at = [0] * len(table.of_member)
        self._take_at = [0] * len(table.of_kind)
        """The first of its arcs that may still serve."""

    def improve(self) -> bool:
        """Moves units along the paths that it finds. False: no path exists."""
        table, improved, first = self._table, False, 0
        height = [(2 * load + 1) * step for load, step in zip(table.load, table.step, strict=True)]
        for price, equals in groupby(sorted(range(len(height)), key=height.__getitem__), height.__getitem__):
            roots = [member for member in equals if self._depth[member] == _UNSEEN]
            reached = self._spread(roots, first)
            fuller = [(-table.down(member), self._depth[member], member) for member in reached if table.down(member) > price]
            heapq.heapify(fuller)  # of equal loads the nearest first: short paths cost few moves
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
        """The members whose units can reach one of the roots, nearest first."""
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
        """Moves one unit from the giver to a root, if there is a path left and the move makes the two more even."""
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
        """An arc on which the giver gives, and one on which a member nearer to a root takes. None: there are none left."""
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
