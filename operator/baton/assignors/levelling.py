"""From what is held to the most even assignment there is.

A unit can go along a path: a member gives one of a kind to a reader of it, which gives one of another kind to a reader of that,
and so on. Only the ends of a path change their load. An assignment is the most even one exactly when no path makes it more even
(Harvey, Ladner, Lovász and Tamir 2003, for semi-matchings): the sum of load² / capacity is convex and separable, so a path of
negative cost is the only way down. One search backwards from the emptiest members visits every node once, and finds a path or
proves that there is none.
"""

import heapq
from collections.abc import Sequence
from itertools import groupby

from baton.assignors.kinds import Place
from baton.assignors.table import Arc, Table


def level(table: Table) -> None:
    """Gives out what nobody holds, then moves units along paths until the table is as even as can be."""
    _deal(table)
    while _Search(table).improve():
        pass


def _deal(table: Table) -> None:
    """What is free goes to the emptiest readers: first near ones, up to an even share of everything, then any."""
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


def _deal_out(table: Table, units: int, arcs: Sequence[Arc], most: int | None) -> int:
    """One by one to whom it makes the least uneven, up to a load of `most`; returns how many went out."""
    if not units:
        return 0
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


class _Search:
    """One search over the whole table."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._receives: list[Arc] = [-1] * len(table.of_kind)
        """Per kind: the arc on which a unit of it goes on towards the emptiest member that can be reached."""
        self._gives: list[Arc] = [-1] * len(table.of_member)
        """Per member: the arc on which it gives a unit for that; -1 where the path ends."""
        self._reached: list[bool] = []

    def improve(self) -> bool:
        """Moves units along the paths that it finds; False: there were none, so there are none."""
        table, improved = self._table, False
        self._reached = [False] * len(table.of_member)
        emptiest_first = sorted(range(len(table.of_member)), key=lambda member: (table.up(member), member))
        for price, equals in groupby(emptiest_first, table.up):
            roots = [member for member in equals if not self._reached[member]]
            fuller = [member for member in self._spread(roots) if table.down(member) > price]
            fuller.sort(key=lambda member: (-table.down(member), member))
            for giver in fuller:
                while self._move(giver):
                    improved = True
        return improved

    def _spread(self, roots: list[Place]) -> list[Place]:
        """Everybody whose units can reach one of the roots, on the shortest paths."""
        table, receives, gives, reached = self._table, self._receives, self._gives, self._reached
        for root in roots:
            reached[root] = True
        for taker in roots:
            for arc in table.of_member[taker]:
                kind = table.kind[arc]
                if receives[kind] >= 0:
                    continue
                receives[kind] = arc
                for other in table.of_kind[kind]:
                    giver = table.member[other]
                    if table.count[other] and not reached[giver]:
                        reached[giver] = True
                        gives[giver] = other
                        roots.append(giver)
        return roots

    def _move(self, giver: Place) -> bool:
        """One unit from the giver to its root, if the path is still open and that makes the two more even."""
        table, path, member = self._table, [], giver
        while self._gives[member] >= 0:
            arc = self._gives[member]
            if not table.count[arc]:
                return False
            path.append(arc)
            member = table.member[self._receives[table.kind[arc]]]
        if table.down(giver) <= table.up(member):
            return False
        for arc in path:
            table.put(arc, -1)
            table.put(self._receives[table.kind[arc]], 1)
        return True
