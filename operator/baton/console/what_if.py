"""A group with another number of pods: which pods come or go, and the operator's plan for them."""

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
"""The most requests for a plan at the same time."""

MOST_CHANGES = 100
"""The most members in an answer: those that change most."""

LONGEST_RANGES = 200
"""The most characters of a member's gains or losses."""


def pods_of(seen: Observation) -> int:
    """The number of pods that are not terminating."""
    return sum(not member.terminating for member in seen.members.values())


def with_pods(state: GroupState, seen: Observation, pods: int) -> WhatIf:
    """The change to this number of pods: new ones are added, or those removed that cost the fewest moves, as in scaling."""
    there = {name: member for name, member in seen.members.items() if not member.terminating}
    if pods >= len(there):
        return WhatIf(add=pods - len(there))
    counts = Counter(record.owner for record in state.records.values() if record.owner is not None)
    return WhatIf(remove=tuple(cheapest_first(there, {*state.slot_holders()}, counts)[: len(there) - pods]))


def answer(of: Comparison, pods_now: int, pods: int) -> Json:
    """The answer for the page. Pure."""
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
    """Makes plans one at a time on a thread: a plan of ten thousand partitions takes seconds, and pages must stay live. A request
    cancelled before its turn is skipped."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="what-if")
        self._waiting = 0

    async def rehearse(self, group: str, state: GroupState, seen: Observation, pods: int, now: float) -> Json:
        """The plan for this number of pods. Raises NoAnswerError, and RefusedRequestError if there are too many requests."""
        if not 0 <= pods <= MOST_PODS:
            raise NoAnswerError(f"{pods} pods: use a number from 0 to {MOST_PODS:,}")

        def work() -> Json:
            comparison = asyncio.run(compare(group, state, seen, with_pods(state, seen, pods), now))
            return answer(comparison, pods_of(seen), pods)

        if self._waiting >= MOST_WAITING:
            raise RefusedRequestError(503, "too many requests for plans: try again later")
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
