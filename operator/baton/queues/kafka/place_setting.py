"""While a group is paused and no member owns a partition, Kafka's own tool may set its place.

The tool takes only a group without members, so the guard member leaves. Then nobody but the tokens keeps a stale owner from
committing over the place that was set. So each record loses its owner first, under a new token: the broker refuses whoever has
an earlier one, and whoever takes a later one finds no owner, and writes nothing (`PartitionTransactions.renewed`).
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from baton.queues.kafka.answers import StaleToken
from baton.queues.kafka.guard import GuardMember
from baton.queues.kafka.record import Committed, Record
from baton.queues.kafka.transaction import PartitionTransactions


class PlaceSetting:
    """Of one queue of a group."""

    def __init__(self, transactions: PartitionTransactions, guard: GuardMember) -> None:
        self._transactions = transactions
        self._guard = guard
        self.wanted = False
        """Others may set the place."""
        self._grants = 0
        """Those that are under way."""

    @contextmanager
    def over(self) -> Iterator[None]:
        """Around a grant: what it writes down keeps its owner."""
        self.wanted = False
        self._grants += 1
        try:
            yield
        finally:
            self._grants -= 1

    async def begin(self, seen: Mapping[int, Committed]) -> None:
        """Take the owners out of the records, of which `seen` was read a moment ago, then leave the group. Where a grant or
        another operator comes between, the next look does it."""
        owned = [number for number, one in seen.items() if one.record is not None and one.record.uid is not None]
        taken = await asyncio.gather(
            *(self._transactions.renewed(number, self._without_owner) for number in owned), return_exceptions=True
        )
        problems = [one for one in taken if isinstance(one, BaseException)]
        for problem in problems:
            if not isinstance(problem, StaleToken):
                raise problem
        if self._is_due and not problems:
            await self._guard.close()

    @property
    def _is_due(self) -> bool:
        return self.wanted and not self._grants

    def _without_owner(self, seen: Committed) -> Record | None:
        """What its owner has in hand stays written down, for whoever has the partition next."""
        if seen.record is None or not self._is_due:
            return seen.record
        return replace(seen.record, uid=None)
