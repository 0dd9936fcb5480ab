"""What a reset says that ends in the middle."""

from types import SimpleNamespace
from typing import Any

import pytest

from baton.cli.cluster import NoAnswerError
from baton.cli.offsets import OffsetChange, _set
from baton.model.ids import Epoch, Partition, QueueName
from baton.queues.offsets import PartitionOffsets, Reached
from baton.queues.protocol import QueueConflict, QueueUnreachable


class EndsInTheMiddle:
    """At partition 1."""

    def __init__(self, problem: Exception) -> None:
        self._problem = problem
        self.put: dict[int, tuple[Epoch, int]] = {}

    async def set_offset(self, partition: int, epoch: Epoch, offset: int) -> None:
        if partition == 1:
            raise self._problem
        self.put[partition] = (epoch, offset)


@pytest.mark.parametrize("problem", [QueueConflict("orders/1 was granted"), QueueUnreachable("redis.shop:6379 does not answer")])
async def test_a_reset_that_ends_in_the_middle_says_how_many_partitions_are_set(problem: Exception) -> None:
    partitions = [Partition(QueueName("orders"), number) for number in range(3)]
    now = PartitionOffsets(10, 10, 20, 10, 0)
    changes = [OffsetChange(partition, now, Reached(20, 10)) for partition in partitions]
    seen: Any = SimpleNamespace(state=SimpleNamespace(records={one: SimpleNamespace(epoch=Epoch(7)) for one in partitions}))
    adapter: Any = EndsInTheMiddle(problem)
    with pytest.raises(NoAnswerError, match=f"^{problem}; 1 partition is set$"):
        await _set(adapter, seen, changes)
    assert adapter.put == {0: (7, 20)}
