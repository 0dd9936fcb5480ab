"""A group with another number of pods: which pods come or go, and what its operator's own plan would make of it."""

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from baton.cli.cluster import NoAnswerError
from baton.cli.rehearsal import Comparison, MemberChange, WhatIf, compare, sentences
from baton.console.group_page import short_numbers
from baton.console.guard import RefusedRequestError
from baton.engine import GroupState
from baton.engine.membership import cheapest_first
from baton.engine.observation import Observation

Json = dict[str, Any]

MOST_PODS = 10_000
MOST_WAITING = 16
"""Plans that are asked for at the same time."""

MOST_CHANGES = 100
"""Members of an answer: those that change most."""

LONGEST_RANGES = 200
"""Characters."""


def pods_of(seen: Observation) -> int:
    """How many there are, without those that stop."""
    return sum(not member.terminating for member in seen.members.values())


def with_pods(state: GroupState, seen: Observation, pods: int) -> WhatIf:
    """So many pods: new ones come, or those go whose loss costs the fewest moves, as when a group is scaled."""
    there = {name: member for name, member in seen.members.items() if not member.terminating}
    if pods >= len(there):
        return WhatIf(add=pods - len(there))
    counts = Counter(record.owner for record in state.records.values() if record.owner is not None)
    return WhatIf(remove=tuple(cheapest_first(there, {*state.slot_holders()}, counts)[: len(there) - pods]))


def answer(of: Comparison, pods_now: int, pods: int) -> Json:
    """For the page. Pure."""
    changed = [change for change in of.changes if change.size]
    return {
        "pods": pods,
        "podsNow": pods_now,
        "moves": of.moves,
        "lowerBound": of.lower_bound,
        "sentences": [{"good": good, "text": text} for good, text in sentences(of)],
        "changed": len(changed),
        "unchanged": len(of.changes) - len(changed),
        "changes": [_change(change) for change in changed[:MOST_CHANGES]],
    }


class Rehearsals:
    """One at a time, on a thread: a plan of ten thousand partitions takes seconds, and no page is to stand still for it. One that
    is given up before its turn is not made."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="what-if")
        self._waiting = 0

    async def rehearse(self, group: str, state: GroupState, seen: Observation, pods: int, now: float) -> Json:
        """What would come of so many pods. Raises NoAnswerError, and RefusedRequestError where too many ask."""
        if not 0 <= pods <= MOST_PODS:
            raise NoAnswerError(f"{pods} pods: give a number from 0 to {MOST_PODS:,}")

        def work() -> Json:
            comparison = asyncio.run(compare(group, state, seen, with_pods(state, seen, pods), now))
            return answer(comparison, pods_of(seen), pods)

        if self._waiting >= MOST_WAITING:
            raise RefusedRequestError(503, "too many plans are asked for: come again later")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._waiting -= 1


def _change(change: MemberChange) -> Json:
    return {
        "member": change.member,
        "before": change.before,
        "after": change.after if change.there else None,
        "gains": short_numbers((*change.gains, *change.withheld), LONGEST_RANGES),
        "loses": short_numbers(change.loses, LONGEST_RANGES),
    }
