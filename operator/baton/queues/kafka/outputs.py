"""Messages sent in an owner's transactions; readers of committed messages see them once the transaction has ended."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import KafkaError as Code

from baton.queues.kafka.client import (
    PASSES_WITHIN,
    PASSING,
    STALE,
    AddPartitionsToTxnRequest,
    BrokerLost,
    DefaultRecordBatchBuilder,
    KafkaClient,
    ProduceRequest,
    StaleToken,
    murmur2,
)
from baton.queues.kafka.record import Token
from baton.queues.kafka.topic import Topic, describe
from baton.queues.output import MOST_IN_TRANSACTION, Output
from baton.queues.protocol import PartitionUnavailable, QueueUnreachable

# -- Outputs of entries that are not committed yet. Pure.


class _Together(NamedTuple):
    """The outputs of entries that are finished together."""

    last: int
    """The offset of the last of these entries."""
    outputs: Sequence[Output]
    weight: int


class PendingOutputs:
    """The outputs of one partition's entries. One thread adds, and another may read."""

    def __init__(self) -> None:
        self._by_first: dict[int, _Together] = {}
        self._several: dict[int, int] = {}
        """The first and the last offset of several entries that are finished together."""
        self.weight = 0
        """Total `Output.weight`."""

    def __len__(self) -> int:
        return len(self._by_first)

    def add(self, offsets: Sequence[int], outputs: Sequence[Output]) -> None:
        """Add the outputs of entries at these offsets, in order, before the entries are finished."""
        weight = sum(output.weight for output in outputs)
        self._by_first[offsets[0]] = _Together(offsets[-1], tuple(outputs), weight)
        if len(offsets) > 1:
            self._several[offsets[0]] = offsets[-1]
        self.weight += weight

    def reached(self, offset: int) -> int:
        """Return up to where a commit may go if all before `offset` is finished: not between entries that are finished together,
        and not over more outputs than one transaction may have."""
        offset = self.whole(offset)
        if self.weight <= MOST_IN_TRANSACTION:
            return offset
        reached, weight = None, 0
        for together in sorted((one for _, one in self._before(offset)), key=lambda one: one.last):
            weight += together.weight
            if weight > MOST_IN_TRANSACTION and reached is not None:
                return reached
            if self.whole(together.last + 1) == together.last + 1:
                reached = together.last + 1
        return offset

    def whole(self, offset: int) -> int:
        """Return the last offset up to there that is not between entries that are finished together."""
        cut = True
        while cut:
            cut = False
            for first, last in list(self._several.items()):
                if first < offset <= last:
                    offset, cut = first, True
        return offset

    def due(self, offset: int) -> list[Output]:
        """Return the outputs that belong to a commit of this offset, in the order in which their entries were finished."""
        return [output for _, together in self._before(offset) for output in together.outputs]

    def committed(self, offset: int) -> None:
        """Drop the outputs that were committed with this offset."""
        for first, together in self._before(offset):
            self.weight -= together.weight
            del self._by_first[first]
            self._several.pop(first, None)

    def _before(self, offset: int) -> Iterable[tuple[int, _Together]]:
        return [(first, together) for first, together in list(self._by_first.items()) if together.last < offset]


# -- Batches of records for brokers. Pure.

MOST_BYTES = 900_000
"""Bytes of a batch with several outputs: brokers accept a megabyte by default."""
_MAGIC = 2
_UNCOMPRESSED = 0
_SEQUENCES = 2**31


def partition_of(output: Output, partitions: int, source: int) -> int:
    """Return the partition that an output goes to; `source` is the partition of its entry."""
    if output.partition is not None:
        return output.partition
    if output.key is None:
        return source % partitions
    return int((murmur2(output.key) & 0x7FFFFFFF) % partitions)


def shared_out(
    outputs: Iterable[Output], partitions: Mapping[str, int], source: int
) -> dict[tuple[str, int], list[Sequence[Output]]]:
    """Return batches by topic and partition, in the order in which to send them. `partitions`: each topic's number of
    partitions."""
    found: defaultdict[tuple[str, int], list[list[Output]]] = defaultdict(list)
    sizes: dict[tuple[str, int], int] = {}
    for output in outputs:
        place = (output.topic, partition_of(output, partitions[output.topic], source))
        size = output.size + _OVERHEAD + _OVERHEAD * len(output.headers)
        if not found[place] or sizes[place] + size > MOST_BYTES:
            found[place].append([])
            sizes[place] = 0
        found[place][-1].append(output)
        sizes[place] += size
    return {place: list(batches) for place, batches in found.items()}


