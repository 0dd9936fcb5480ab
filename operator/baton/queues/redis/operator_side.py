"""The operator's side of Redis queues: creates the adapter from a queue's spec."""

import asyncio
from importlib import import_module

from baton.model.extras import extra
from baton.queues.onlooker import Onlooker
from baton.queues.opening import QueueToOpen, ServerAddress
from baton.queues.protocol import Claimant, QueueAdapter, QueueUnreachable
from baton.queues.redis.resource import RedisSource
from baton.queues.redis.url import SCHEMES


async def open_queue(queue: QueueToOpen, claimant: Claimant) -> QueueAdapter:
    """`OpenQueueSide` of Redis."""
    with extra("redis"):
        # In a thread, because the first import takes long.
        await asyncio.to_thread(import_module, "baton.queues.redis.adapter")
        from baton.queues.redis.adapter import RedisQueue

    where = await address(queue)
    return RedisQueue(
        where.text,
        queue=queue.full_name,
        claimant=claimant,
        max_delivered_unacked=queue.max_delivered_unacked,
        max_redeliveries=queue.max_redeliveries,
        stands_in=where.stands_in,
        tls_folder=queue.tls_files,
        shared=True,
    )


async def open_onlooker(where: QueueToOpen | ServerAddress, name: str, group: str | None = None) -> Onlooker:
    """`OpenOnlooker` of Redis."""
    with extra("redis"):
        from baton.queues.redis.onlooker import RedisOnlooker

    found = where if isinstance(where, ServerAddress) else await address(where)
    return RedisOnlooker(found.text, name, found.stands_in)


async def address(queue: QueueToOpen) -> ServerAddress:
    """Return the URL, and where it is written."""
    source: RedisSource = queue.source
    if source.url is not None:
        if "@" in source.url:  # the API server refuses it now, but objects from earlier may have it
            raise QueueUnreachable(
                f"spec.source.redis.url of queue {queue.name} holds a user or a password: put the URL into a Secret and name "
                "it in spec.source.redis.urlSecretRef"
            )
        return ServerAddress(source.url, f"spec.source.redis.url of PartitionedQueue {queue.full_name}")
    reference = source.url_secret_ref
    assert reference is not None
    secret = await queue.read_secret(reference.name, reference.key, named_by="spec.source.redis.urlSecretRef", holds="URL")
    url = secret.text.strip()
    if url.partition("://")[0] not in SCHEMES:
        raise QueueUnreachable(
            f"{secret.where} has no Redis URL under {reference.key}: write one such as "
            f"redis://:password@redis.{queue.namespace}:6379/0"
        )
    return ServerAddress(url, f"the Secret {queue.namespace}/{reference.name} under the key {reference.key}")
