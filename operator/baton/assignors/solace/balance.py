"""How many partitions of each queue every member should have, so that as few as possible move.

In a balance the totals are as even as the subscriptions allow: the sum of their squares is least. Among those assignments every
queue is as even as it can be: the sum of its squares, over all queues, is least. Where all members read all queues, all totals
are within one and so is every queue, which is the balance of Solace's partitioned queues.

Of all balances, this one moves least. It is a flow of least cost from queues to members. A unit is a partition. A unit that its
holder keeps is one cheaper, and prices that grow with every unit make the flow even.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from baton.assignors.solace.min_cost_flow import Network
from baton.assignors.solace.queue_reader_table import Cell, QueueReaderTable, cells_of
from baton.assignors.solace.starting_counts import first_answer
from baton.assignors.solace.starting_potentials import potentials
from baton.model.ids import MemberId, Partition, QueueName


@dataclass(frozen=True, slots=True)
class Claims:
    """Partitions to give out, the members, and who holds what now."""

    queues: Mapping[QueueName, int]
    members: Sequence[MemberId]
    """In the order that decides where nothing else does."""
    subscribed: Mapping[MemberId, frozenset[QueueName]]
    """Only queues that exist."""
    held: Mapping[QueueName, Sequence[MemberId | None]]
    """By queue and number: the one holder, a member that is subscribed. Queues without a holder may be missing."""
    contested: Mapping[Partition, tuple[MemberId, ...]] = field(default_factory=dict)
    """Partitions with several holders. One that goes to any of them makes no move."""


@dataclass(frozen=True, slots=True)
class Shares:
    """A balance with the fewest moves."""

    counts: Mapping[QueueName, Mapping[MemberId, int]]
    """By queue that somebody reads: how many partitions each member has. Members with none are missing."""
    settled: Mapping[Partition, MemberId]
    """The contested partitions that stay with one of their holders. The counts include them."""


def fair_shares(claims: Claims) -> Shares:
    """The balance of these claims with the fewest moves. Of several, the members' order alone decides which."""
    cells = cells_of(claims.queues, claims.members, claims.subscribed, claims.held)
    if not cells.queues:
        return Shares({}, {})
    start = first_answer(cells)
    if cells.uniform and (len(cells.queues) == 1 or not any(cells.held)) and not claims.contested:
        return Shares(_by_name(cells, start), {})
    return _Settlement(cells, claims.contested, start).shares()


def _by_name(cells: QueueReaderTable, counts: Sequence[int]) -> dict[QueueName, dict[MemberId, int]]:
    names = [cells.members[place] for place in cells.member]
    return {
        queue: {names[cell]: counts[cell] for cell in row if counts[cell]}
        for queue, row in zip(cells.queues, cells.of_queue, strict=True)
    }


class _Settlement:
    """The network of one request, and the shares that its flow means.

    Nodes are queues, members, the sink, entries, and contested partitions. The first arcs are the cells, in their order, from a
    queue to a member. In a queue with contested partitions each cell has an entry, where its arc begins: a contested partition
    arrives there directly, all others through the queue.
    """

    def __init__(self, cells: QueueReaderTable, contested: Mapping[Partition, Sequence[MemberId]], start: Sequence[int]) -> None:
        self._cells = cells
        node = {queue: number for number, queue in enumerate(cells.queues)}
        disputes = sorted((partition, homes) for partition, homes in contested.items() if partition.queue in node)
        disputed = sorted({node[partition.queue] for partition, _ in disputes})
        self._members = len(cells.queues)
        """The node of the first member."""
        sink = self._members + len(cells.members)
        size = sink + 1 + sum(len(cells.of_queue[queue]) for queue in disputed) + len(disputes)
        even_queues = 4 * (size + 1)
        even_totals = even_queues * 4 * (size + 1) * (sum(cells.sizes) + 1)
        entries = dict(zip((cell for queue in disputed for cell in cells.of_queue[queue]), range(sink + 1, size), strict=False))
        self._network = Network(size)
        self._potential = [*potentials(cells, start, even_totals, even_queues), 0]
        self._add_cells(start, even_queues, entries)
        for place, total in enumerate(cells.totals(start)):
            self._network.add(self._members + place, sink, total, even_totals)
        self._add_entries(start, entries)
        self._homes: dict[int, tuple[Partition, MemberId]] = {}
        self._add_disputes([(node[partition.queue], partition, homes) for partition, homes in disputes], entries)

    def _add_cells(self, start: Sequence[int], growth: int, entries: Mapping[Cell, int]) -> None:
        cells = self._cells
        for queue, row in enumerate(cells.of_queue):
            heads = [self._members + place for place in cells.member[row.start : row.stop]]
            if row.start not in entries:
                held = cells.held[row.start : row.stop]
                self._network.add_all(queue, heads, start[row.start : row.stop], growth, held)
                continue
            for cell, head in zip(row, heads, strict=True):
                self._network.add(entries[cell], head, start[cell], growth)

    def _add_entries(self, start: Sequence[int], entries: Mapping[Cell, int]) -> None:
        for cell, entry in entries.items():
            queue = self._cells.queue[cell]
            self._network.add(queue, entry, start[cell], cheap=self._cells.held[cell])
            self._potential.append(self._potential[queue])

    def _add_disputes(self, disputes: Sequence[tuple[int, Partition, Sequence[MemberId]]], entries: Mapping[Cell, int]) -> None:
        places = {name: place for place, name in enumerate(self._cells.members)}
        for queue, partition, homes in disputes:
            source = len(self._potential)
            self._potential.append(self._potential[queue] + 1)
            self._network.add(source, queue, 1, most=1)
            for home in sorted(homes, key=places.__getitem__):
                arc = self._network.add(source, entries[self._cells.cell(queue, places[home])], 0, cheap=1, most=1)
                self._homes[arc] = partition, home

    def shares(self) -> Shares:
        self._network.settle(self._potential)
        flow = self._network.flow
        settled = {partition: member for arc, (partition, member) in self._homes.items() if flow[arc]}
        return Shares(_by_name(self._cells, flow), settled)
