"""Where a topic is and who connects to it, for a client of another language."""

from collections.abc import Mapping

from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.private_key import pkcs8


def reader_address(address: KafkaAddress, topic: str, topic_id: str, group: str) -> Mapping[str, object]:
    """Fit for JSON. It has the password, and the texts of certificates."""
    return {
        "topic": topic,
        "topicId": topic_id,
        "group": group,
        "servers": ",".join(address.servers),
        "protocol": address.protocol,
        "user": address.user,
        "password": address.password,
        "mechanism": address.mechanism,
        "ca": address.ca,
        "certificate": address.certificate,
        "key": pkcs8(address.key),
    }
