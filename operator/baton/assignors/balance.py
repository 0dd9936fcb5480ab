"""How many partitions of each queue every member should have, and whose they were, so that as few as possible move.

Balance is defined for several queues and for members that read only some of them: first the totals are as even as the
subscriptions allow (the sum of their squares is least, which makes them as even as can be in every sense), then, among those
assignments, every queue by itself (likewise, summed over queues). Where all members read all queues this means: all totals
within one and every queue within one, which is the balance of Solace's partitioned queues, of one queue and of many.

Among all balances the one taken moves least. That is a flow of least cost from queues to members: a unit is a partition, a unit
that its holder keeps is one cheaper, and prices that grow with every unit make the flow even.
"""

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from baton.assignors.flow import Network, Price
from baton.model.ids import MemberId, Partition, QueueName

Cell = tuple[MemberId, QueueName]


@dataclass(frozen=True, slots=True)
class Claims:
    """What there is to share, among whom, and who holds what now."""

    queues: Mapping[QueueName, int]
    members: Sequence[MemberId]
    """In the order in which they are served where nothing else decides."""
    subscribed: Mapping[MemberId, frozenset[QueueName]]
    """Queues that exist only."""
    held: Mapping[Partition, MemberId]
    """Partitions with one holder, which is a subscribed member."""
    contested: Mapping[Partition, tuple[MemberId, ...]] = field(default_factory=dict)
    """Partitions with several holders: with any of them it is at home."""


@dataclass(frozen=True, slots=True)
class Shares:
    """A balance with the fewest moves."""

    counts: Mapping[Cell, int]
    """How many partitions of a queue each member has; 0 where a cell is missing."""
    settled: Mapping[Partition, MemberId]
    """The contested partitions that stay with one of their holders; they are among the counts."""


def fair_shares(claims: Claims) -> Shares:
    """The balance of these claims with the fewest moves; which one of several is decided by the members' order alone."""
    readers = [member for member in claims.members if claims.subscribed[member]]
    if not readers:
        return Shares({}, {})
    held = Counter((member, partition.queue) for partition, member in claims.held.items())
    uniform = all(claims.subscribed[member] == claims.subscribed[readers[0]] for member in readers)
    queues = sorted(set().union(*(claims.subscribed[member] for member in readers)))
    if uniform:
        start = _even_start(claims.queues, queues, readers, held)
        if (len(queues) == 1 or not held) and not claims.contested:
            return Shares(start, {})
    else:
        start = _levelled_start(claims, queues, readers, held)
    return _Settlement(claims, queues, readers, held, start).shares()


