"""Commits of a group's offsets that only the latest token of a partition may make.

A commit is a transaction with one offset in it, and the owner's outputs. The broker refuses it if the partition's transactional
id was initialized again since the token was given. Each step may be repeated: a commit that timed out is in doubt, not failed.
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
"""Seconds after which the process of a commit under way is assumed to have ended, or to sleep."""
_ENDS_IN_ANSWERS = 3
"""At a slow broker ENDS_WITHIN is the time of this many answers, up to PASSES_WITHIN, as a commit waits for two answers."""
_PAUSE = 0.005
"""Seconds between the first two looks at a commit under way; later pauses are longer."""
GRANTED_WITHIN = 0.2
"""Seconds that an operator has to write its record after it took a token, before another process takes a new one."""
_TRIES = 5
_NOTHING = Committed(-1, None)


def transactional_id(group: str, topic: str, partition: int) -> str:
    """Return the transactional id of a partition. It is unique, as names of groups and topics have no slash. A prefixed ACL on
    `baton.<group>/` covers a group's."""
    return f"baton.{group}/{topic}/{partition}"


def granted_within(answered_in: float) -> float:
    """Return GRANTED_WITHIN, or more at a slow broker: twice the seconds of its last answer. An operator with a new token waits
    for two answers before others see its record."""
    return max(GRANTED_WITHIN, 2 * answered_in)


class Unsettled(PartitionUnavailable):
    """A commit under way does not end."""


