"""A group's offsets, and the records beside them, as a consumer reads and commits them."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from baton.model.ids import Epoch, Uid
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.client import ASKED_WITHIN, PASSES_WITHIN, KafkaClient, StaleToken
from baton.queues.kafka.event_loop import each, in_time
from baton.queues.kafka.fence import PartitionTransactions, committed
from baton.queues.kafka.record import Committed, Record, Token, names
from baton.queues.kafka.topic import LogEnd, both_ends, describe, lag, offsets, without_leader
from baton.queues.output import Output
from baton.queues.protocol import PartitionUnavailable, QueueUnreachable

_GRANTED_WITHIN = 2.0
"""Seconds until a grant that the pod has heard of is visible in the group."""
_PAUSE = 0.02
AT_ONCE = 16
"""Partitions committed at the same time: of very many, the first are done before a slow broker's time is over."""
_BEGUN_IN = 0.7
"""Each commit begins within this part of the total time, and has the rest to end."""


class Commit(NamedTuple):
    """A commit of one partition."""

    offset: int
    record: Record
    outputs: Sequence[Output] = ()
    """Outputs of entries before the offset."""
    seen: Committed | None = None
    """The commit that this one follows, if another process has written it (`PartitionTransactions.end`)."""


class GroupOffsets:
    """The offsets of one queue. For use in one event loop. Methods raise QueueUnreachable."""

    def __init__(self, address: KafkaAddress, group: str, queue: str) -> None:
        """`group`: the group id in Kafka."""
        self._queue = queue
        self._client = KafkaClient(address, group, "baton")
        self._transactions: PartitionTransactions | None = None

    @property
    def place(self) -> str:
        return self._client.address.place

    @property
    def topic(self) -> str:
        """The queue's topic, after the first call of `found`."""
        assert self._transactions is not None
        return self._transactions.topic

    async def found(self) -> PartitionTransactions:
        """Find the queue's topic by the group's records, which name their queues, and return its transactions."""
        if self._transactions is None:
            topic = await in_time(topic_of(self._client, self._queue), ASKED_WITHIN)
            self._transactions = PartitionTransactions(self._client, topic)
        return self._transactions

    async def found_elsewhere(self, partition: int, uid: Uid, epoch: Epoch) -> bool:
        """Look for this owner's record in the group's other topics. True: the queue's PartitionedQueue was replaced by one with
        another topic; the records there count from now on."""
        before = await self.found()
        found = await in_time(_topics_now(self._client, self._queue), ASKED_WITHIN)
        topic = next((topic for topic, records in found.items() if names(records.get(partition), uid, epoch)), None)
        if topic is None or topic == before.topic:
            return False
        self._transactions = PartitionTransactions(self._client, topic)
        return True

    async def now(
        self, partitions: tuple[int, ...], within: float = ASKED_WITHIN
    ) -> tuple[dict[int, Committed], tuple[int, ...]]:
        """Return what is committed, and the partitions with a commit under way, which are left out."""
        return await in_time((await self.found()).now(partitions), within)

    async def stable(self, partition: int, within: float = PASSES_WITHIN) -> Committed:
        """Return what is committed, after waiting for a commit under way. Raises PartitionUnavailable if that does not end in so
        many seconds, or longer at a slow broker; 0: do not wait."""
        return await in_time((await self.found()).stable(partition, within), ASKED_WITHIN)

    async def after_refusal(self, partition: int, refused: Token, within: float | None = None) -> tuple[Committed, bool]:
        limit = ASKED_WITHIN if within is None else within
        return await in_time((await self.found()).after_refusal(partition, refused), limit)

    async def commit_several(
        self, wanted: Mapping[int, Commit], within: float | None = None
    ) -> Mapping[int, StaleToken | QueueUnreachable]:
        """Commit these. Return those that were refused, and why."""
        if not wanted:
            return {}
        limit, transactions = ASKED_WITHIN if within is None else within, await self.found()

        async def commit(number: int) -> StaleToken | QueueUnreachable | None:
            try:
                await transactions.commit(number, *wanted[number])
            except (StaleToken, QueueUnreachable) as problem:
                return problem
            return None

        found = await in_time(each(commit, wanted, _BEGUN_IN * limit, at_once=AT_ONCE), limit)
        late = PartitionUnavailable(f"{self.place} did not get to it in time: check whether it is overloaded")
        return {number: problem for number in wanted if (problem := found.get(number, late)) is not None}

    async def renewed(
        self, partition: int, change: Callable[[Committed], Record | None], within: float | None = None
    ) -> Committed:
        """Take a new token and write it with the record that `change` returns. Raises StaleToken if another process has taken a
        token since."""
        limit = ASKED_WITHIN if within is None else within
        return await in_time((await self.found()).renewed(partition, change), limit)

    async def end_of_log(self, partition: int) -> int:
        """Return where the partition's log ends, as readers of committed messages see it."""
        topic = await describe(self._client, (await self.found()).topic)
        ends = await offsets(self._client, topic, {partition: LogEnd.END})
        if partition not in ends:
            raise without_leader(self._client, topic.name, partition)
        return ends[partition]

    def begin_with(self, topic: str) -> bool:
        """Set the queue's topic if it is not known. False: the queue is read from another topic."""
        if self._transactions is None:
            self._transactions = PartitionTransactions(self._client, topic)
        return self._transactions.topic == topic

    async def lag(self, partitions: tuple[int, ...]) -> int:
        """Return how many entries of these partitions are not committed. Unknown before something was read, and while a partition
        has no leader."""
        if self._transactions is None:
            raise QueueUnreachable(f"{self.place}: nothing was read yet of the queue {self._queue}")
        topic = await describe(self._client, self._transactions.topic)
        seen, (begins, ends) = await asyncio.gather(
            self._transactions.all_stable(partitions), both_ends(self._client, topic, partitions)
        )
        if missing := [number for number in partitions if number not in begins or number not in ends]:
            raise without_leader(self._client, topic.name, missing[0])
        return sum(lag(seen, begins, ends).values())

    async def close(self) -> None:
        await self._client.close()


