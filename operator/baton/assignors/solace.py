"""The rebalancing of Solace's partitioned queues: as even as possible, with the fewest hand-offs.

Solace describes six steps: create or delete partitions; map new ones to the flows with the fewest; notify flows left without any;
check for balance; hand one partition from the flow with the most to the flow with the fewest; repeat. For one queue, these steps
reach a balance with the fewest moves. For several queues, or members that read only some of them, single steps can need more. So
the assignor first computes the balance (`fair_shares`), and then moves partitions towards it.

In a balance, totals are as even as the subscriptions allow: the sum of their squares is minimal. Among those assignments, queues
are as even as possible: the sum of the squares of all their counts is minimal. If all members read all queues, all totals are
within one, and so is every queue: the balance of Solace's partitioned queues.

Of all balances, `fair_shares` finds one with the fewest moves, by a minimum-cost flow from queues to members. A unit is a
partition. A unit that stays with its holder costs one less, and prices that grow with every unit make the flow even.
"""

import heapq
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from baton.assignors.building_blocks import Declaration, PartitionList, Place, Traits, by_rank, holdings, readable, readers
from baton.assignors.min_cost_flow import Network
from baton.assignors.request import Answer, Request
from baton.model.ids import MemberId, Partition, QueueName

# The number of partitions of each queue that each reader holds. A cell of the table is a queue and one of its readers.


Cell = int


@dataclass(frozen=True, slots=True)
class QueueReaderTable:
    """Queues and members are indexes: of sorted queues, and of `members`."""

    queues: Sequence[QueueName]
    """The queues with readers."""
    sizes: Sequence[int]
    members: Sequence[MemberId]
    """All members, readers or not."""
    of_queue: Sequence[range]
    """By queue: its cells, one per reader, in the order of members."""
    queue: Sequence[int]
    """By cell: its queue."""
    member: Sequence[Place]
    """By cell: its member."""
    held: Sequence[int]
    """By cell: the number of partitions that its member holds alone."""
    uniform: bool
    """Whether every member that reads any queue reads all."""

    def cell(self, queue: int, place: Place) -> Cell:
        return bisect_left(self.member, place, self.of_queue[queue].start, self.of_queue[queue].stop)

    def of_member(self) -> list[list[Cell]]:
        """By member: its cells, in the order of queues."""
        cells: list[list[Cell]] = [[] for _ in self.members]
        for cell, place in enumerate(self.member):
            cells[place].append(cell)
        return cells

    def totals(self, counts: Sequence[int]) -> list[int]:
        """By member: the sum of the counts in its cells."""
        totals = [0] * len(self.members)
        for place, count in zip(self.member, counts, strict=True):
            totals[place] += count
        return totals


def cells_of(
    queues: Mapping[QueueName, int],
    members: Sequence[MemberId],
    subscribed: Mapping[MemberId, frozenset[QueueName]],
    owners: Mapping[QueueName, Sequence[MemberId | None]],
) -> QueueReaderTable:
    """The table of these members, in this order. `owners`: by queue and number, only readers."""
    read_by = readers([subscribed[name] for name in members])
    of_queue: list[range] = []
    number: list[int] = []
    member: list[Place] = []
    held: list[int] = []
    for queue, places in read_by.items():
        of_queue.append(range(len(member), len(member) + len(places)))
        number += [len(of_queue) - 1] * len(places)
        member += places
        counts = Counter(owners.get(queue, ()))
        held += [counts.get(members[place], 0) for place in places] if counts else [0] * len(places)
    uniform = len(set(map(id, read_by.values()))) <= 1  # equal ones are one object
    return QueueReaderTable(list(read_by), [queues[queue] for queue in read_by], members, of_queue, number, member, held, uniform)


# First counts, by cell, that are nearly balanced, so that the flow has little to correct


