"""Messages that are sent within the transactions of an owner: nobody who reads committed messages sees them before it ends."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence

from aiokafka.protocol.produce import ProduceRequest
from aiokafka.protocol.transaction import AddPartitionsToTxnRequest

from baton.queues.kafka.answers import PASSING, STALE, Code, StaleToken, said
from baton.queues.kafka.client import PASSES_WITHIN, BrokerLost, KafkaClient
from baton.queues.kafka.output_batches import encoded, shared_out
from baton.queues.kafka.record import Token
from baton.queues.kafka.topic import Topic, describe
from baton.queues.output import Output
from baton.queues.protocol import PartitionUnavailable, QueueUnreachable

_ALL_REPLICAS = -1
_TAKES_WITHIN = 3000
"""Milliseconds for the replicas."""
_KNOWN_FOR = 60.0
"""Seconds for which it is taken that a topic has as many partitions as it had."""
_PAUSE = 0.02
_TAKEN = frozenset({Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER})
_OVER_IN_A_MOMENT = PASSING | {Code.REQUEST_TIMED_OUT, Code.NOT_ENOUGH_REPLICAS, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND}
_Place = tuple[str, int]


class TransactionOutputs:
    """Used in one event loop. After an error the transaction is to be given up, and its token with it: what was sent may be there
    in part."""

    def __init__(self, client: KafkaClient) -> None:
        self._client = client
        self._topics: dict[str, tuple[float, Topic]] = {}
        """And when each was asked for (monotonic)."""
        self._sent: dict[str, tuple[Token, defaultdict[_Place, int]]] = {}
        """By transactional id: how many records each partition has had under its latest token."""

    async def send(self, transactional_id: str, token: Token, source: int, outputs: Sequence[Output]) -> None:
        """Returns when the brokers have all of them. `source`: the partition that they came of. Raises StaleToken and
        QueueUnreachable."""
        topics = {name: await self._topic(name) for name in sorted({output.topic for output in outputs})}
        batches = shared_out(outputs, {name: topic.partitions for name, topic in topics.items()}, source)
        for name, number in batches:
            if number >= topics[name].partitions:
                raise self._refused(name, f"there is no partition {number}: it has {topics[name].partitions}")
        await self._begin(transactional_id, token, list(batches))
        for turn in range(max(map(len, batches.values()), default=0)):
            now = {place: those[turn] for place, those in batches.items() if len(those) > turn}
            await self._produce(transactional_id, token, now)

    async def _begin(self, transactional_id: str, token: Token, places: Sequence[_Place]) -> None:
        """The transaction has these partitions."""
        by_topic: defaultdict[str, list[int]] = defaultdict(list)
        for name, number in places:
            by_topic[name].append(number)

        async def ask() -> int:
            answer = await self._client.to_transactions(
                transactional_id, AddPartitionsToTxnRequest(transactional_id, *token, list(by_topic.items()))
            )
            codes = {(name, int(code)) for name, those in answer.errors for _, code in those}
            for name, code in sorted(codes):
                if code in (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.TOPIC_AUTHORIZATION_FAILED):
                    raise self._cannot(name, code)
            left = [code for _, code in codes if code not in (Code.NONE, Code.OPERATION_NOT_ATTEMPTED)]
            return left[0] if left else Code.NONE

        await self._client.until_taken("AddPartitionsToTxn", ask, places[0][0], transactional_id)

    async def _produce(self, transactional_id: str, token: Token, batches: dict[_Place, Sequence[Output]]) -> None:
        """One batch for each partition; what a leader does not take just now is sent once more. That makes none twice: each has
        its number in the sequence."""
        sent = self._counted(transactional_id, token)
        until = time.monotonic() + PASSES_WITHIN
        left = {place: encoded(outputs, token, sent[place]) for place, outputs in batches.items()}
        while left:
            codes = await self._ask_leaders(transactional_id, left)
            if any(code in STALE for code in codes.values()):
                raise StaleToken("Produce")
            for place, code in codes.items():
                if code in _TAKEN:
                    del left[place]
                    sent[place] += len(batches[place])
                elif code not in _OVER_IN_A_MOMENT or time.monotonic() >= until:
                    raise self._cannot(place[0], code)
            if left:
                await asyncio.sleep(_PAUSE)
                self._topics.clear()

    async def _ask_leaders(self, transactional_id: str, batches: dict[_Place, bytes]) -> dict[_Place, int]:
        by_leader: defaultdict[int, defaultdict[str, list[tuple[int, bytes]]]] = defaultdict(lambda: defaultdict(list))
        codes: dict[_Place, int] = {}
        for (name, number), batch in batches.items():
            leader = (await self._topic(name)).leaders.get(number, -1)
            if leader < 0:
                codes[name, number] = Code.LEADER_NOT_AVAILABLE
            else:
                by_leader[leader][name].append((number, batch))

        async def ask(leader: int, those: list[tuple[str, list[tuple[int, bytes]]]]) -> None:
            request = ProduceRequest(transactional_id, _ALL_REPLICAS, _TAKES_WITHIN, those)
            try:
                answer = await self._client.to_broker(leader, request)
            except BrokerLost:  # another leads in a moment
                codes.update({(name, number): Code.LEADER_NOT_AVAILABLE for name, batches in those for number, _ in batches})
                return
            for name, partitions in answer.topics:
                codes.update({(name, number): int(code) for number, code, *_ in partitions})

        await asyncio.gather(*(ask(leader, list(those.items())) for leader, those in by_leader.items()))
        return codes

    def _counted(self, transactional_id: str, token: Token) -> defaultdict[_Place, int]:
        known = self._sent.get(transactional_id)
        if known is None or known[0] != token:
            known = self._sent[transactional_id] = (token, defaultdict(int))
        return known[1]

    async def _topic(self, name: str) -> Topic:
        asked_at, topic = self._topics.get(name, (float("-inf"), None))
        if topic is None or time.monotonic() - asked_at > _KNOWN_FOR:
            asked_at = time.monotonic()
            topic = await describe(self._client, name, lambda code: self._cannot(name, code))
            self._topics[name] = (asked_at, topic)
        return topic

    def _cannot(self, topic: str, code: int) -> QueueUnreachable:
        return self._refused(topic, _why(code, self._client.address.who))

    def _refused(self, topic: str, why: str) -> PartitionUnavailable:
        self._topics.pop(topic, None)
        return PartitionUnavailable(f"{self._client.address.place}: outputs cannot be sent to the topic {topic}: {why}")


def _why(code: int, who: str) -> str:
    match code:
        case Code.UNKNOWN_TOPIC_OR_PARTITION:
            return f"it is not there, or {who} may not see it: create it"
        case Code.TOPIC_AUTHORIZATION_FAILED:
            return f"{who} may not WRITE it: allow it by an ACL"
        case Code.INVALID_TOPIC_EXCEPTION:
            return "no topic may have this name: correct it in the program"
        case Code.MESSAGE_TOO_LARGE | Code.RECORD_LIST_TOO_LARGE:
            return "one of them is larger than it takes: raise its max.message.bytes, or send less in one"
        case Code.NOT_ENOUGH_REPLICAS | Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
            return "fewer of its replicas are in sync than its min.insync.replicas: see whether all brokers run"
        case Code.LEADER_NOT_AVAILABLE | Code.NOT_LEADER_OR_FOLLOWER:
            return "one of its partitions has no leader: see whether all brokers run"
        case _:
            return f"the brokers answer {said(code)}"
