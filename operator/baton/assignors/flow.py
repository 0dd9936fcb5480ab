"""Flows of least cost where every further unit on an arc costs at least as much as the one before it.

A flow costs least exactly when the residual network has no cycle of negative cost (Klein 1967). With convex costs it is enough
to look at the next unit of every arc, so a start that is nearly right is repaired with a few cycles and proved by the last
search.
Whole numbers only: no rounding, no tolerance.
"""

from collections.abc import Callable, Iterable, Iterator

Price = Callable[[int], int | None]
"""What the n-th unit (from 1) on an arc costs; None where no n-th unit fits. Must not fall as n grows."""

_Step = int
"""Twice an arc's number: one unit more on it; and one: one unit less."""

_CLOSED = 1 << 200
"""The price of a step that cannot be taken: above all others together."""


class Network:
    """A network with a flow on it; `settle` makes that flow one of least cost among those with the same excess at every node."""

    def __init__(self, nodes: int) -> None:
        self.flow: list[int] = []
        """By arc."""
        self._nodes = nodes
        self._prices: list[Price] = []
        self._to: list[int] = []
        """By step: where it leads."""
        self._cost: list[int] = []
        """By step: what it costs now (a gain is negative)."""
        self._from: list[list[_Step]] = [[] for _ in range(nodes)]
        """By node: the steps that begin there."""

    def add(self, tail: int, head: int, price: Price, flow: int) -> int:
        """Adds an arc that already carries `flow` units and returns its number."""
        number = len(self.flow)
        self.flow.append(flow)
        self._prices.append(price)
        self._to += (head, tail)
        self._cost += (_CLOSED, _CLOSED)
        self._refresh(number)
        self._from[tail].append(2 * number)
        self._from[head].append(2 * number + 1)
        return number

    def _refresh(self, number: int) -> None:
        flow, price = self.flow[number], self._prices[number]
        more = price(flow + 1)
        self._cost[2 * number] = _CLOSED if more is None else more
        self._cost[2 * number + 1] = _CLOSED if flow == 0 else -_known(price(flow))

    def settle(self) -> None:
        """Cancels cycles of negative cost until there are none. Depends on the order of nodes and arcs only.

        Distances are lowered along the steps that can be taken (Bellman and Ford). A cycle among the predecessors costs less than
        nothing: it is cancelled, and the search goes on from its nodes. When no distance can be lowered any more, the distances
        are the proof.
        """
        distance = [0] * self._nodes
        via: list[_Step | None] = [None] * self._nodes
        active: dict[int, None] = dict.fromkeys(range(self._nodes))
        while active:
            active = self._lower(active, distance, via)
            for cycle in list(self._cycles(active, via)):
                while sum(self._cost[step] for step in cycle) < 0:
                    self._push(cycle)
                for step in cycle:
                    node = self._origin(step)
                    via[node] = None
                    active[node] = None

    def _lower(self, active: Iterable[int], distance: list[int], via: list[_Step | None]) -> dict[int, None]:
        """One round over the active nodes; returns those that came nearer."""
        nearer: dict[int, None] = {}
        to, cost = self._to, self._cost
        for node in active:
            here = distance[node]
            for step in self._from[node]:
                there = to[step]
                if here + cost[step] < distance[there]:
                    distance[there] = here + cost[step]
                    via[there] = step
                    nearer[there] = None
        return nearer

    def _cycles(self, starts: Iterable[int], via: list[_Step | None]) -> Iterator[list[_Step]]:
        """The disjoint cycles among the predecessors that can be reached from these nodes."""
        seen = [-1] * self._nodes
        """The start from which a node was seen first."""
        to = self._to
        for start in starts:
            node = start
            while seen[node] < 0:
                seen[node] = start
                step = via[node]
                if step is None:
                    break
                node = to[step ^ 1]
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
        return self._to[step ^ 1]

    def _push(self, cycle: list[_Step]) -> None:
        for step in cycle:
            self.flow[step // 2] += -1 if step % 2 else 1
            self._refresh(step // 2)


def _known(price: int | None) -> int:
    if price is None:
        raise ValueError("an arc carries more than fits")
    return price
