"""Potentials for the nodes of a nearly balanced flow (`min_cost_flow`), from which its search starts.

A node's potential says how much less a unit costs there than at the sink. Potentials decide only how long the search takes.
"""

from collections.abc import Sequence

from baton.assignors.solace.queue_reader_table import QueueReaderTable


def potentials(cells: QueueReaderTable, counts: Sequence[int], even_totals: int, even_queues: int) -> list[int]:
    """The potentials of the queues, then of the members. `counts`, by cell, is the flow. Each unit of a member costs
    2 · even_totals more than the unit before it, each of a cell 2 · even_queues."""
    level = [1 - 2 * total for total in cells.totals(counts)]
    of_queue = _spread(cells, counts, level)
    queues: list[int] = []
    for lowest, row in zip(of_queue, cells.of_queue, strict=True):
        here = [counts[cell] for cell in row if level[cells.member[cell]] == lowest]
        usual = sum(here) // len(here) if here else 0
        queues.append(even_totals * lowest - even_queues * (2 * usual + 1))
    return queues + [even_totals * one for one in level]


def _spread(cells: QueueReaderTable, counts: Sequence[int], level: list[int]) -> list[int]:
    """Lowers the level of each member that can take a unit of a lower level; returns the lowest level by queue."""
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