_OVERHEAD = 30
"""Most bytes that a record, or a header, takes beside its content."""


def encoded(outputs: Sequence[Output], token: Token, sequence: int) -> bytes:
    """Return one batch of a transaction under this token; `sequence` is the number of its first record in this partition."""
    builder: Any = DefaultRecordBatchBuilder(
        magic=_MAGIC,
        compression_type=_UNCOMPRESSED,
        is_transactional=1,
        producer_id=token.producer,
        producer_epoch=token.epoch,
        base_sequence=sequence % _SEQUENCES,
        batch_size=2**31 - 1,
    )
    for number, output in enumerate(outputs):
        builder.append(number, None, output.key, output.value, list(output.headers.items()))
    return bytes(builder.build())


_ALL_REPLICAS = -1
_TAKES_WITHIN = 3000
"""Milliseconds for the replicas."""
_KNOWN_FOR = 60.0
"""Seconds for which a topic's number of partitions is remembered."""
_PAUSE = 0.02
_TAKEN = frozenset({Code.NO_ERROR, Code.DUPLICATE_SEQUENCE_NUMBER})
_OVER_IN_A_MOMENT = PASSING | {
    Code.REQUEST_TIMED_OUT,
    Code.NOT_ENOUGH_REPLICAS,
    Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
}
_Place = tuple[str, int]


class TransactionOutputs:
    """For use in one event loop. After an error, give the transaction and its token up: some outputs may have been sent."""

    def __init__(self, client: KafkaClient) -> None:
        self._client = client
        self._topics: dict[str, tuple[float, Topic]] = {}
        """Each topic, and when it was described (monotonic)."""
        self._sent: dict[str, tuple[Token, defaultdict[_Place, int]]] = {}
        """The latest token of each transactional id, and how many records each partition got under it."""

    async def send(self, transactional_id: str, token: Token, source: int, outputs: Sequence[Output]) -> None:
        """Returns when the brokers have all outputs. `source`: the partition of their entries. Raises StaleToken and
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
        """Add these partitions to the transaction."""
        by_topic: defaultdict[str, list[int]] = defaultdict(list)
        for name, number in places:
            by_topic[name].append(number)

        request = AddPartitionsToTxnRequest(transactional_id, *token, list(by_topic.items()))

        def code_of(answer: Any) -> int:
            codes = {(name, int(code)) for name, those in answer.errors for _, code in those}
            for name, code in sorted(codes):
                if code in (Code.UNKNOWN_TOPIC_OR_PART, Code.TOPIC_AUTHORIZATION_FAILED):
                    raise self._cannot(name, code)
            left = [code for _, code in codes if code not in (Code.NO_ERROR, Code.OPERATION_NOT_ATTEMPTED)]
            return left[0] if left else Code.NO_ERROR

        ask = partial(self._client.to_transactions, transactional_id, request)
        await self._client.until_taken("AddPartitionsToTxn", ask, places[0][0], transactional_id, code_of)

    async def _produce(self, transactional_id: str, token: Token, batches: dict[_Place, Sequence[Output]]) -> None:
        """Send one batch for each partition. A batch that a leader does not take just now is sent again; its sequence number
        prevents duplicates."""
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
            except BrokerLost:  # the partition gets another leader
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
        case Code.UNKNOWN_TOPIC_OR_PART:
            return f"it is not there, or {who} may not see it: create it"
        case Code.TOPIC_AUTHORIZATION_FAILED:
            return f"{who} may not WRITE it: allow it by an ACL"
        case Code.TOPIC_EXCEPTION:
            return "no topic may have this name: correct it in the program"
        case Code.MSG_SIZE_TOO_LARGE | Code.RECORD_LIST_TOO_LARGE:
            return "one of them is larger than it takes: raise its max.message.bytes, or send less in one"
        case Code.NOT_ENOUGH_REPLICAS | Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
            return "fewer of its replicas are in sync than its min.insync.replicas: check whether all brokers run"
        case Code.LEADER_NOT_AVAILABLE | Code.NOT_LEADER_FOR_PARTITION:
            return "one of its partitions has no leader: check whether all brokers run"
        case _:
            return f"the brokers answer {Code(code).name()}"
