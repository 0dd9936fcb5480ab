"""The operator's side of a Kafka queue: from its spec to the adapter."""

import asyncio
from importlib import import_module

from baton.model.extras import extra
from baton.queues.kafka.address import KafkaAddress, Mechanism, read, servers
from baton.queues.kafka.resource import KafkaSource, StartFrom
from baton.queues.onlooker import Onlooker
from baton.queues.opening import QueueToOpen, ServerAddress
from baton.queues.protocol import Claimant, QueueAdapter, QueueUnreachable
from baton.schema.shape import SecretKey


async def open_queue(queue: QueueToOpen, claimant: Claimant) -> QueueAdapter:
    """`OpenQueueSide` of Kafka."""
    with extra("kafka"):
        # In a thread, because the first import takes long.
        await asyncio.to_thread(import_module, "baton.queues.kafka.adapter")
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
    return KafkaQueue(await _address(queue, source), _group_id(source, claimant.group), spec, claimant)


async def open_onlooker(where: QueueToOpen | ServerAddress, name: str, group: str | None = None) -> Onlooker:
    """`OpenOnlooker` of Kafka."""
    with extra("kafka"):
        from baton.queues.kafka.onlooker import KafkaOnlooker

    if isinstance(where, ServerAddress):
        address = read(where.text)
        return KafkaOnlooker(address, name, address.group)
    source: KafkaSource = where.source
    known = source.group_id if group is None else _group_id(source, group)
    return KafkaOnlooker(await _address(where, source), source.topic, known)


def _group_id(source: KafkaSource, group: str) -> str:
    """Return the id in Kafka of a ConsumerGroup (namespace/name)."""
    return source.group_id or group.replace("/", ".", 1)


async def _address(queue: QueueToOpen, source: KafkaSource) -> KafkaAddress:
    try:
        found = servers(source.bootstrap_servers)
    except ValueError as error:  # the API server refuses it, except in older objects
        raise QueueUnreachable(f"spec.source.kafka.bootstrapServers of queue {queue.name}: {error}") from None
    sasl, tls = source.sasl, source.tls

    async def text(reference: SecretKey | None, field: str, holds: str) -> str:
        if reference is None:
            return ""
        where = f"spec.source.kafka.{field}"
        return (await queue.read_secret(reference.name, reference.key, named_by=where, holds=holds)).text

    login = ""
    if sasl is not None:
        secret = sasl.password_secret_ref
        login = (
            f"the password under the key {secret.key} of the Secret {queue.namespace}/{secret.name}, or the user or the "
            f"mechanism in spec.source.kafka.sasl of queue {queue.name}"
        )
    password = await text(sasl.password_secret_ref if sasl else None, "sasl.passwordSecretRef", "password")
    return KafkaAddress(
        found,
        user=sasl.user if sasl else None,
        password=password.rstrip("\r\n"),
        mechanism=(sasl.mechanism if sasl else Mechanism.SCRAM_SHA_512).value,
        tls=tls is not None,
        ca=await text(tls.ca_secret_ref if tls else None, "tls.caSecretRef", "CA certificate"),
        certificate=await text(tls.certificate_secret_ref if tls else None, "tls.certificateSecretRef", "certificate"),
        key=await text(tls.key_secret_ref if tls else None, "tls.keySecretRef", "private key"),
        login=login,
    )
