"""Among the most even assignments the one with the fewest moves, and among those the fewest zone mismatches.

Two assignments that are equally even differ by cycles of units (A gives B's to B, B gives C's to C, C gives A's to A), and by
paths whose giver has exactly one step more than the receiver, so that the two swap loads. A node for every height of step closes
such paths to cycles. The table costs least exactly when no cycle costs less than nothing (Klein 1967). Cycles are found by
lowering distances (Bellman and Ford), starting from the arcs that cost less than nothing, and cancelled. When no distance can be
lowered, the distances are the proof.
"""

from collections.abc import Iterable, Iterator

from baton.assignors.kinds import Place
from baton.assignors.table import Arc, Table

_Node = tuple[int, int]
_KIND, _MEMBER, _STEP = range(3)
_NO_ARC = -1
_Via = tuple[_Node, Arc]
"""The node before, and the arc between them."""


def settle(table: Table, swap_loads: bool = True) -> None:
    """Cancels cycles until there are none. `swap_loads` False: every load stays as it is."""
    _Settling(table, swap_loads).run()


class _Settling:
    def __init__(self, table: Table, swap_loads: bool) -> None:
        self._table = table
        self._swap_loads = swap_loads
        self._distance: dict[_Node, int] = {}
        """0 where a node is missing: the search starts from everywhere."""
        self._via: dict[_Node, _Via] = {}
        self._with_step: dict[int, dict[Place, None]] = {}
        """Per height: the members that would take that much unevenness away by giving a unit."""
        for member in range(len(table.of_member)):
            self._with_step.setdefault(table.down(member), {})[member] = None

    def run(self) -> None:
        active: dict[_Node, None] = dict.fromkeys(self._cheap())
        while active:
            active = self._lower(active)
            for cycle in list(self._cycles(active)):
                while self._cost(cycle) < 0:
                    active |= dict.fromkeys(self._push(cycle))
                for node, _ in cycle:
                    self._via.pop(node, None)
                    active[node] = None

    def _cheap(self) -> Iterator[_Node]:
        """Where arcs start that cost less than nothing."""
        table = self._table
        for arc, kind in enumerate(table.kind):
            if table.gain(arc) < 0:
                yield _KIND, kind
            if table.count[arc] and table.loss(arc) < 0:
                yield _MEMBER, table.member[arc]

    def _lower(self, active: Iterable[_Node]) -> dict[_Node, None]:
        """One round over the active nodes; returns those that came nearer."""
        nearer: dict[_Node, None] = {}
        distance, via = self._distance, self._via
        for node in active:
            here = distance.get(node, 0)
            for there, arc, cost in self._next(node):
                if here + cost < distance.get(there, 0):
                    distance[there] = here + cost
                    via[there] = node, arc
                    nearer[there] = None
        return nearer

    def _next(self, node: _Node) -> Iterator[tuple[_Node, Arc, int]]:
        table, number = self._table, node[1]
        if node[0] == _KIND:
            for arc in table.of_kind[number]:
                yield (_MEMBER, table.member[arc]), arc, table.gain(arc)
        elif node[0] == _MEMBER:
            for arc in table.of_member[number]:
                if table.count[arc]:
                    yield (_KIND, table.kind[arc]), arc, table.loss(arc)
            if self._swap_loads:
                yield (_STEP, table.up(number)), _NO_ARC, 0
        else:
            for member in self._with_step.get(number, ()):
                yield (_MEMBER, member), _NO_ARC, 0

    def _cycles(self, starts: Iterable[_Node]) -> Iterator[list[tuple[_Node, _Via]]]:
        """The disjoint cycles among the predecessors that can be reached from these nodes."""
        seen: dict[_Node, _Node] = {}
        for start in starts:
            node = start
            while node not in seen:
                seen[node] = start
                before = self._via.get(node)
                if before is None:
                    break
                node = before[0]
            else:
                if seen[node] == start:
                    yield self._around(node)

    def _around(self, node: _Node) -> list[tuple[_Node, _Via]]:
        cycle: list[tuple[_Node, _Via]] = []
        at = node
        while not cycle or at != node:
            cycle.append((at, self._via[at]))
            at = self._via[at][0]
        return cycle

    def _cost(self, cycle: Iterable[tuple[_Node, _Via]]) -> int:
        """0 where the cycle is not open any more."""
        table, total = self._table, 0
        for (there, to), ((here, origin), arc) in cycle:
            if there == _STEP:
                if table.up(origin) != to:
                    return 0
            elif here == _STEP:
                if to not in self._with_step.get(origin, ()):
                    return 0
            elif here == _KIND:
                total += table.gain(arc)
            elif table.count[arc]:
                total += table.loss(arc)
            else:
                return 0
        return total

    def _push(self, cycle: Iterable[tuple[_Node, _Via]]) -> list[_Node]:
        """One unit around the cycle; returns the steps that have other members now."""
        table, steps = self._table, []
        swapped = {node[1]: None for node, (before, _) in cycle if before[0] == _STEP}
        swapped |= {before[1]: None for node, (before, _) in cycle if node[0] == _STEP}
        for member in swapped:
            del self._with_step[table.down(member)][member]
        for _, ((here, _), arc) in cycle:
            if arc != _NO_ARC:
                table.put(arc, 1 if here == _KIND else -1)
        for member in swapped:
            self._with_step.setdefault(table.down(member), {})[member] = None
            steps.append((_STEP, table.down(member)))
        return steps
