"""Which ranges of a batch a task reads, one after the other.

Spark's own work for a task is that of some thousand rows: with a task for each of many small ranges a batch would take several
times as long as its rows do.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from heapq import heapify, heapreplace

ROWS = 4000
"""A task with more is worth Spark's work for it."""


def range_tasks(ranges: Sequence[tuple[str, int]], slots: Mapping[str, int]) -> list[int]:
    """For each range, given as its executor ("": any) and its rows, the number of its task.

    Ranges are shared out evenly over the tasks of their executor: so many as it can run at a time (`slots`, by executor), or a
    multiple of that, where a task has `ROWS` then. What may be read anywhere has a task for each range.
    """
    of_executor: defaultdict[str, list[int]] = defaultdict(list)
    for place, (executor, _) in enumerate(ranges):
        of_executor[executor or f"any {place}"].append(place)
    found, tasks = [0] * len(ranges), 0
    for executor, places in sorted(of_executor.items()):
        at_once = max(1, slots.get(executor, 1))
        rounds = -(-sum(ranges[place][1] for place in places) // (at_once * ROWS))
        count = min(len(places), at_once * max(1, rounds))
        loads = [(0, tasks + nth) for nth in range(count)]
        heapify(loads)
        for place in sorted(places, key=lambda place: -ranges[place][1]):
            rows, found[place] = loads[0]
            heapreplace(loads, (rows + ranges[place][1], found[place]))
        tasks += count
    return found
