"""From a PartitionedQueue to the adapter that speaks to it."""

import base64
import binascii
from collections.abc import Awaitable, Callable
from pathlib import Path

from pydantic import SecretStr

from baton.api import PartitionedQueueSpec, SourceType
from baton.controller.tls_folder import TLS_FOLDER
from baton.kube.api import FORBIDDEN, Api, ApiError, NotFoundError, core_path
from baton.kube.objects import QueueView
from baton.model.redis_url import SCHEMES
from baton.queues.protocol import Claimant, QueueAdapter, QueueUnreachable

OpenQueue = Callable[[QueueView, Claimant], Awaitable[QueueAdapter]]
"""Makes the adapter for a queue as one group uses it; see `open_queue`."""


class UnsupportedSource(Exception):  # noqa: N818 -- a condition's reason, in the users' words
    """This operator has no adapter for the source. The message is the user's."""


class SecretForbidden(QueueUnreachable):
    """The Secret with the URL may not be read. The message is for the operator's user."""


async def open_queue(api: Api, queue: QueueView, claimant: Claimant, *, tls_files: Path = TLS_FOLDER) -> QueueAdapter:
    """The adapter for one queue as one group uses it; it connects when it is first asked something. `tls_files`: the folder of
    the files that it may read for TLS (TlsFiles).

    Raises UnsupportedSource, and QueueUnreachable where the Secret with the URL is missing or says nothing; and what `Api`
    raises.
    """
    spec = queue.spec
    assert spec is not None
    match spec.source.type:
        case SourceType.REDIS:
            from baton.queues.redis import RedisQueue

            url, stands_in = await redis_url(api, queue, spec)
            return RedisQueue(
                url.get_secret_value(),
                queue=queue.full_name,
                claimant=claimant,
                max_delivered_unacked=spec.max_delivered_unacked,
                max_redeliveries=spec.max_redeliveries or 0,
                stands_in=stands_in,
                tls_folder=tls_files,
            )
        case SourceType.EXTERNAL:
            from baton.queues.external import ExternalQueue

            return ExternalQueue()
        case SourceType.KAFKA:
            raise UnsupportedSource(
                f"spec.source.type Kafka of queue {queue.name}: this operator cannot speak to Kafka yet; use Redis, or External "
                "where the consumers' word is enough"
            )


async def redis_url(api: Api, queue: QueueView, spec: PartitionedQueueSpec) -> tuple[SecretStr, str]:
    """The URL, and where it stands. Raises SecretForbidden, another QueueUnreachable, and what `Api` raises."""
    source = spec.source.redis
    assert source is not None
    if source.url is not None:
        if "@" in source.url:  # the API server refuses it, but not of what was there before
            raise QueueUnreachable(
                f"spec.source.redis.url of queue {queue.name} holds a user or a password: put the URL into a Secret and name "
                "it in spec.source.redis.urlSecretRef"
            )
        return SecretStr(source.url), f"spec.source.redis.url of PartitionedQueue {queue.full_name}"
    reference = source.url_secret_ref
    assert reference is not None
    where = f"Secret {queue.namespace}/{reference.name}, which spec.source.redis.urlSecretRef of queue {queue.name} names,"
    try:
        secret = await api.get(core_path(queue.namespace, "secrets", reference.name))
    except NotFoundError:
        raise QueueUnreachable(f"{where} does not exist: create it with the key {reference.key}") from None
    except ApiError as error:
        if error.status != FORBIDDEN:
            raise
        raise SecretForbidden(
            f"{where} may not be read by the operator: set the chart's value rbac.secrets.{queue.namespace} to "
            f"[{reference.name}], or give the operator's service account the verb get on it by a Role in namespace "
            f"{queue.namespace}: {error.message}"
        ) from None
    try:
        url = SecretStr(base64.b64decode((secret.get("data") or {})[reference.key], validate=True).decode().strip())
    except KeyError:
        raise QueueUnreachable(f"{where} has no key {reference.key}: add it, with the server's URL") from None
    except (binascii.Error, UnicodeDecodeError):
        raise QueueUnreachable(f"{where} has something else than a URL under {reference.key}") from None
    if url.get_secret_value().partition("://")[0] not in SCHEMES:
        raise QueueUnreachable(
            f"{where} has something else than a URL such as redis://:password@redis.{queue.namespace}:6379/0 "
            f"under {reference.key}"
        )
    return url, f"the Secret {queue.namespace}/{reference.name} under the key {reference.key}"
