"""What a run cost, in sentences."""

from collections.abc import Iterator

from baton.model.wording import counted
from baton.simulation.orphaned_partitions import orphaned_partitions
from baton.simulation.run import Result
from baton.simulation.timeline import time_text


def verdict(result: Result) -> Iterator[str]:
    """Moves against the least possible, pauses, time without an owner; and how it ended."""
    cost = result.summary
    moves, least, misses = cost["moves"], cost["lower_bound"], cost["deadline_misses"]
    yield f"{counted(moves, 'move')}; the rebalances needed {least:,} at least." if moves or least else "No partition moved."
    if result.most_paused:
        late = f"{counted(misses, 'hand-off')} missed the deadline" if misses else "no hand-off missed its deadline"
        yield f"{time_text(cost['pause_seconds'])} s paused, at most {counted(result.most_paused, 'partition')} at once; {late}."
    later = cost["unowned_seconds"] - result.unowned_at_first
    yield (
        f"{time_text(later)} s without an owner while somebody was there to take over, and "
        f"{time_text(result.unowned_at_first)} s before the first owners (seconds are summed over partitions)."
    )
    lost = sum(one.end - one.start for one in orphaned_partitions(result))
    if lost:
        yield f"{time_text(lost)} s more with an owner that was gone, while no operator noticed."
    if cost["dual_ownership"] or cost["epoch_regressions"]:
        twice, back = counted(cost["dual_ownership"], "time"), counted(cost["epoch_regressions"], "time")
        yield f"Two owners were let in {twice}, and epochs went back {back}."
    if cost["state"] != "Ready":
        yield f"At the end the group is in {cost['state']}."
