"""First counts that are nearly a balance, so that the flow of `balance` has little to correct."""

import heapq
from collections.abc import Iterable

from baton.assignors.solace.queue_reader_table import Cell, QueueReaderTable


def first_answer(cells: QueueReaderTable) -> list[int]:
    """By cell: how many its member has. Every partition of a queue that somebody reads has an owner."""
    return _evenly(cells) if cells.uniform else _level(cells)


def _evenly(cells: QueueReaderTable) -> list[int]:
    """Where all read everything: each queue within one, totals nearly so, and exactly where nobody holds anything. For one queue
    this has the fewest moves already: members keep what they have up to the floor, and one more goes first to those that have
    more."""
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
    """Where subscriptions differ: members keep what they hold. What is free goes to those with fewest of the queue, up to an even
    share of everything, then to those with the lowest totals. Then partitions go from the highest totals to the lowest."""
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
    """Moves one partition at a time to a member with a lower total, as long as one move makes the totals more even."""

    def __init__(self, cells: QueueReaderTable, counts: list[int], totals: list[int]) -> None:
        self._cells = cells
        self._counts = counts
        self._totals = totals
        self._fullest: dict[int, list[tuple[int, Cell]]] = {}
        """By queue that a taker asked for: the cells that could give. Totals may have fallen since."""

    def run(self) -> None:
        of_member, highest = self._cells.of_member(), max(self._totals)
        for taker in sorted(range(len(of_member)), key=self._totals.__getitem__):
            if self._totals[taker] + 2 <= highest:
                self._fill(of_member[taker])

    def _fill(self, mine: Iterable[Cell]) -> None:
        """Moves partitions to a taker with these cells, to the lowest count of them first."""
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
        """The cell of the member with the highest total that has some of this queue."""
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
