"""Flows of least cost where every further unit on an arc costs at least as much as the one before it.

A flow costs least exactly when the residual network has no cycle of negative cost (Klein 1967). With convex costs it is enough
to look at the next unit of every arc, so a start that is nearly right is repaired with a few cycles and proved by the last
search.
Whole numbers only: no rounding, no tolerance.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Price = Callable[[int], int | None]
"""What the n-th unit (from 1) on an arc costs; None where no n-th unit fits. Must not fall as n grows."""


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
        """Cancels cycles of negative cost until there are none. Depends on the order of nodes and arcs only."""
        while cycles := self._negative_cycles():
            for cycle in cycles:
                while self._cost(cycle) < 0:
                    self._push(cycle)

    def _negative_cycles(self) -> list[list[tuple[int, bool]]]:
        """Disjoint cycles of negative cost as (arc, forwards) steps; none if there is none at all (Bellman and Ford)."""
        distance = [0] * self.nodes
        via: list[tuple[int, bool] | None] = [None] * self.nodes
        active = list(range(self.nodes))
        rounds = 0
        while active:
            changed: dict[int, None] = {}
            for node in active:
                here = distance[node]
                for number in self._touching[node]:
                    arc = self.arcs[number]
                    forwards = arc.tail == node
                    price = arc.up if forwards else arc.down
                    if price is None:
                        continue
                    there = arc.head if forwards else arc.tail
                    if here + price < distance[there]:
                        distance[there] = here + price
                        via[there] = (number, forwards)
                        changed[there] = None
            active = list(changed)
            rounds += 1
            if rounds & (rounds - 1) == 0 or rounds > self.nodes:
                found = list(self._cycles(via))
                if found:
                    return found
        return []

    def _cycles(self, via: list[tuple[int, bool] | None]) -> Iterator[list[tuple[int, bool]]]:
        """The cycles among the predecessors; each has negative cost."""
        seen = [0] * self.nodes
        for walk, start in enumerate(range(self.nodes), start=1):
            node = start
            while not seen[node]:
                seen[node] = walk
                step = via[node]
                if step is None:
                    break
                node = self._origin(step)
            else:
                if seen[node] == walk:
                    yield self._around(node, via)

    def _around(self, node: int, via: list[tuple[int, bool] | None]) -> list[tuple[int, bool]]:
        cycle: list[tuple[int, bool]] = []
        at = node
        while True:
            step = via[at]
            assert step is not None
            cycle.append(step)
            at = self._origin(step)
            if at == node:
                return cycle

    def _origin(self, step: tuple[int, bool]) -> int:
        arc = self.arcs[step[0]]
        return arc.tail if step[1] else arc.head

    def _cost(self, cycle: list[tuple[int, bool]]) -> int:
        total = 0
        for number, forwards in cycle:
            price = self.arcs[number].up if forwards else self.arcs[number].down
            if price is None:
                return 0
            total += price
        return total

    def _push(self, cycle: list[tuple[int, bool]]) -> None:
        for number, forwards in cycle:
            arc = self.arcs[number]
            arc.flow += 1 if forwards else -1
            arc.refresh()
