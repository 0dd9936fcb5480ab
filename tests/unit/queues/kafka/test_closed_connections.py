"""`close` closes the connections, without waiting for garbage collection."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Protocol

import pytest

from baton.model.ids import Epoch, Partition, QueueName, Uid
from baton.queues.kafka import client
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.announcements import KafkaAnnouncements
from baton.queues.kafka.ranges import KafkaRanges
from baton.queues.kafka.reader import KafkaReader
from baton.queues.kafka.record import Record, Token
from tests.kafka_pod import shared

ADDRESS = KafkaAddress(("127.0.0.1:1",))
ORDERS = QueueName("orders")
OWNED = Record(group="uid", queue="orders", uid=Uid("a"), epoch=Epoch(1), topic_id="t", token=Token(1, 1), first=9)


class Closes(Protocol):
    def close(self) -> None: ...


class Connection:
    """A connection to a broker with a group that has one partition of the queue."""

    def __init__(self) -> None:
        self.closed = False
        self.cluster = SimpleNamespace(brokers=lambda: [SimpleNamespace(nodeId=1)], broker_metadata=lambda node: node)

    async def send(self, *_: object, **__: object) -> Any:
        topics: list[Any] = [("orders", [(0, 5, 0, OWNED.to_text(), 0, {})], {})]
        return SimpleNamespace(error_code=0, coordinator_id=1, topics=topics)

    async def close(self) -> None:
        self.closed = True


def reader() -> Closes:
    made = KafkaReader(ADDRESS, "shop.orders", ORDERS, Uid("a"), *shared(ADDRESS, "shop.orders"))
    assert made._loop.run(made._offsets.found()).topic == "orders"
    return made


def ranges() -> Closes:
    made = KafkaRanges("kafka://127.0.0.1:1", "shop/orders", "shop/orders")
    made._open()
    return made


def announcements() -> Closes:
    made = KafkaAnnouncements(ADDRESS, "shop.orders", Uid("a"), *shared(ADDRESS, "shop.orders"))
    made.wait(0.0)
    made._topics[ORDERS] = "orders"
    assert made.look([Partition(ORDERS, 0)])
    return made


@pytest.mark.parametrize(("connected", "many"), [(reader, 1), (ranges, 1), (announcements, 2)])
def test_close_closes_the_connections(connected: Callable[[], Closes], many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Connection] = []

    async def connect(*_: object) -> Connection:
        made.append(Connection())
        return made[-1]

    monkeypatch.setattr(client, "connected", connect)
    connected().close()
    assert [one.closed for one in made] == [True] * many
