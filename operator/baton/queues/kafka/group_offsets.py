"""A group's offsets and the records beside them, for the threads of a consumer."""

from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.client import KafkaClient
from baton.queues.kafka.event_loop import EventLoopThread
from baton.queues.kafka.record import Committed, Record
from baton.queues.kafka.transaction import PartitionTransactions, committed
from baton.queues.protocol import QueueUnreachable

_WITHIN = 8.0
"""Seconds for a question, with what it takes to connect."""


class GroupOffsets:
    """Of one queue. Methods raise QueueUnreachable."""

    def __init__(self, address: KafkaAddress, group: str, queue: str) -> None:
        """`group`: the id in Kafka."""
        self._address = address
        self._group = group
        self._queue = queue
        self._loop = EventLoopThread("baton-kafka-commits")
        self._transactions: PartitionTransactions | None = None

    @property
    def topic(self) -> str:
        """The queue's: by the records of the group, where each names its queue."""
        return self._found().topic

    def committed(self, partitions: tuple[int, ...]) -> dict[int, Committed]:
        """What is committed of each, and not about to change."""
        return self._loop.run(self._found().committed(partitions), _WITHIN)

    def commit(self, partition: int, offset: int, record: Record, within: float | None = None) -> None:
        """Raises StaleToken where another token than the record's is in force."""
        self._loop.run(self._found().commit(partition, offset, record), within or _WITHIN)

    def close(self) -> None:
        self._loop.close()

    def _found(self) -> PartitionTransactions:
        if self._transactions is None:
            self._transactions = self._loop.run(self._find(), _WITHIN)
        return self._transactions

    async def _find(self) -> PartitionTransactions:
        client = KafkaClient(self._address, self._group, "baton")
        records = [(topic, one.record) for (topic, _), one in (await committed(client)).items() if one.record is not None]
        ours = [(record.epoch, topic) for topic, record in records if record.queue == self._queue and record.group]
        if not ours:
            await client.close()
            raise QueueUnreachable(
                f"{self._address.place} has no group {self._group} with the queue {self._queue}: write the group's id into the "
                "address (?group=…) where spec.source.kafka.groupId gives another, or wait until the operator has granted it"
            )
        return PartitionTransactions(client, max(ours)[1])