async def topic_of(client: KafkaClient, queue: str) -> str:
    """Return the topic of a queue of the client's group, found by the group's records, which name their queues. Raises
    QueueUnreachable, after closing the client."""
    until = time.monotonic() + _GRANTED_WITHIN
    while True:
        if (topic := await topic_now(client, queue)) is not None:
            return topic
        if time.monotonic() >= until:
            break
        await asyncio.sleep(_PAUSE)  # Kafka does not show a first commit that is under way
    await client.close()
    raise QueueUnreachable(
        f"{client.address.place} has no group {client.group} with the queue {queue}: write the group's id into the "
        "address (?group=…) where spec.source.kafka.groupId gives another, or wait until the operator has granted it"
    )


async def topic_now(client: KafkaClient, queue: str) -> str | None:
    """As `topic_of`, asked once; None: none yet, or none any more. A queue has one topic. In any other topic its records come
    from a foreign writer, and are few; an owner looks for its own record in all topics (`found_elsewhere`)."""
    found = await _topics_now(client, queue)
    return max(found, key=lambda topic: (len(found[topic]), max(one.epoch for one in found[topic].values())), default=None)


async def _topics_now(client: KafkaClient, queue: str) -> dict[str, dict[int, Record]]:
    """Return this queue's records that were not given up, by topic and partition. While a commit is under way, the record before
    it counts: the process that began it may have ended."""
    found: dict[str, dict[int, Record]] = {}
    for (topic, number), one in (await committed(client, beside_pending=True))[0].items():
        if one.record is not None and one.record.queue == queue and one.record.group:
            found.setdefault(topic, {})[number] = one.record
    return found
