"""A broker that clients with a password reach by a link, which can be told to be slow."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.kafka_broker import KafkaBroker
from tests.network import Link, Network


@contextmanager
def slowed_broker() -> Iterator[tuple[KafkaBroker, Link]]:
    """They may do everything. Who comes without a password comes to the broker itself."""
    broker = KafkaBroker({"super.users": "User:ANONYMOUS;User:operator;User:pod"})
    with Network() as network:
        link = network.link("127.0.0.1", broker.sasl_port)
        broker.tell_sasl_port(link.port)
        with broker:
            yield broker, link
