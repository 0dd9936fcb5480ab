"""Flows of least cost where every further unit on an arc costs at least as much as the one before it.

A flow costs least exactly when the residual network has no cycle of negative cost (Klein 1967). With convex costs it is enough
to look at the next unit of every arc, so a start that is nearly right is repaired with a few cycles and proved by the last
search.
Whole numbers only: no rounding, no tolerance.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

Price = Callable[[int], int | None]
"""What the n-th unit (from 1) on an arc costs; None where no n-th unit fits. Must not fall as n grows."""

_Step = tuple[int, bool]
"""An arc, and whether it is taken forwards."""


@dataclass(slots=True)
class _Arc:
    tail: int
    head: int
    price: Price
    flow: int
    up: int | None = None
    """What one unit more costs."""
    down: int | None = None
    """What one unit less costs (a gain is negative)."""

    def refresh(self) -> None:
        self.up = self.price(self.flow + 1)
        self.down = None if self.flow == 0 else -_known(self.price(self.flow))


def _known(price: int | None) -> int:
    if price is None:
        raise ValueError("an arc carries more than fits")
    return price


@dataclass(slots=True)
class Network:
    """A network with a flow on it; `settle` makes that flow one of least cost among those with the same excess at every node."""

    nodes: int
    arcs: list[_Arc] = field(default_factory=list)
    _touching: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._touching = [[] for _ in range(self.nodes)]

    def add(self, tail: int, head: int, price: Price, flow: int) -> int:
        """Adds an arc that already carries `flow` units and returns its number."""
        arc = _Arc(tail, head, price, flow)
        arc.refresh()
        number = len(self.arcs)
        self.arcs.append(arc)
        self._touching[tail].append(number)
        self._touching[head].append(number)
        return number

    def settle(self) -> None:
        """Cancels cycles of negative cost until there are none. Depends on the order of nodes and arcs only.

        Distances are lowered along the arcs that are there (Bellman and Ford). A cycle among the predecessors costs less than
        nothing: it is cancelled, and the search goes on from its nodes. When no distance can be lowered any more, the distances
        are the proof.
        """
        distance = [0] * self.nodes
        via: list[_Step | None] = [None] * self.nodes
        active: dict[int, None] = dict.fromkeys(range(self.nodes))
        while active:
            active = self._lower(active, distance, via)
            for cycle in list(self._cycles(active, via)):
                while self._cost(cycle) < 0:
                    self._push(cycle)
                for step in cycle:
                    node = self._origin(step)
                    via[node] = None
                    active[node] = None

    def _lower(self, active: Iterable[int], distance: list[int], via: list[_Step | None]) -> dict[int, None]:
        """One round over the active nodes; returns those that came nearer."""
        nearer: dict[int, None] = {}
        arcs = self.arcs
        for node in active:
            here = distance[node]
            for number in self._touching[node]:
                arc = arcs[number]
                forwards = arc.tail == node
                price = arc.up if forwards else arc.down
                if price is None:
                    continue
                there = arc.head if forwards else arc.tail
                if here + price < distance[there]:
                    distance[there] = here + price
                    via[there] = (number, forwards)
                    nearer[there] = None
        return nearer

    def _cycles(self, starts: Iterable[int], via: list[_Step | None]) -> Iterator[list[_Step]]:
        """The disjoint cycles among the predecessors that can be reached from these nodes."""
        seen: dict[int, int] = {}
        for start in starts:
            node = start
            while node not in seen:
                seen[node] = start
                step = via[node]
                if step is None:
                    break
                node = self._origin(step)
            else:
                if seen[node] == start:
                    yield self._around(node, via)

    def _around(self, node: int, via: list[_Step | None]) -> list[_Step]:
        cycle: list[_Step] = []
        at = node
        while True:
            step = via[at]
            assert step is not None
            cycle.append(step)
            at = self._origin(step)
            if at == node:
                return cycle

    def _origin(self, step: _Step) -> int:
        arc = self.arcs[step[0]]
        return arc.tail if step[1] else arc.head

    def _cost(self, cycle: list[_Step]) -> int:
        total = 0
        for number, forwards in cycle:
            price = self.arcs[number].up if forwards else self.arcs[number].down
            if price is None:
                return 0
            total += price
        return total

    def _push(self, cycle: list[_Step]) -> None:
        for number, forwards in cycle:
            arc = self.arcs[number]
            arc.flow += 1 if forwards else -1
            arc.refresh()
