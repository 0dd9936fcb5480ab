"""Minimum-cost flows with convex costs: each further unit on an arc costs at least as much as the previous one.

A flow has the least cost exactly if its nodes have potentials at which no step of the residual network has a negative cost. With
convex costs, only the next unit of each arc matters. The search corrects a flow that is nearly right: it takes every step with a
negative cost, which leaves some units at the wrong nodes. These return by shortest paths, many at a time (the primal-dual method;
Ahuja, Magnanti and Orlin, *Network Flows*, chapters 9 and 14). The final potentials are the proof. All numbers are integers, so
nothing is rounded. Values are in lists instead of objects, because there may be a hundred thousand arcs.
"""

import heapq
from collections.abc import Sequence

_Step = int
"""Twice an arc's number: one more unit on it. That plus one: one unit less."""

_CLOSED = 1 << 200
"""The cost of an impossible step: more than all others together."""


class Network:
    """A network with a flow. `settle` changes it to the flow of least cost with the same excess at every node.

    n units on an arc cost growth · n², and each of the first `cheap` units costs one less.
    """

    def __init__(self, nodes: int) -> None:
        self.flow: list[int] = []
        """The flow by arc."""
        self._growth: list[int] = []
        self._cheap: list[int] = []
        self._most: list[int | None] = []
        self._to: list[int] = []
        """By step: its destination."""
        self._cost: list[int] = []
        """By step: its current cost; negative for a gain."""
        self._from: list[list[_Step]] = [[] for _ in range(nodes)]
        """By node: the steps that begin there, including those that take a unit back from an arc that has had any."""

    def add(self, tail: int, head: int, flow: int, growth: int = 0, cheap: int = 0, most: int | None = None) -> int:
        """Add an arc that carries `flow` of at most `most` units, and return its number."""
        number = len(self.flow)
        self.add_all(tail, (head,), (flow,), growth, (cheap,))
        if most is not None:
            self._most[number] = most
            self._refresh(number)
        return number

    def add_all(self, tail: int, heads: Sequence[int], flow: Sequence[int], growth: int, cheap: Sequence[int]) -> None:
        """Add an arc to each of these nodes, with consecutive numbers."""
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

    def settle(self, potential: list[int]) -> None:
        """Change the flow to one of least cost, which depends only on the order of nodes and arcs.

        `potential`: any at which no arc can take units at a gain without end. The better they are, the fewer units have to be
        sent back by shortest paths, because every gain is taken first.
        """
        excess = self._take_gains(potential)
        while any(units > 0 for units in excess):
            hops = self._search(potential, excess)
            self._send_back(potential, excess, hops)

    def _take_gains(self, potential: Sequence[int]) -> list[int]:
        """Take every gain. Returns the surplus of units by node (negative: too few)."""
        excess = [0] * len(potential)
        to, cost = self._to, self._cost
        for node, here in enumerate(potential):
            for step in tuple(self._from[node]):
                while here + cost[step] < potential[to[step]]:
                    self._take(step)
                    excess[node] -= 1
                    excess[to[step]] += 1
        return excess

    def _search(self, potential: list[int], excess: Sequence[int]) -> list[int]:
        """Find shortest paths from nodes with too many units to the nearest with too few (Dijkstra); of equal ones, those with
        the fewest steps. Returns the number of steps by node, and changes the potentials so that steps along these paths cost
        nothing and no step has a negative cost."""
        to, cost = self._to, self._cost
        distance, hops = [_CLOSED] * len(excess), [_CLOSED] * len(excess)
        heap = [(0, 0, node) for node, units in enumerate(excess) if units > 0]
        for _, _, node in heap:
            distance[node] = hops[node] = 0
        nearest = 0
        while heap:
            nearest, hop, node = heapq.heappop(heap)
            if nearest != distance[node] or hop != hops[node]:
                continue
            if excess[node] < 0:
                break
            here, hop = potential[node] + nearest, hop + 1
            for step in self._from[node]:
                there = to[step]
                longer = here + cost[step] - potential[there]
                if longer <= distance[there] and (longer < distance[there] or hop < hops[there]):
                    distance[there], hops[there] = longer, hop
                    heapq.heappush(heap, (longer, hop, there))
        for node, far in enumerate(distance):
            if far < nearest:
                potential[node] += far - nearest
        return hops

    def _send_back(self, potential: Sequence[int], excess: list[int], hops: Sequence[int]) -> None:
        """Send back as many units as there are disjoint shortest paths (Dinic)."""
        to, cost = self._to, self._cost
        tried = [0] * len(excess)
        """By node: the number of its steps that no longer lead anywhere."""
        for source in [node for node, units in enumerate(excess) if units > 0]:
            path: list[_Step] = []
            node = source
            while excess[source] > 0:
                if excess[node] < 0:
                    for step in path:
                        self._take(step)
                    excess[source] -= 1
                    excess[node] += 1
                    path, node = [], source
                    continue
                steps, here, hop = self._from[node], potential[node], hops[node] + 1
                at = tried[node]
                while at < len(steps):
                    step = steps[at]
                    if hops[to[step]] == hop and here + cost[step] == potential[to[step]]:
                        break
                    at += 1
                tried[node] = at
                if at < len(steps):
                    path.append(steps[at])
                    node = to[steps[at]]
                elif path:
                    node = to[path.pop() ^ 1]
                    tried[node] += 1
                else:
                    break

    def _take(self, step: _Step) -> None:
        number, back = divmod(step, 2)
        if not back and not self.flow[number]:
            self._from[self._to[step]].append(step + 1)
        self.flow[number] += -1 if back else 1
        self._refresh(number)