class PartitionTransactions:
    """The transactions of one topic's partitions, for one group."""

    def __init__(self, client: KafkaClient, topic: str) -> None:
        self.client = client
        self.topic = topic
        self.unsettled: frozenset[int] = frozenset()
        """Partitions in which the last call of `committed` found a foreign commit under way that did not end."""
        self._outputs = TransactionOutputs(client)

    async def init(self, partition: int) -> Token:
        """Take a new token: earlier ones are refused from now on, and their open transactions are aborted."""
        name = self._name(partition)
        answer = await self._request(name, InitProducerIdRequest(name, _OPEN_FOR))
        return Token(answer.producer_id, answer.producer_epoch)

    async def commit(
        self, partition: int, offset: int, record: Record, outputs: Sequence[Output] = (), seen: Committed | None = None
    ) -> None:
        """Commit an offset and the outputs of the entries before it, under the record's token. `seen`: see `end`. Raises
        StaleToken if another token is in force. With outputs, repeat it only under another token: under the same one it may
        become two transactions."""
        if outputs:
            await self._outputs.send(self._name(partition), record.token, partition, outputs)
        await self.begin(partition, record.token)
        await self.end(partition, offset, record, seen)

    async def begin(self, partition: int, token: Token) -> None:
        """Add the group's offsets to the transaction that `end` commits."""
        name = self._name(partition)
        await self._request(name, AddOffsetsToTxnRequest(name, *token, self.client.group))

    async def end(self, partition: int, offset: int, record: Record, seen: Committed | None = None) -> None:
        """Commit this offset in the transaction that was begun. `seen`: the commit that this one follows. A coordinator that has
        just taken over may answer with an old commit until something is written; so it is asked again, and if the answer differs
        from `seen`, nothing is committed, and StaleToken is raised."""
        name, group, token = self._name(partition), self.client.group, record.token
        text = record.to_text() + "\0"  # clients in C, such as confluent-kafka, read up to the NUL
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
                ended = await each(self._end_pending, pending)
            except StaleToken:
                continue  # another process has aborted the commit
            settled = {number: one for number, one in ended.items() if one is not None}
            self.unsettled = frozenset(ended.keys() - settled.keys())
            before = await self.before_pending(tuple(self.unsettled)) if self.unsettled else {}
            return found | settled | before
        raise self._unsettled()

    async def stable(self, partition: int, within: float = PASSES_WITHIN) -> Committed:
        """As `all_stable`, of one partition."""
        return (await self.all_stable((partition,), within))[partition]

    async def all_stable(self, partitions: tuple[int, ...], within: float = PASSES_WITHIN) -> dict[int, Committed]:
        """Return what is committed after waiting for commits under way. Raises Unsettled if one does not end `within` so many
        seconds; 0: do not wait."""
        found, pending = await self._settled(partitions, within)
        if pending:
            raise self._unsettled()
        return found

    async def after_refusal(self, partition: int, refused: Token) -> tuple[Committed, bool]:
        """Give the process that took a newer token than `refused` time to write its record; then return what is committed, and
        whether the record still has the refused token: that process has ended between two requests, or is very slow, and a new
        token may be taken."""
        asked_at = time.monotonic()
        seen = await self.stable(partition)
        if seen.record is None or seen.record.token != refused:
            return seen, False
        await asyncio.sleep(granted_within(time.monotonic() - asked_at))
        seen = await self.stable(partition)
        return seen, seen.record is not None and seen.record.token == refused

    async def now(self, partitions: tuple[int, ...]) -> tuple[dict[int, Committed], tuple[int, ...]]:
        """Return what is committed, and the partitions with a commit under way, which are left out."""
        found, pending = await committed(self.client, self.topic, partitions)
        those = tuple(number for name, number in pending if name == self.topic)
        return {number: found.get((self.topic, number), _NOTHING) for number in partitions if number not in those}, those

    async def before_pending(self, partitions: tuple[int, ...]) -> dict[int, Committed]:
        """Return what is committed; in a partition with a commit under way, the commit before it."""
        found, _ = await committed(self.client, self.topic, partitions, beside_pending=True)
        return {number: found.get((self.topic, number), _NOTHING) for number in partitions}

    async def renewed(self, partition: int, change: Callable[[Committed], Record | None] = lambda seen: seen.record) -> Committed:
        """Take a new token and write it with the record that `change` returns, the present one by default. A commit under way is
        aborted; its process then reads the record and sees the new token. Only a process that ends between the two requests
        leaves a dead token in the record; the owner then takes a new one. A record without an owner stays as it is, as others may
        set the group's offset meanwhile. Raises StaleToken if another process has taken a token since."""
        token = await self.init(partition)
        try:
            seen = await self.stable(partition)
        except Unsettled:
            seen = await self._abort_late_commit(partition, token)
        record = change(seen)
        if record is None or (record.uid is None and record == seen.record):
            return seen
        record = replace(record, token=token)
        await self.commit(partition, seen.offset, record, seen=seen)
        return Committed(seen.offset, record)

    async def _abort_late_commit(self, partition: int, token: Token) -> Committed:
        """Abort a commit that reached the broker after its transaction was over, and return what is committed. No new token
        aborts such a commit, but the end of another transaction under the same id does. Raises Unsettled if the commit is
        foreign."""
        await self.begin(partition, token)
        await self._end(partition, token, commit=False)
        found, pending = await self._settled((partition,), ENDS_WITHIN)
        if pending:
            raise self._unsettled()
        return found[partition]

    async def _end(self, partition: int, token: Token, *, commit: bool) -> None:
        name = self._name(partition)
        await self._request(name, EndTxnRequest(name, *token, commit))

    async def _request(self, name: str, request: Any) -> Any:
        """Send a request to the coordinator of this transactional id, until the broker takes it."""
        what = type(request).__name__.removesuffix("Request")
        return await self.client.until_taken(what, lambda: self.client.to_transactions(name, request), self.topic, name)

    async def _end_pending(self, partition: int) -> Committed | None:
        """As `renewed`; None if the commit under way did not end."""
        try:
            return await self.renewed(partition)
        except PartitionUnavailable:
            return None

    def _unsettled(self) -> Unsettled:
        return Unsettled(str(self.client.refused("OffsetFetch", Code.UNSTABLE_OFFSET_COMMIT, self.topic)))

    async def _settled(self, partitions: tuple[int, ...], within: float) -> tuple[dict[int, Committed], tuple[int, ...]]:
        """As `now`, after waiting `within` seconds for commits under way, or longer at a slow broker."""
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
    """Return what is committed, by topic and partition, and the partitions with a commit under way, which are left out. Without a
    topic: all that the group has. `beside_pending`: include those, with the commit before the one under way."""
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
