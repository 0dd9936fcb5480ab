"""The owner records of a topic's partitions, as a Spark query keeps its number and its place in them.

A query commits under the token that stands in the record, whoever owns the partition: so a grant does not end it, and a commit
that was begun before a grant, or before a later query, is refused by the broker.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from baton.queues.kafka.answers import StaleToken
from baton.queues.kafka.each import each
from baton.queues.kafka.record import Committed, Record
from baton.queues.kafka.topic import LogEnd
from baton.queues.kafka.topic_log import TopicLog
from baton.queues.kafka.transaction import GRANTED_WITHIN, PartitionTransactions
from baton.queues.protocol import PartitionUnavailable

_TRIES = 5

Change = Callable[[Committed], tuple[int, Record] | None]
"""What is to be committed where this is; None: nothing."""


class QueryRecords:
    """Used in one event loop. Its methods raise QueueUnreachable."""

    def __init__(self, transactions: PartitionTransactions, log: TopicLog) -> None:
        self._transactions = transactions
        self._log = log
        self.topic_id = ""
        """The topic that the query reads. Records of one that was made in its place are not touched. Empty: any."""

    async def seen(self, partitions: Iterable[int]) -> dict[int, Committed]:
        """What is committed of each now. One that the operator has not granted yet has no record, and is left out; so is one
        without an owner: others may set the group's place meanwhile."""
        found = await self._transactions.all_stable(tuple(partitions))
        return {number: one for number, one in found.items() if _is_owned(one)}

    async def taken(self, query: int, partitions: Iterable[int]) -> dict[int, Committed]:
        """The same, and each names the query from now on, unless it names a later one. Who commits for an earlier one, or reads
        alone, is refused."""
        found = await self.seen(partitions)
        if behind := [number for number, one in found.items() if _query(one) < query and not self.remade(one)]:
            ends = await self._log.offsets(LogEnd.END, behind)

            async def take(number: int) -> Committed:
                return await self._renewed(number, lambda seen: _taken(seen, query, ends.get(number)))

            found |= await each(take, behind)
        return found

    async def changed(self, query: int, changes: Mapping[int, Change], found: Mapping[int, Committed]) -> dict[int, Committed]:
        """Commit these changes, each unless its record names a later query; what stands there then. `found`: what was seen of
        them a moment ago."""

        async def change(number: int) -> Committed:
            return await self._change(query, number, changes[number], found[number])

        return await each(change, changes)

    def remade(self, seen: Committed) -> bool:
        """The record is of another topic with this name: the query's was deleted."""
        return bool(self.topic_id) and seen.record is not None and seen.record.topic_id != self.topic_id

    async def _change(self, query: int, number: int, change: Change, seen: Committed) -> Committed:
        for _ in range(_TRIES):
            wanted = change(seen) if _is_owned(seen) and _query(seen) <= query and not self.remade(seen) else None
            if wanted is None:
                return seen
            try:
                await self._transactions.commit(number, *wanted, seen=seen)
                return Committed(*wanted)
            except StaleToken:
                seen = await self._after_refusal(number, wanted[1])
        raise self._granted_on(number)

    async def _after_refusal(self, number: int, refused: Record) -> Committed:
        """Whoever has another token writes it down; where the record keeps the refused one, that process has ended, and the query
        takes a token for the record as it is."""
        seen, unchanged = await self._transactions.after_refusal(number, refused.token)
        return await self._renewed(number, lambda now: now.record) if unchanged else seen

    async def _renewed(self, number: int, change: Callable[[Committed], Record | None]) -> Committed:
        for _ in range(_TRIES):
            try:
                return await self._transactions.renewed(number, change)
            except StaleToken:
                await asyncio.sleep(GRANTED_WITHIN / _TRIES)
        raise self._granted_on(number)

    def _granted_on(self, number: int) -> PartitionUnavailable:
        client = self._transactions.client
        return PartitionUnavailable(
            f"{client.address.place}: partition {number} of {self._transactions.topic} is granted again and again, or two "
            f"drivers read it: see that the group {client.group} has one operator and one driver"
        )


def _is_owned(seen: Committed) -> bool:
    """Somebody has the partition."""
    return seen.record is not None and bool(seen.record.group) and seen.record.uid is not None


def _query(seen: Committed) -> int:
    return seen.record.query if seen.record is not None else 0


def _taken(seen: Committed, query: int, end: int | None) -> Record | None:
    """By a query that begins: `end` is where the log ends; None: nobody leads the partition. What was reserved before may have
    been handed out."""
    record = seen.record
    if record is None or not _is_owned(seen) or record.query > query:
        return record  # it needs the new token all the same
    again, stale = record.comes_again(record.reserved if end is None else end), record.still_read()
    return replace(record, query=query, reader="", again=again, stale=stale, reserved=seen.offset, released=False)
