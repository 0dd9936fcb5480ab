"""Keyed, numbered messages for a queue, at a steady rate."""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self

from confluent_kafka import Producer

from baton.queues.redis import RedisProducer
from tests.kafka_broker import ORDERED
from tests.waiting import PATIENCE

KEYS = 120
EVERY = 0.1


class Sender(Protocol):
    """Sends keys with values, and returns when the queue has all of them, those of each key in this order."""

    def send_many(self, messages: Sequence[tuple[str, str]], /) -> object: ...

    def close(self) -> None: ...


class TopicSender:
    """For a topic of Kafka. `servers`: of a broker."""

    def __init__(self, servers: str, topic: str) -> None:
        self._producer, self._topic = Producer({"bootstrap.servers": servers, **ORDERED}), topic

    def send_many(self, messages: Sequence[tuple[str, str]]) -> None:
        for key, value in messages:
            self._producer.produce(self._topic, value, key)
        left = self._producer.flush(PATIENCE)
        if left:
            raise TimeoutError(f"{left} messages are not in topic {self._topic}")

    def close(self) -> None:
        pass


class Load:
    """`with Load(url, queue) as load:` sends until the end of the block, from a thread."""

    def __init__(self, url: str, queue: str, rate: int = 150, every: float = EVERY, sender: Sender | None = None) -> None:
        """`queue` is namespace/name, in the Redis at `url`; `rate` in messages per second, of which some are sent every so many
        seconds. `sender`: for a queue elsewhere."""
        self._producer: Sender = sender or RedisProducer(url, queue, patience=PATIENCE)
        self._per_turn = max(1, round(rate * every))
        self._every = every
        self._sent: Counter[str] = Counter()
        self._flows = threading.Event()
        self._flows.set()
        self._sending = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")

    @property
    def produced(self) -> Mapping[str, int]:
        """Key -> its last sequence; the first is 1. Changes while it sends."""
        return self._sent

    @property
    def total(self) -> int:
        return self._sent.total()

    def pause(self) -> None:
        """When this returns, all that was sent is in the queue and nothing more is sent until `resume`."""
        self._flows.clear()
        with self._sending:
            pass

    def resume(self) -> None:
        self._flows.set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._flows.set()
        self._thread.join()
        self._producer.close()

    def _run(self) -> None:
        while not self._over.wait(self._every):
            self._flows.wait()
            with self._sending:
                if self._flows.is_set() and not self._over.is_set():
                    self._send()

    def _send(self) -> None:
        begin = self._sent.total()
        batch = []
        for number in range(begin, begin + self._per_turn):
            key = f"key-{number % KEYS}"
            self._sent[key] += 1
            batch.append((key, str(self._sent[key])))
        self._producer.send_many(batch)
