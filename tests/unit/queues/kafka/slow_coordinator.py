"""A coordinator of a large topic, without a broker, in which only answers take time."""

import asyncio
from collections.abc import Callable

from baton.model.ids import Epoch, Uid
from baton.queues.kafka.event_loop import AT_ONCE
from baton.queues.kafka.record import Committed, Record, Token

PARTITIONS = 4 * AT_ONCE
OWNED = Record(group="uid", queue="orders", uid=Uid("a"), epoch=Epoch(1), topic_id="t", token=Token(1, 1), first=PARTITIONS)


class SlowCoordinator:
    """Has the records of all partitions, and answers one request after the other, each in a hundredth of a second. Stands in for
    the client and for its `PartitionTransactions`."""

    def __init__(self) -> None:
        self.records = dict.fromkeys(range(PARTITIONS), Committed(5, OWNED))
        self.under_way = self.most = 0
        self.now = 0.0
        self._one = asyncio.Lock()

    async def committed(self, partitions: tuple[int, ...]) -> dict[int, Committed]:
        return {number: self.records[number] for number in partitions}

    async def renewed(self, partition: int, change: Callable[[Committed], Record | None]) -> Committed:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        for _ in range(4):
            async with self._one:
                await asyncio.sleep(0)
                self.now += 0.01
        self.records[partition] = self.records[partition]._replace(record=change(self.records[partition]))
        self.under_way -= 1
        return self.records[partition]

    def count(self, of: Callable[[Record], bool]) -> int:
        """Count the records for which this holds."""
        return sum(one.record is not None and of(one.record) for one in self.records.values())
