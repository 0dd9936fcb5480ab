"""The client that reads: librdkafka's, which never joins the group, nor commits."""

from typing import Any

from confluent_kafka import Consumer, KafkaException

from baton.queues.kafka.address import KafkaAddress
from baton.queues.protocol import QueueUnreachable


def fetching_client(address: KafkaAddress, group: str, **more: object) -> Consumer:
    """`more`: settings beside the address's. Raises QueueUnreachable where one is none of librdkafka's, or cannot be so."""
    try:
        return Consumer({**_settings(address, group), **more, "log_level": 0})
    except (KafkaException, ValueError, TypeError) as error:
        why = error.args[0].str() if isinstance(error, KafkaException) else error
        raise QueueUnreachable(
            f"{address.place} cannot be read with these settings: {why}: correct it in the address, by librdkafka's names and "
            "values"
        ) from None


def check_settings(address: KafkaAddress, group: str) -> None:
    """Raises QueueUnreachable, as `fetching_client`. Asks nobody."""
    fetching_client(address, group).close()


def _settings(address: KafkaAddress, group: str) -> dict[str, Any]:
    return {
        "client.id": "baton",
        "group.id": group,
        "check.crcs": True,  # as Kafka's own clients do: else what a disk has broken is handed out
        "fetch.error.backoff.ms": 100,
        "fetch.queue.backoff.ms": 10,  # it has fetched enough of a partition, and fetches it no more for that long
        "fetch.wait.max.ms": 100,  # a partition that is taken up is asked for when the request before it is answered
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1000,
        **address.settings,
        **address.for_librdkafka(),
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
