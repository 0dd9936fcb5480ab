"""Producers: `RedisProducer`, `AsyncRedisProducer` and `KafkaProducer`, and a function that selects one by the environment.

```python
from baton.producers import producer_from_environment

with producer_from_environment("shop/orders") as producer:
    producer.send("customer-17", b"shipped")
```
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from baton.model.extras import extra
from baton.queues.consumer_side import addressed
from baton.queues.kind import load
from baton.queues.producer_side import Delivery, Headers, Producer, Sent
from baton.queues.protocol import QueueUnreachable

if TYPE_CHECKING:
    from baton.queues.kafka.producer import KafkaDelivery, KafkaProducer
    from baton.queues.redis import AsyncPendingSend, AsyncRedisProducer, PendingSend, RedisProducer

__all__ = [
    "AsyncPendingSend",
    "AsyncRedisProducer",
    "Delivery",
    "Headers",
    "KafkaDelivery",
    "KafkaProducer",
    "PendingSend",
    "Producer",
    "QueueUnreachable",
    "RedisProducer",
    "Sent",
    "producer_from_environment",
]

_REDIS, _KAFKA = ("redis", "baton.queues.redis"), ("kafka", "baton.queues.kafka.producer")
_WHERE = {
    **dict.fromkeys(("AsyncPendingSend", "AsyncRedisProducer", "PendingSend", "RedisProducer"), _REDIS),
    **dict.fromkeys(("KafkaDelivery", "KafkaProducer"), _KAFKA),
}


def producer_from_environment(queue: str, *, patience: float = 30.0, linger: float = 0.005) -> Producer:
    """Return the producer for BATON_REDIS_URL or BATON_KAFKA_URL, so that a program changes its queue by changing the URL.

    ```python
    with producer_from_environment("shop/orders", patience=10) as producer:
        producer.send("customer-17", b"shipped")
    ```

    Args:
        queue: namespace/name on Redis, the topic on Kafka.
        patience: Seconds for which sending an entry is retried.
        linger: Seconds that an entry given to `produce` waits for others.

    Raises:
        ValueError: If the environment has no address, or several.
        QueueUnreachable: If the address is invalid.
    """
    kind, address = addressed(os.environ)
    if kind.producer is None:
        raise ValueError(f"{kind.variable} is set, but Baton has no producer for {kind.name}: send with a client of that queue")
    with extra(kind.name.lower()):
        make = load(kind.producer)
    made: Producer = make(address, queue, patience=patience, linger=linger)
    return made


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    needs, module = _WHERE[name]
    with extra(needs):
        found = globals()[name] = getattr(import_module(module), name)
    return found