def _evenly(cells: QueueReaderTable) -> list[int]:
    """If all members read everything: each queue within one, and totals nearly (exactly, if no partition is held). For one queue
    this is already a balance with the fewest moves: members keep what they have up to the floor, and those that have more are
    the first to get one more."""
    counts: list[int] = []
    left: list[int] = []
    for size, row in zip(cells.sizes, cells.of_queue, strict=True):
        counts += [size // len(row)] * len(row)
        left.append(size % len(row))
    usual, promoted = divmod(sum(left), max(map(len, cells.of_queue)))
    extras = [0] * len(cells.members)
    for queue, row in enumerate(cells.of_queue):
        floor = counts[row.start]
        for cell in row:
            place = cells.member[cell]
            if cells.held[cell] > floor and left[queue] and extras[place] < usual + (promoted > 0):
                promoted -= extras[place] == usual
                extras[place] += 1
                counts[cell] += 1
                left[queue] -= 1
    for row, more in zip(cells.of_queue, left, strict=True):
        if more:
            least = min(counts[row.start : row.stop])
            free = [cell for cell in row if counts[cell] == least]
            for cell in sorted(free, key=lambda cell: extras[cells.member[cell]])[:more]:
                extras[cells.member[cell]] += 1
                counts[cell] += 1
    return counts


def _level(cells: QueueReaderTable) -> list[int]:
    """If subscriptions differ: members keep what they hold. Free partitions go to those with the fewest of the queue, up to an
    even share of everything, then to those with the lowest totals. Then partitions go from the highest totals to the lowest."""
    counts = list(cells.held)
    totals = cells.totals(counts)
    free = [size - sum(counts[row.start : row.stop]) for size, row in zip(cells.sizes, cells.of_queue, strict=True)]
    share = sum(cells.sizes) // len(set(cells.member))
    fewest_readers_first = sorted(range(len(free)), key=lambda queue: len(cells.of_queue[queue]))
    for queue in fewest_readers_first:
        below = [cell for cell in cells.of_queue[queue] if totals[cells.member[cell]] < share] if free[queue] else []
        emptiest = [(counts[cell], totals[cells.member[cell]], cell) for cell in below]
        heapq.heapify(emptiest)
        while emptiest and free[queue]:
            count, total, cell = emptiest[0]
            counts[cell] = count + 1
            totals[cells.member[cell]] = total + 1
            free[queue] -= 1
            if total + 1 < share:
                heapq.heapreplace(emptiest, (count + 1, total + 1, cell))
            else:
                heapq.heappop(emptiest)
    for queue in fewest_readers_first:
        emptiest = [(totals[cells.member[cell]], counts[cell], cell) for cell in cells.of_queue[queue] if free[queue]]
        heapq.heapify(emptiest)
        for _ in range(free[queue]):
            total, count, cell = emptiest[0]
            counts[cell] = count + 1
            totals[cells.member[cell]] = total + 1
            heapq.heapreplace(emptiest, (total + 1, count + 1, cell))
    _Levelling(cells, counts, totals).run()
    return counts


class _Levelling:
    """Moves single partitions to members with lower totals while a move makes the totals more even."""

    def __init__(self, cells: QueueReaderTable, counts: list[int], totals: list[int]) -> None:
        self._cells = cells
        self._counts = counts
        self._totals = totals
        self._fullest: dict[int, list[tuple[int, Cell]]] = {}
        """By queue, once a taker has asked for it: the cells that could give. Totals may have fallen since."""

    def run(self) -> None:
        of_member, highest = self._cells.of_member(), max(self._totals)
        for taker in sorted(range(len(of_member)), key=self._totals.__getitem__):
            if self._totals[taker] + 2 <= highest:
                self._fill(of_member[taker])

    def _fill(self, mine: Iterable[Cell]) -> None:
        """Move partitions to the taker with these cells, to the lowest count first."""
        wanting = [(self._counts[cell], cell) for cell in mine]
        heapq.heapify(wanting)
        while wanting:
            count, cell = wanting[0]
            giver = self._giver(self._cells.queue[cell])
            if giver is None or self._totals[self._cells.member[giver]] < self._totals[self._cells.member[cell]] + 2:
                heapq.heappop(wanting)
                continue
            self._put(giver, -1)
            self._put(cell, 1)
            heapq.heapreplace(wanting, (count + 1, cell))

    def _giver(self, queue: int) -> Cell | None:
        """The cell of the member with the highest total that has any of this queue."""
        if queue not in self._fullest:
            row = self._cells.of_queue[queue]
            self._fullest[queue] = [(-self._totals[self._cells.member[cell]], cell) for cell in row if self._counts[cell]]
            heapq.heapify(self._fullest[queue])
        fullest = self._fullest[queue]
        while fullest:
            known, cell = fullest[0]
            total = self._totals[self._cells.member[cell]]
            if not self._counts[cell]:
                heapq.heappop(fullest)
            elif -known != total:
                heapq.heapreplace(fullest, (-total, cell))
            else:
                return cell
        return None

    def _put(self, cell: Cell, units: int) -> None:
        self._counts[cell] += units
        self._totals[self._cells.member[cell]] += units


# Potentials for the nodes of a nearly balanced flow: the start of the search (`min_cost_flow`).
#
# A node's potential is how much less a unit costs there than at the sink. Potentials affect only the duration of the search.


def potentials(cells: QueueReaderTable, counts: Sequence[int], even_totals: int, even_queues: int) -> list[int]:
    """The potentials of the queues, then of the members. `counts`: the flow by cell. Each unit of a member costs 2 · even_totals
    more than the previous one, and each unit of a cell 2 · even_queues."""
    level = [1 - 2 * total for total in cells.totals(counts)]
    of_queue = _spread(cells, counts, level)
    queues: list[int] = []
    for lowest, row in zip(of_queue, cells.of_queue, strict=True):
        here = [counts[cell] for cell in row if level[cells.member[cell]] == lowest]
        usual = sum(here) // len(here) if here else 0
        queues.append(even_totals * lowest - even_queues * (2 * usual + 1))
    return queues + [even_totals * one for one in level]


def _spread(cells: QueueReaderTable, counts: Sequence[int], level: list[int]) -> list[int]:
    """Lower the level of each member that can take a unit from a lower one. Returns the lowest level by queue."""
    readers = [cells.member[row.start : row.stop] for row in cells.of_queue]
    holders = [[cells.member[cell] for cell in row if counts[cell]] for row in cells.of_queue]
    of_queue = [0] * len(readers)
    changed = True
    while changed:
        changed = False
        for queue, places in enumerate(readers):
            lowest = of_queue[queue] = min([level[place] for place in holders[queue]], default=0)
            for place in places:
                if level[place] > lowest:
                    level[place] = lowest
                    changed = True
    return of_queue


# The balance with the fewest moves


@dataclass(frozen=True, slots=True)
class Claims:
    """Partitions, members and holders."""

    queues: Mapping[QueueName, int]
    members: Sequence[MemberId]
    """In the order that breaks ties."""
    subscribed: Mapping[MemberId, frozenset[QueueName]]
    """Only queues that exist."""
    held: Mapping[QueueName, Sequence[MemberId | None]]
    """By queue and number: the only holder, a reader. Queues without holders may be missing."""
    contested: Mapping[Partition, tuple[MemberId, ...]] = field(default_factory=dict)
    """Partitions with several holders. With any of them they do not count as moved."""


@dataclass(frozen=True, slots=True)
class Shares:
    """A balance with the fewest moves."""

    counts: Mapping[QueueName, Mapping[MemberId, int]]
    """By queue with readers: the number of partitions of each member, without zeros."""
    settled: Mapping[Partition, MemberId]
    """The contested partitions that stay with one of their holders; included in the counts."""


def fair_shares(claims: Claims) -> Shares:
    """A balance with the fewest moves; of several, the order of the members decides."""
    cells = cells_of(claims.queues, claims.members, claims.subscribed, claims.held)
    if not cells.queues:
        return Shares({}, {})
    start = _evenly(cells) if cells.uniform else _level(cells)
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
    """The network of a request, and the shares by its flow.

    Nodes are queues, members, the sink, entries, and contested partitions. The first arcs are the cells, in order, from queues to
    members. If a queue has contested partitions, the arc of each cell begins at an entry: contested partitions arrive there
    directly, all others through the queue.
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


# The fewest moves to a balance


def lower_bound(
    queues: Mapping[QueueName, int],
    members: Mapping[MemberId, frozenset[QueueName]],
    owners: Mapping[Partition, MemberId],
) -> int:
    """The fewest moves from `owners` to any balance of these members. `members` has their subscriptions.

    A partition with an owner that gets another is a move, even if its owner is not among `members` (an orphan) or no longer reads
    the queue. The first grant of a partition (not in `owners`) is no move; partitions that no member reads, or that do not exist,
    do not count.
    """
    return least_moves(queues, members, {partition: (owner,) for partition, owner in owners.items()})


def least_moves(
    queues: Mapping[QueueName, int],
    members: Mapping[MemberId, frozenset[QueueName]],
    holders: Mapping[Partition, Collection[MemberId]],
) -> int:
    """Like `lower_bound`, for partitions with several holders. With any of them they do not count as moved."""
    subscribed = {member: frozenset(queue for queue in wanted if queue in queues) for member, wanted in members.items()}
    read = frozenset().union(*subscribed.values())
    held: dict[QueueName, list[MemberId | None]] = {}
    contested: dict[Partition, tuple[MemberId, ...]] = {}
    had_owner = 0
    for partition, names in holders.items():
        if partition.queue not in read or not 0 <= partition.number < queues[partition.queue]:
            continue
        had_owner += bool(names)
        homes = tuple(sorted(name for name in names if partition.queue in subscribed.get(name, ())))
        if len(homes) == 1:
            held.setdefault(partition.queue, [None] * queues[partition.queue])[partition.number] = homes[0]
        elif homes:
            contested[partition] = homes
    claims = Claims(queues, sorted(subscribed), subscribed, held, contested)
    return had_owner - kept(claims, fair_shares(claims))


def kept(claims: Claims, shares: Shares) -> int:
    """The number of partitions that stay with one of their holders."""
    settled = Counter((partition.queue, member) for partition, member in shares.settled.items())
    stay = len(shares.settled)
    for queue, holders in claims.held.items():
        counts = shares.counts[queue]
        for member, count in Counter(holder for holder in holders if holder is not None).items():
            stay += min(count, counts.get(member, 0) - settled[queue, member])
    return stay


# The assignor


Columns = dict[QueueName, list[MemberId | None]]
"""By queue with readers and by number: the owner, if any."""
Room = dict[QueueName, dict[MemberId, int]]
"""By queue: how many more each member may get."""


def solace(request: Request) -> Answer:
    """Totals within one (or as even as the subscriptions allow), then every queue, with the fewest moves.

    A member gives up its highest numbers. Free partitions go, lowest number first, to the member with the fewest at that point;
    ties are broken by the order of joining, then by name.
    """
    claims = _claims(request)
    shares = fair_shares(claims)
    room = {queue: dict(counts) for queue, counts in shares.counts.items()}
    owners: Columns = {queue: [None] * claims.queues[queue] for queue in room}
    for (queue, number), name in shares.settled.items():
        owners[queue][number] = name
        room[queue][name] -= 1
    for queue, holders in claims.held.items():
        column, left = owners[queue], room[queue]
        for number, holder in enumerate(holders):
            if holder is not None and left.get(holder):
                column[number] = holder
                left[holder] -= 1
    _hand_out(claims.members, owners, room)
    return _answer(request, owners)


def place_new(request: Request) -> Answer:
    """Give partitions without a holder to the members with the fewest; members keep what they hold.

    The fewest in total decide, then the fewest of the queue, the order of joining, and the name. A change of the partition count
    does this at once, with any assignor (Solace's second step).
    """
    claims = _claims(request)
    room: Room = {}
    for name in claims.members:
        for queue in claims.subscribed[name]:
            room.setdefault(queue, {})[name] = claims.queues[queue]
    owners: Columns = {queue: list(claims.held.get(queue, [None] * claims.queues[queue])) for queue in room}
    for (queue, number), names in claims.contested.items():
        owners[queue][number] = names[0]
    _hand_out(claims.members, owners, room)
    return _answer(request, owners)


def _claims(request: Request) -> Claims:
    subscribed = readable(request)
    held, contested = holdings(request).of_readers(subscribed)
    return Claims(request.queues, by_rank(request.members), subscribed, held, contested)


def _hand_out(members: Sequence[MemberId], owners: Columns, room: Mapping[QueueName, Mapping[MemberId, int]]) -> None:
    """Give every partition without an owner to the member with the fewest that has room."""
    totals = Counter(name for column in owners.values() for name in column)
    rank = {member: place for place, member in enumerate(members)}
    for queue in sorted(owners):
        column = owners[queue]
        if None not in column:
            continue
        counts = Counter(column)
        fewest = [(totals[name], counts[name], rank[name], name, places) for name, places in room[queue].items() if places > 0]
        heapq.heapify(fewest)
        for number in [number for number, name in enumerate(column) if name is None]:
            total, count, place, name, places = fewest[0]
            column[number] = name
            totals[name] = total + 1
            if places > 1:
                heapq.heapreplace(fewest, (total + 1, count + 1, place, name, places - 1))
            else:
                heapq.heappop(fewest)


def _answer(request: Request, owners: Columns) -> Answer:
    owned_by: dict[MemberId, list[tuple[QueueName, int]]] = {member: [] for member in request.members}
    for queue in sorted(owners):
        for number, name in enumerate(owners[queue]):
            if name is not None:
                owned_by[name].append((queue, number))
    return Answer({member: PartitionList.of_sorted(owned) for member, owned in owned_by.items()})


SOLACE = Declaration(
    name="solace",
    assign=solace,
    source="Solace's partitioned queues",
    good_at="As even as possible, totals and each queue, with the fewest moves there can be",
    traits=Traits(balances=True, gives_up_highest=True),
)
