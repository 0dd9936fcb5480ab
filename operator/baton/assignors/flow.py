"""Flows of least cost where every further unit on an arc costs at least as much as the one before it.

A flow costs least exactly when the residual network has no cycle of negative cost (Klein 1967). With convex costs it is enough
to look at the next unit of every arc, so a start that is nearly right is repaired with a few cycles and proved by the last
search.
Whole numbers only: no rounding, no tolerance. Columns instead of objects, for there may be a hundred thousand arcs.
"""

from collections.abc import Iterable, Iterator, Sequence

_Step = int
"""Twice an arc's number: one unit more on it; and one: one unit less."""

_CLOSED = 1 << 200
"""The price of a step that cannot be taken: above all others together."""


class Network:
    """A network with a flow on it; `settle` makes that flow one of least cost among those with the same excess at every node.

    The n-th unit on an arc (from 1) adds what it adds to growth · n². Each of the first `cheap` units costs one less.
    """

    def __init__(self, nodes: int) -> None:
        self.flow: list[int] = []
        """By arc."""
        self._growth: list[int] = []
        self._cheap: list[int] = []
        self._most: list[int | None] = []
        self._to: list[int] = []
        """By step: where it leads."""
        self._cost: list[int] = []
        """By step: what it costs now (a gain is negative)."""
        self._from: list[list[_Step]] = [[] for _ in range(nodes)]
        """By node: the steps that begin there. One that takes a unit back is listed when there is one."""

    def add(self, tail: int, head: int, flow: int, growth: int = 0, cheap: int = 0, most: int | None = None) -> int:
        """Adds an arc that already carries `flow` of at most `most` units, and returns its number."""
        number = len(self.flow)
        self.add_all(tail, (head,), (flow,), growth, (cheap,))
        if most is not None:
            self._most[number] = most
            self._refresh(number)
        return number

    def add_all(self, tail: int, heads: Sequence[int], flow: Sequence[int], growth: int, cheap: Sequence[int]) -> None:
        """Adds an arc to each of these nodes; their numbers follow each other."""
        first, count = len(self._to), len(heads)
        self.flow += flow
        self._growth += [growth] * count
        self._cheap += cheap
        self._most += [None] * count
        self._to += [tail] * (2 * count)
        self._to[first::2] = heads
        self._cost += [_CLOSED] * (2 * count)
        self._cost[first::2] = [growth * (2 * n + 1) - (n < less) for n, less in zip(flow, cheap, strict=True)]
        self._from[tail] += range(first, first + 2 * count, 2)
        for place, n in enumerate(flow):
            if n:
                back = first + 2 * place + 1
                self._cost[back] = (n <= cheap[place]) - growth * (2 * n - 1)
                self._from[heads[place]].append(back)

    def _refresh(self, number: int) -> None:
        n, growth, cheap = self.flow[number], self._growth[number], self._cheap[number]
        self._cost[2 * number] = _CLOSED if n == self._most[number] else growth * (2 * n + 1) - (n < cheap)
        self._cost[2 * number + 1] = (n <= cheap) - growth * (2 * n - 1) if n else _CLOSED

    def settle(self, distance: list[int]) -> None:
        """Cancels cycles of negative cost until there are none. Depends on the order of nodes and arcs only.

        Distances are lowered along the steps that can be taken (Bellman and Ford), from those given: any will do, and the nearer
        they are to the end the sooner it is there. A cycle among the predecessors costs less than nothing: it is cancelled, and
        the search goes on from its nodes. When no distance can be lowered any more, the distances are the proof.
        """
        via: list[_Step | None] = [None] * len(distance)
        active: dict[int, None] = dict.fromkeys(range(len(distance)))
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
                if here + cost[step] < distance[to[step]]:
                    there = to[step]
                    distance[there] = here + cost[step]
                    via[there] = step
                    nearer[there] = None
        return nearer

    def _cycles(self, starts: Iterable[int], via: list[_Step | None]) -> Iterator[list[_Step]]:
        """The disjoint cycles among the predecessors that can be reached from these nodes."""
        seen = [-1] * len(via)
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
            number, less = divmod(step, 2)
            if not less and not self.flow[number]:
                self._from[self._to[step]].append(step + 1)
            self.flow[number] += -1 if less else 1
            self._refresh(number)
