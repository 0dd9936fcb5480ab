"""While a group is paused and no member owns a partition, Kafka's own tool may set its place.

The tool takes only a group without members, so the guard member leaves. Then nobody but the tokens keeps a stale owner from
committing over the place that was set. So each record loses its owner first, under a new token: the broker refuses whoever has
an earlier one, and whoever takes a later one finds no owner, and writes nothing (`PartitionTransactions.renewed`).

Only an owner is taken out that the last check has shown. The operator may have slept, and another may have taken over and
granted since. A grant that is too late is refused by its epoch; this has none.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from baton.queues.kafka.answers import StaleToken
from baton.queues.kafka.each import each
from baton.queues.kafka.guard import GuardMember
from baton.queues.kafka.record import Committed, Record
from baton.queues.kafka.transaction import PartitionTransactions
from baton.queues.protocol import Owner

_A_LOOK = 2.0
"""Seconds of a look after which no further owner is taken out: what takes too long is cut off, and done again."""


class PlaceSetting:
    """Of one queue of a group."""

    def __init__(self, transactions: PartitionTransactions, guard: GuardMember) -> None:
        self._transactions = transactions
        self._guard = guard
        self.shown: Mapping[int, Owner] = {}
        """By the last check."""
        self._wanted = False
        """Others may set the place, and nothing was granted since that was said."""
        self._grants = 0
        """Those that are under way."""

    @contextmanager
    def over(self) -> Iterator[None]:
        """Around a grant: the guard stays where there may be an owner again."""
        self._wanted = False
        self._grants += 1
        try:
            yield
        finally:
            self._grants -= 1

    def want(self, wanted: bool) -> None:
        """Others may set the place, or not any more. While a grant is under way they may not."""
        self._wanted = wanted and not self._grants

    async def begin(self, seen: Mapping[int, Committed]) -> None:
        """Take the owners out of the records, of which `seen` was read a moment ago, then leave the group. Where there are too
        many for one look, or a grant or another operator comes between, the next look goes on."""
        owned = {number: one for number, one in seen.items() if _has_owner(one)}
        found = await each(lambda number: self._taken_out(number, owned[number]), owned, _A_LOOK)
        if self._wanted and not any(_has_owner(found.get(number, one)) for number, one in owned.items()):
            await self._guard.leave()

    async def _taken_out(self, partition: int, seen: Committed) -> Committed:
        """What is committed then."""
        if self._without_owner(partition, seen) == seen.record:
            return seen
        try:
            return await self._transactions.renewed(partition, partial(self._without_owner, partition))
        except StaleToken:  # somebody grants
            return seen

    def _without_owner(self, partition: int, seen: Committed) -> Record | None:
        """What its owner has in hand stays written down, for whoever has the partition next."""
        record, shown = seen.record, self.shown.get(partition)
        if record is None or shown is None or (record.uid, record.epoch) != (shown.uid, shown.epoch):
            return record
        return replace(record, uid=None)


def _has_owner(seen: Committed) -> bool:
    return seen.record is not None and seen.record.uid is not None
