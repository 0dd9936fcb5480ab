"""The measured topics: each run reads one from its beginning, in a new group."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import count

from confluent_kafka import Producer

from baton.model.ids import Epoch, Uid
from baton.queues.kafka.adapter import KafkaQueue, TopicToOpen
from baton.queues.kafka.address import KafkaAddress
from baton.queues.protocol import Claimant
from tests.bench.spark.streams import GROUP
from tests.kafka_broker import ORDERED, KafkaBroker
from tests.waiting import PATIENCE

_VALUE = b"." * 100
_BATCHED = {"linger.ms": 20, "queue.buffering.max.messages": 500_000}


class Topics:
    """Topics of one broker; a queue has the name of its topic."""

    def __init__(self, broker: KafkaBroker) -> None:
        self.servers = broker.servers
        self._broker = broker
        self._groups = count()
        self._group = ""

    @property
    def url(self) -> str:
        """The URL, with the group of the run."""
        return f"kafka://{self.servers}/?group={self._group}"

    def filled(self, partitions: int, rows: int) -> str:
        """Create a topic with this many rows, evenly distributed. Returns its name."""
        name = f"filled-{partitions}"
        self._broker.make_topic(name, partitions)
        producer = Producer({**ORDERED, **_BATCHED, "bootstrap.servers": self.servers})
        for number in range(rows):
            producer.produce(name, _VALUE, b"key-%d" % (number % 1000), number % partitions)
            if number % 10_000 == 0:
                producer.flush(PATIENCE)
        assert producer.flush(PATIENCE) == 0
        return name

    def begin(self) -> None:
        """A run, in a group that has committed nothing."""
        self._group = f"bench.{next(self._groups)}"

    def grant(self, name: str, numbers: Sequence[int], uid: Uid) -> None:
        async def grant(queue: KafkaQueue) -> None:
            await asyncio.gather(*(queue.grant(number, uid, Epoch(1)) for number in numbers))

        asyncio.run(self._operate(name, grant))

    async def _operate(self, name: str, what: Callable[[KafkaQueue], Awaitable[object]]) -> None:
        queue = KafkaQueue(
            KafkaAddress((self.servers,)), self._group, TopicToOpen(topic=name, queue=name), Claimant(GROUP, "uid-of-the-group")
        )
        try:
            await queue.ensure(None)
            await what(queue)
        finally:
            await queue.close()
