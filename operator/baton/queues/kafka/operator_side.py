"""The operator's side of a Kafka queue: from its spec to the adapter."""

from baton.model.extras import extra
from baton.queues.kafka.address import KafkaAddress, servers
from baton.queues.kafka.resource import KafkaSource, StartFrom
from baton.queues.opening import QueueToOpen
from baton.queues.protocol import Claimant, QueueAdapter, QueueUnreachable


async def open_queue(queue: QueueToOpen, claimant: Claimant) -> QueueAdapter:
    """`OpenQueueSide` of Kafka."""
    with extra("kafka"):
        from baton.queues.kafka.adapter import KafkaQueue, TopicToOpen

    source: KafkaSource = queue.source
    spec = TopicToOpen(
        topic=source.topic,
        queue=queue.name,
        latest=source.start_from is StartFrom.LATEST,
        max_redeliveries=queue.max_redeliveries,
        max_unacknowledged=queue.max_delivered_unacked,
        dead_letters=source.dead_letter_topic or "",
    )
    group = source.group_id or claimant.group.replace("/", ".", 1)
    return KafkaQueue(await _address(queue, source), group, spec, claimant)


async def _address(queue: QueueToOpen, source: KafkaSource) -> KafkaAddress:
    try:
        found = servers(source.bootstrap_servers)
    except ValueError as error:  # the API server refuses it, but not of what was there before
        raise QueueUnreachable(f"spec.source.kafka.bootstrapServers of queue {queue.name}: {error}") from None
    user, password, ca = None, "", ""
    if source.sasl is not None:
        reference = source.sasl.password_secret_ref
        where = "spec.source.kafka.sasl.passwordSecretRef"
        secret = await queue.read_secret(reference.name, reference.key, named_by=where, holds="password")
        user, password = source.sasl.user, secret.text.rstrip("\r\n")
    if source.tls is not None and source.tls.ca_secret_ref is not None:
        authority = source.tls.ca_secret_ref
        where = "spec.source.kafka.tls.caSecretRef"
        ca = (await queue.read_secret(authority.name, authority.key, named_by=where, holds="CA certificate")).text
    mechanism = source.sasl.mechanism.value if source.sasl is not None else "SCRAM-SHA-512"
    return KafkaAddress(found, user, password, mechanism, source.tls is not None, ca)
