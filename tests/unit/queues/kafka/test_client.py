"""Errors about one partition's transactional id affect that partition only; requests share a connection."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.client import CoordinationType
from aiokafka.protocol.coordination import FindCoordinatorRequest
from confluent_kafka import KafkaError as Code

from baton.queues.kafka import client
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.client import BrokerLost, KafkaClient
from baton.queues.kafka.fence import PartitionTransactions
from baton.queues.protocol import PartitionUnavailable, QueueUnreachable


class Cluster(KafkaClient):
    """Has no coordinator for one kind of key, or loses the broker that is asked."""

    def __init__(self, without: int | None = None) -> None:
        super().__init__(KafkaAddress(("nowhere:9092",)), "shop.orders", "baton")
        self.without = without

    async def to_any(self, request: Any) -> Any:
        assert isinstance(request, FindCoordinatorRequest)
        code = Code.COORDINATOR_NOT_AVAILABLE if request._coordinator_type == self.without else Code.NO_ERROR
        return SimpleNamespace(error_code=code, coordinator_id=1)

    async def to_broker(self, node: int, request: Any, lane: int = 0) -> Any:
        raise BrokerLost("its broker 1 does not answer")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PASSES_WITHIN", 0.0)


@pytest.mark.parametrize("without", [CoordinationType.TRANSACTION, None])
async def test_a_transactional_id_without_a_coordinator_affects_one_partition(without: int | None) -> None:
    with pytest.raises(PartitionUnavailable):
        await PartitionTransactions(Cluster(without), "orders").init(0)


@pytest.mark.parametrize("without", [CoordinationType.GROUP, None])
async def test_a_group_without_a_coordinator_affects_the_whole_queue(without: int | None) -> None:
    with pytest.raises(QueueUnreachable) as problem:
        await PartitionTransactions(Cluster(without), "orders").now((0,))
    assert not isinstance(problem.value, PartitionUnavailable)


class Broker:
    """Answers the requests of a connection one after the other; the time for an answer counts from when it was sent."""

    def __init__(self, takes: float, within: float) -> None:
        self.takes, self.within = takes, within
        self.cluster = SimpleNamespace(brokers=list, broker_metadata=lambda node: node)
        self.sent = 0
        self._one_by_one = asyncio.Lock()

    async def send(self, node: int, request: object, group: int) -> object:
        self.sent += 1

        async def answered() -> object:
            async with self._one_by_one:
                await asyncio.sleep(self.takes)
            return request

        return await asyncio.wait_for(answered(), self.within)

    async def close(self) -> None:
        pass


def asking(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> KafkaClient:
    async def connected(*_: object) -> Broker:
        return broker

    monkeypatch.setattr(client, "connected", connected)
    return KafkaClient(KafkaAddress(("nowhere:9092",)), "shop.orders", "baton")


async def test_many_requests_on_one_connection_do_not_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    asks = asking(Broker(takes=0.02, within=1.0), monkeypatch)
    assert await asyncio.gather(*(asks.to_broker(1, number) for number in range(100))) == list(range(100))


async def test_requests_behind_an_unanswered_one_fail_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asks = asking(broker := Broker(takes=60.0, within=0.02), monkeypatch)
    answers = await asyncio.gather(*(asks.to_broker(1, number) for number in range(40)), return_exceptions=True)
    assert {type(answer) for answer in answers} == {QueueUnreachable} and broker.sent == 2
    with pytest.raises(QueueUnreachable):
        await asks.to_broker(1, 40)
    assert broker.sent == 3, "it is asked again"
