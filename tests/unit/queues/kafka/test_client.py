"""What concerns one partition's transactional id is that partition's trouble, and not the cluster's."""

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.client import CoordinationType
from aiokafka.protocol.coordination import FindCoordinatorRequest

from baton.queues.kafka import client
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.answers import Code
from baton.queues.kafka.client import BrokerLost, KafkaClient
from baton.queues.kafka.transaction import PartitionTransactions
from baton.queues.protocol import PartitionUnavailable, QueueUnreachable


class Cluster(KafkaClient):
    """Has no coordinator for one kind of key, or loses the broker that is asked."""

    def __init__(self, without: int | None = None) -> None:
        super().__init__(KafkaAddress(("nowhere:9092",)), "shop.orders", "baton")
        self.without = without

    async def to_anybody(self, request: Any) -> Any:
        assert isinstance(request, FindCoordinatorRequest)
        code = Code.COORDINATOR_NOT_AVAILABLE if request._coordinator_type == self.without else Code.NONE
        return SimpleNamespace(error_code=code, coordinator_id=1)

    async def _send(self, node: int, request: Any, lane: int = 0) -> Any:
        raise BrokerLost("its broker 1 does not answer")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PASSES_WITHIN", 0.0)


@pytest.mark.parametrize("without", [CoordinationType.TRANSACTION, None])
async def test_a_transactional_id_that_nobody_looks_after_is_one_partitions_trouble(without: int | None) -> None:
    with pytest.raises(PartitionUnavailable):
        await PartitionTransactions(Cluster(without), "orders").init(0)


@pytest.mark.parametrize("without", [CoordinationType.GROUP, None])
async def test_a_group_that_nobody_looks_after_is_the_queues(without: int | None) -> None:
    with pytest.raises(QueueUnreachable) as problem:
        await PartitionTransactions(Cluster(without), "orders").now((0,))
    assert not isinstance(problem.value, PartitionUnavailable)
