"""Commits of a group's offsets that only the latest token of a partition may make.

A transaction with one offset in it, and what its owner sends on: the broker refuses it where another init of the partition's
transactional id came since the token was given. Each step may be repeated: a commit that timed out is in doubt, not failed.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from confluent_kafka import KafkaError as Code

from baton.model.retrying import doubling
from baton.queues.kafka.client import (
    PASSES_WITHIN,
    AddOffsetsToTxnRequest,
    CommittedOffsets,
    EndTxnRequest,
    InitProducerIdRequest,
    KafkaClient,
    StaleToken,
    TxnOffsetCommitRequest,
)
from baton.queues.kafka.event_loop import each
from baton.queues.kafka.outputs import TransactionOutputs
from baton.queues.kafka.record import Committed, Record, Token, read
from baton.queues.output import Output
from baton.queues.protocol import PartitionUnavailable

_OPEN_FOR = 10_000
"""Milliseconds after which the broker aborts an abandoned commit."""
ENDS_WITHIN = 1.0
"""Seconds after which a commit that is under way is taken for one whose process has ended, or sleeps,"""
_ENDS_IN_ANSWERS = 3
"""or so many answers of the broker, where these take longer (up to PASSES_WITHIN): it has two to wait for,"""
_PAUSE = 0.005
"""and seconds between the first two looks at it."""
GRANTED_WITHIN = 0.2
"""Seconds that an operator has between its new token and its record, before another process takes a new token itself."""
_TRIES = 5
_NOTHING = Committed(-1, None)


def transactional_id(group: str, topic: str, partition: int) -> str:
    """Of this partition alone: names of groups and topics have no slash. A prefixed ACL on `baton.<group>/` allows a group's."""
    return f"baton.{group}/{topic}/{partition}"


def granted_within(answered_in: float) -> float:
    """GRANTED_WITHIN, and more where the broker is slow: it took so many seconds for the last answer. An operator that has a
    token waits for two before others see that it writes."""
    return max(GRANTED_WITHIN, 2 * answered_in)


class Unsettled(PartitionUnavailable):
    """A commit is under way that does not end."""