def _even_start(
    sizes: Mapping[QueueName, int], queues: Sequence[QueueName], readers: Sequence[MemberId], held: Mapping[Cell, int]
) -> dict[Cell, int]:
    """Everybody reads everything: each queue within one, totals nearly so, and fully where nothing is held. For one queue this
    has the fewest moves already: every member keeps what it has up to the floor, and the seats above the floor go first to those
    that have more than it."""
    floors = {queue: sizes[queue] // len(readers) for queue in queues}
    left = {queue: sizes[queue] % len(readers) for queue in queues}
    usual, promoted = divmod(sum(left.values()), len(readers))
    extras = Counter[MemberId]()
    counts = {(member, queue): floors[queue] for member in readers for queue in queues if floors[queue]}
    placed: set[Cell] = set()

    def give(member: MemberId, queue: QueueName) -> None:
        nonlocal promoted
        if extras[member] == usual:
            promoted -= 1
        extras[member] += 1
        left[queue] -= 1
        placed.add((member, queue))
        counts[member, queue] = floors[queue] + 1

    for queue in queues:
        for member in readers:
            if not left[queue]:
                break
            if held.get((member, queue), 0) > floors[queue] and extras[member] < usual + (promoted > 0):
                give(member, queue)
    rank = {member: place for place, member in enumerate(readers)}
    for queue in queues:
        if left[queue]:
            free = [member for member in readers if (member, queue) not in placed]
            for member in heapq.nsmallest(left[queue], free, key=lambda member: (extras[member], rank[member])):
                give(member, queue)
    return counts


def _levelled_start(
    claims: Claims, queues: Sequence[QueueName], readers: Sequence[MemberId], held: Mapping[Cell, int]
) -> dict[Cell, int]:
    """Subscriptions differ: keep what is held, give what is free to those below their part of the queue and then to the emptiest,
    and then from the fullest to the emptiest."""
    counts = Counter(held)
    totals = Counter(dict.fromkeys(readers, 0))
    for (member, _), count in held.items():
        totals[member] += count
    rank = {member: place for place, member in enumerate(readers)}
    subscribers = {queue: [member for member in readers if queue in claims.subscribed[member]] for queue in queues}
    for queue in sorted(queues, key=lambda queue: (len(subscribers[queue]), queue)):
        floor = claims.queues[queue] // len(subscribers[queue])
        emptiest = [(counts[member, queue] >= floor, totals[member], rank[member], member) for member in subscribers[queue]]
        heapq.heapify(emptiest)
        for _ in range(claims.queues[queue] - sum(held.get((member, queue), 0) for member in subscribers[queue])):
            _, total, place, member = emptiest[0]
            counts[member, queue] += 1
            totals[member] += 1
            heapq.heapreplace(emptiest, (counts[member, queue] >= floor, total + 1, place, member))
    _level(counts, totals, subscribers, sorted(readers, key=lambda member: (totals[member], rank[member])), claims)
    return dict(counts)


def _level(
    counts: Counter[Cell],
    totals: Counter[MemberId],
    subscribers: Mapping[QueueName, Sequence[MemberId]],
    emptiest_first: Sequence[MemberId],
    claims: Claims,
) -> None:
    """One partition at a time from a fuller to an emptier member, as far as a single step improves the balance."""
    fullest = {queue: [(-totals[member], member) for member in members] for queue, members in subscribers.items()}
    for heap in fullest.values():
        heapq.heapify(heap)
    for taker in emptiest_first:
        for queue in sorted(claims.subscribed[taker]):
            heap = fullest[queue]
            while heap:
                known, giver = heap[0]
                if not counts[giver, queue]:
                    heapq.heappop(heap)
                elif -known != totals[giver]:
                    heapq.heapreplace(heap, (-totals[giver], giver))
                elif totals[giver] < totals[taker] + 2:
                    break
                else:
                    counts[giver, queue] -= 1
                    counts[taker, queue] += 1
                    totals[giver] -= 1
                    totals[taker] += 1
                    heapq.heapreplace(heap, (-totals[giver], giver))


class _Settlement:
    """The network of one request, and how to read its flow."""

    def __init__(
        self,
        claims: Claims,
        queues: Sequence[QueueName],
        readers: Sequence[MemberId],
        held: Mapping[Cell, int],
        start: Mapping[Cell, int],
    ) -> None:
        self._claims = claims
        self._held = held
        self._contested = sorted(partition for partition in claims.contested if partition.queue in set(queues))
        disputed = {partition.queue for partition in self._contested}
        cells = [(member, queue) for member in readers for queue in queues if queue in claims.subscribed[member]]
        size = len(queues) + len(readers) + 1 + len(self._contested) + sum(queue in disputed for _, queue in cells)
        self._network = Network(size)
        self._even_queues = 4 * (size + 1)
        self._even_totals = self._even_queues * 4 * (size + 1) * (sum(claims.queues[queue] for queue in queues) + 1)
        numbers = iter(range(size))
        pool = {queue: next(numbers) for queue in queues}
        node = {member: next(numbers) for member in readers}
        sink = next(numbers)
        self._cells: dict[Cell, int] = {}
        entrance: dict[Cell, int] = {}
        totals = Counter[MemberId]()
        for member, queue in cells:
            count = start.get((member, queue), 0)
            totals[member] += count
            tail = pool[queue]
            if queue in disputed:
                tail = entrance[member, queue] = next(numbers)
                self._network.add(pool[queue], tail, self._keeping(member, queue), count)
                price = _growing(self._even_queues)
            else:
                price = self._keeping(member, queue, self._even_queues)
            self._cells[member, queue] = self._network.add(tail, node[member], price, count)
        for member in readers:
            self._network.add(node[member], sink, _growing(self._even_totals), totals[member])
        self._homes: dict[int, tuple[Partition, MemberId]] = {}
        for partition in self._contested:
            source = next(numbers)
            self._network.add(source, pool[partition.queue], _once(0), 1)
            for member in sorted(claims.contested[partition], key=node.__getitem__):
                arc = self._network.add(source, entrance[member, partition.queue], _once(-1), 0)
                self._homes[arc] = (partition, member)

    def shares(self) -> Shares:
        self._network.settle()
        flow = self._network.flow
        return Shares(
            {cell: flow[arc] for cell, arc in self._cells.items() if flow[arc]},
            {partition: member for arc, (partition, member) in self._homes.items() if flow[arc]},
        )

    def _keeping(self, member: MemberId, queue: QueueName, growth: int = 0) -> Price:
        """What a member holds already is one cheaper."""
        held = self._held.get((member, queue), 0)
        return lambda n: growth * (2 * n - 1) - (n <= held)


def _growing(growth: int) -> Price:
    """The n-th unit adds what it adds to a sum of squares."""
    return lambda n: growth * (2 * n - 1)


def _once(price: int) -> Price:
    return lambda n: price if n == 1 else None
