"""The fewest moves among the most even assignments, and among those the fewest zone mismatches.

Two equally even assignments differ by cycles of units: A gives one to B, B to C, C to A. They also differ by paths whose giver
has one step of load more than the receiver, so that the two swap loads. A node for each height of such a step closes these paths
to cycles. The table costs least exactly when no cycle has a negative cost (Klein 1967). The search lowers distances (Bellman and
Ford), from the arcs with a negative cost on, and cancels the cycles that it finds. When it can lower no distance, the distances
are the proof. A long search ends without a proof: the table is as even as it was, with fewer moves than at the start.
"""

from collections.abc import Iterable, Iterator, Sequence

from baton.assignors.building_blocks.subscriptions import Place
from baton.assignors.own.count_table import Arc, CountTable

MOST_HOPS = 20_000_000
"""The most arcs that one search visits: two or three seconds. If all partitions move, it visits about the square of the kinds
times the members.
"""

_Node = int
"""Kinds come first, then members, then heights of step as the search meets them."""
_NO_NODE = _NO_ARC = -1
_Hop = tuple[_Node, _Node, Arc]
"""From a node to the next one, and the arc between them."""


def settle(table: CountTable, hops: int = MOST_HOPS, *, swap_loads: bool = True) -> int:
    """Cancel cycles until none is left, or for so many hops. Returns the remaining hops.

    With `swap_loads` False every load stays as it is.
    """
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
        """By height: the members that would lower the unevenness by that much if they gave a unit."""
        for member in range(len(table.of_member)):
            self._equals(table.down(member))[member] = None
        self._guests: list[dict[Arc, None]] = [{} for _ in table.of_member]
        """By member: the arcs on which it has more than it held. To give one of these away costs no move."""
        for arc, (count, held) in enumerate(zip(table.count, table.held, strict=True)):
            if count > held:
                self._guests[table.member[arc]][arc] = None

    def run(self) -> int:
        """Returns the hops that are left."""
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
        """The next nodes from a node, with arcs and costs.

        It omits arcs that cost a move if they can lower no distance, because no kind is farther than `farthest`.
        """
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
        """The cost of a unit around the cycle. 0: an arc of the cycle can take no unit any more."""
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
        """Moves one unit around the cycle; returns the heights that have other members now."""
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