class PartitionTransactions:
    """Those of one topic, for one group."""

    def __init__(self, client: KafkaClient, topic: str) -> None:
        self.client = client
        self.topic = topic
        self.unsettled: frozenset[int] = frozenset()
        """Partitions of which `committed` has found a commit under way that is none of Baton's, and did not end."""
        self._outputs = TransactionOutputs(client)

    async def init(self, partition: int) -> Token:
        """A new token: from now on the earlier ones are refused, and what was open under them is aborted."""
        name = self._name(partition)
        answer = await self._taken(name, InitProducerIdRequest(name, _OPEN_FOR))
        return Token(answer.producer_id, answer.producer_epoch)

    async def commit(
        self, partition: int, offset: int, record: Record, outputs: Sequence[Output] = (), seen: Committed | None = None
    ) -> None:
        """Under the record's token: the offset, and what was sent of the entries before it. `seen`: see `end`. Raises StaleToken
        where another is in force. With outputs it may be repeated under another token only: with the same it may be two
        transactions."""
        if outputs:
            await self._outputs.send(self._name(partition), record.token, partition, outputs)
        await self.begin(partition, record.token)
        await self.end(partition, offset, record, seen)

    async def begin(self, partition: int, token: Token) -> None:
        """The transaction is to have an offset of the group, for `end`."""
        name = self._name(partition)
        await self._taken(name, AddOffsetsToTxnRequest(name, *token, self.client.group))

    async def end(self, partition: int, offset: int, record: Record, seen: Committed | None = None) -> None:
        """Commit what was begun, with this offset. `seen`: what it follows from. A coordinator that has just taken over may
        answer what was committed long ago, until something is written; so it is asked once more, and where that is another than
        `seen`, nothing is committed, and StaleToken is raised."""
        name, group, token = self._name(partition), self.client.group, record.token
        text = record.to_text() + "\0"  # clients in C, confluent-kafka among them, read up to it
        request = TxnOffsetCommitRequest(name, group, *token, [(self.topic, [(partition, offset, text)])])
        await self.client.until_taken(
            "TxnOffsetCommit",
            lambda: self.client.to_group(request, transactional_id=name),
            self.topic,
            name,
            lambda answer: answer.errors[0][1][0][1],
        )
        follows = seen is None or seen == (await self.before_pending((partition,)))[partition]

        await self._end(partition, token, commit=follows)
        if not follows:
            raise StaleToken("TxnOffsetCommit")

    async def committed(self, partitions: tuple[int, ...]) -> dict[int, Committed]:
        """Return the settled commit of each partition. An abandoned commit is aborted; if it is foreign, the commit before it is
        returned."""
        found: dict[int, Committed] = {}
        for _ in range(_TRIES):
            found, pending = await self._settled(partitions, ENDS_WITHIN)
            try:
                ended = await each(self._ended, pending)
            except StaleToken:
                continue  # another process has aborted it
            settled = {number: one for number, one in ended.items() if one is not None}
            self.unsettled = frozenset(ended.keys() - settled.keys())
            before = await self.before_pending(tuple(self.unsettled)) if self.unsettled else {}
            return found | settled | before
        raise self._unsettled()

    async def stable(self, partition: int, within: float = PASSES_WITHIN) -> Committed:
        """The same of one; a commit that is under way is waited for."""
        return (await self.all_stable((partition,), within))[partition]

    async def all_stable(self, partitions: tuple[int, ...], within: float = PASSES_WITHIN) -> dict[int, Committed]:
        """Of these; commits that are under way are waited for, `within` 0 for none."""
        found, pending = await self._settled(partitions, within)
        if pending:
            raise self._unsettled()
        return found

    async def after_refusal(self, partition: int, refused: Token) -> tuple[Committed, bool]:
        """Return what is committed once the process that took a newer token than the refused one has had time to write it down.
        True: it has not; it has ended between two requests, or is very slow, and a new token may be taken."""
        asked_at = time.monotonic()
        seen = await self.stable(partition)
        if seen.record is None or seen.record.token != refused:
            return seen, False
        await asyncio.sleep(granted_within(time.monotonic() - asked_at))
        seen = await self.stable(partition)
        return seen, seen.record is not None and seen.record.token == refused

    async def now(self, partitions: tuple[int, ...]) -> tuple[dict[int, Committed], tuple[int, ...]]:
        """What is committed, but for those of which a commit is under way; and these."""
        found, pending = await committed(self.client, self.topic, partitions)
        those = tuple(number for name, number in pending if name == self.topic)
        return {number: found.get((self.topic, number), _NOTHING) for number in partitions if number not in those}, those

    async def before_pending(self, partitions: tuple[int, ...]) -> dict[int, Committed]:
        """What is committed of each; of one of which a commit is under way, what was before it."""
        found, _ = await committed(self.client, self.topic, partitions, beside_pending=True)
        return {number: found.get((self.topic, number), _NOTHING) for number in partitions}

    async def renewed(self, partition: int, change: Callable[[Committed], Record | None] = lambda seen: seen.record) -> Committed:
        """Take a new token, and write it with the record as it is, or as `change` returns it. A commit under way is aborted, and
        a process with an earlier token looks at the record. So a late process can leave a record with a dead token only if it
        ends between two requests; then the owner that the record names does the same. A record without an owner stays as it is:
        others may set the group's place meanwhile. Raises StaleToken where another did so since."""
        token = await self.init(partition)
        try:
            seen = await self.stable(partition)
        except Unsettled:
            seen = await self._without_late(partition, token)
        record = change(seen)
        if record is None or (record.uid is None and record == seen.record):
            return seen
        record = replace(record, token=token)
        await self.commit(partition, seen.offset, record, seen=seen)
        return Committed(seen.offset, record)

    async def _without_late(self, partition: int, token: Token) -> Committed:
        """What is committed, without a commit that the broker got when its transaction was over: it is under way in none, so no
        new token aborts it; the end of any other of the same id does. Raises Unsettled where it is foreign."""
        await self.begin(partition, token)
        await self._end(partition, token, commit=False)
        found, pending = await self._settled((partition,), ENDS_WITHIN)
        if pending:
            raise self._unsettled()
        return found[partition]

    async def _end(self, partition: int, token: Token, *, commit: bool) -> None:
        name = self._name(partition)
        await self._taken(name, EndTxnRequest(name, *token, commit))

    async def _taken(self, name: str, request: Any) -> Any:
        """The answer of this transactional id's coordinator."""
        what = type(request).__name__.removesuffix("Request")
        return await self.client.until_taken(what, lambda: self.client.to_transactions(name, request), self.topic, name)

    async def _ended(self, partition: int) -> Committed | None:
        """`renewed`; None where that has ended no commit."""
        try:
            return await self.renewed(partition)
        except PartitionUnavailable:
            return None

    def _unsettled(self) -> Unsettled:
        return Unsettled(str(self.client.refused("OffsetFetch", Code.UNSTABLE_OFFSET_COMMIT, self.topic)))

    async def _settled(self, partitions: tuple[int, ...], within: float) -> tuple[dict[int, Committed], tuple[int, ...]]:
        """As `now`, after so many seconds for what is under way to end; longer where the broker is slow."""
        asked_at, pauses = time.monotonic(), doubling(_PAUSE, 10 * _PAUSE)
        found, pending = await self.now(partitions)
        answered_at = time.monotonic()
        slow = min(PASSES_WITHIN, _ENDS_IN_ANSWERS * (answered_at - asked_at)) if within else 0.0
        until = answered_at + max(within, slow)
        while pending and time.monotonic() < until:
            await asyncio.sleep(next(pauses))
            more, pending = await self.now(pending)
            found |= more
        return found, pending

    def _name(self, partition: int) -> str:
        return transactional_id(self.client.group, self.topic, partition)


async def committed(
    client: KafkaClient, topic: str | None = None, partitions: tuple[int, ...] = (), *, beside_pending: bool = False
) -> tuple[dict[tuple[str, int], Committed], list[tuple[str, int]]]:
    """By topic and partition; without a topic, of all that the group has. Without those of which a commit is under way; and
    these. `beside_pending`: of these, what is committed before it."""
    request = CommittedOffsets(client.group, topic, partitions, beside_pending=beside_pending)

    def worst(answer: Any) -> int:
        codes = [answer.error_code, *(one[4] for _, those, _ in answer.topics for one in those)]
        return next((code for code in codes if code not in (Code.NO_ERROR, Code.UNSTABLE_OFFSET_COMMIT)), Code.NO_ERROR)

    answer = await client.until_taken("OffsetFetch", lambda: client.to_group(request), topic or "", code_of=worst)
    found: dict[tuple[str, int], Committed] = {}
    pending: list[tuple[str, int]] = []
    for name, those, _ in answer.topics:
        for number, offset, _, text, code, _ in those:
            if code == Code.UNSTABLE_OFFSET_COMMIT:
                pending.append((name, number))
            else:
                found[name, number] = Committed(offset, read(text))
    return found, pending
