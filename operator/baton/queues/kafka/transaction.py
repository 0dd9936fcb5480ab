"""Commits of a group's offsets that only the latest token of a partition may make.

A transaction with one offset in it: the broker refuses it where another init of the partition's transactional id came since the
token was given. Each step may be repeated: a commit that timed out is in doubt, not failed.
"""

from typing import Any

from aiokafka.protocol.transaction import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

from baton.queues.kafka.client import KafkaClient
from baton.queues.kafka.messages import StableOffsets
from baton.queues.kafka.record import Committed, Record, Token, read

_OPEN_FOR = 10_000
"""Milliseconds after which the broker aborts a commit that nobody ends."""


def transactional_id(group: str, topic: str, partition: int) -> str:
    """A prefixed ACL on `baton.<group>.` allows all of a group."""
    return f"baton.{group}.{topic}.{partition}"


class PartitionTransactions:
    """Those of one topic, for one group."""

    def __init__(self, client: KafkaClient, topic: str) -> None:
        self.client = client
        self.topic = topic

    async def init(self, partition: int) -> Token:
        """A new token: from now on the earlier ones are refused, and what was open under them is aborted."""
        name = self._name(partition)
        answer: Any = None

        async def ask() -> int:
            nonlocal answer
            answer = await self.client.to_transactions(name, InitProducerIdRequest(name, _OPEN_FOR))
            return int(answer.error_code)

        await self.client.until_taken("InitProducerId", ask, self.topic, name)
        return Token(answer.producer_id, answer.producer_epoch)

    async def commit(self, partition: int, offset: int, record: Record) -> None:
        """Under the record's token. Raises StaleToken where another is in force."""
        name, group, token = self._name(partition), self.client.group, record.token
        text = record.to_text()

        async def add() -> int:
            answer = await self.client.to_transactions(name, AddOffsetsToTxnRequest(name, *token, group))
            return int(answer.error_code)

        async def put() -> int:
            offsets = [(self.topic, [(partition, offset, text)])]
            answer = await self.client.to_group(TxnOffsetCommitRequest(name, group, *token, offsets))
            return int(answer.errors[0][1][0][1])

        async def end() -> int:
            answer = await self.client.to_transactions(name, EndTxnRequest(name, *token, True))
            return int(answer.error_code)

        await self.client.until_taken("AddOffsetsToTxn", add, self.topic, name)
        await self.client.until_taken("TxnOffsetCommit", put, self.topic, name)
        await self.client.until_taken("EndTxn", end, self.topic, name)

    async def committed(self, partitions: tuple[int, ...]) -> dict[int, Committed]:
        """What is committed of each, and not about to change."""
        found = await committed(self.client, self.topic, partitions)
        return {partition: found.get((self.topic, partition), Committed(-1, None)) for partition in partitions}

    def _name(self, partition: int) -> str:
        return transactional_id(self.client.group, self.topic, partition)


async def committed(
    client: KafkaClient, topic: str | None = None, partitions: tuple[int, ...] = ()
) -> dict[tuple[str, int], Committed]:
    """By topic and partition; without a topic, of all that the group has."""
    found: dict[tuple[str, int], Committed] = {}

    async def ask() -> int:
        answer = await client.to_group(StableOffsets(client.group, topic, partitions))
        worst = int(answer.error_code)
        for name, those, _ in answer.topics:
            for number, offset, _, text, code, _ in those:
                worst = worst or int(code)
                found[name, number] = Committed(offset, read(text))
        return worst

    await client.until_taken("OffsetFetch", ask, topic or "")
    return found
