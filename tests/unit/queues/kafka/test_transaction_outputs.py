"""What is sent in transactions finds its way where a broker is lost."""

from types import SimpleNamespace
from typing import Any

from aiokafka.protocol.produce import ProduceRequest

from baton.queues.kafka import outputs
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.answers import Code
from baton.queues.kafka.client import BrokerLost, KafkaClient
from baton.queues.kafka.outputs import TransactionOutputs
from baton.queues.kafka.record import Token
from baton.queues.output import Output


class Brokers(KafkaClient):
    """The first one has ended, and the second leads since."""

    def __init__(self) -> None:
        super().__init__(KafkaAddress(("nowhere:9092",)), "shop.orders", "baton")
        self.described = 0
        self.asked: list[int] = []

    async def topic(self, *_: object) -> Any:
        self.described += 1
        return SimpleNamespace(partitions=1, leaders={0: self.described})

    async def to_transactions(self, transactional_id: str, request: Any) -> Any:
        return SimpleNamespace(errors=[("paid", [(0, Code.NONE)])])

    async def to_broker(self, node: int, request: Any) -> Any:
        assert isinstance(request, ProduceRequest)
        self.asked.append(node)
        if node == 1:
            raise BrokerLost("its broker 1 does not answer")
        return SimpleNamespace(topics=[("paid", [(0, Code.NONE)])])


async def test_where_a_leader_is_lost_the_next_one_is_asked_for(monkeypatch: Any) -> None:
    brokers = Brokers()
    monkeypatch.setattr(outputs, "describe", brokers.topic)
    await TransactionOutputs(brokers).send("baton.g/orders/0", Token(1, 0), 0, [Output("paid", b"1")])
    assert brokers.asked == [1, 2]
