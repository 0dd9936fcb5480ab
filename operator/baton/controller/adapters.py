"""Open the adapter of a PartitionedQueue, by the registry of kinds."""

import base64
import binascii
from collections.abc import Awaitable, Callable
from pathlib import Path

from baton.api import PartitionedQueueSpec
from baton.kube.api import Api, core_path
from baton.kube.errors import FORBIDDEN, ApiError, NotFoundError
from baton.kube.objects import QueueView
from baton.queues.kind import load
from baton.queues.onlooker import Onlooker, OpenOnlooker
from baton.queues.opening import FindAddress, OpenQueueSide, QueueToOpen, ReadSecret, SecretText, ServerAddress
from baton.queues.protocol import Claimant, QueueAdapter, QueueUnreachable

TLS_FOLDER = Path("/etc/baton/tls")
"""Folder in the operator's pod with the TLS files that URLs of queues may name (layout: baton.queues.redis.url_files)."""

OpenQueue = Callable[[QueueView, Claimant], Awaitable[QueueAdapter]]
"""Opens the adapter of a queue for one group; see `open_queue`."""


class SecretForbidden(QueueUnreachable):
    """The operator lacks the permission to read the Secret with the URL. The message is for users."""


async def open_queue(api: Api, queue: QueueView, claimant: Claimant, *, tls_files: Path = TLS_FOLDER) -> QueueAdapter:
    """The adapter of a queue for one group. It connects at the first request. `tls_files`: folder of TLS files that it may read
    (TlsFiles).

    Raises QueueUnreachable if a Secret named by its spec is missing or empty, and what `Api` raises.
    """
    assert queue.spec is not None
    side: OpenQueueSide = load(queue.spec.source.kind.operator)
    return await side(_to_open(api, queue, queue.spec, tls_files), claimant)


async def queue_address(api: Api, queue: QueueView) -> ServerAddress | None:
    """Address of the queue's server; None: its kind has none. Raises SecretForbidden, and what `open_queue` raises."""
    assert queue.spec is not None
    kind = queue.spec.source.kind
    if kind.address is None:
        return None
    find: FindAddress = load(kind.address)
    return await find(_to_open(api, queue, queue.spec, TLS_FOLDER))


async def open_onlooker(api: Api, queue: QueueView, group: str | None) -> Onlooker | None:
    """The reader that shows the queue's entries; None: its kind has none. `group`: the ConsumerGroup that consumes the queue.
    Raises as `queue_address`."""
    assert queue.spec is not None
    side = queue.spec.source.kind.onlooker
    if side is None:
        return None
    opened: OpenOnlooker = load(side)
    return await opened(_to_open(api, queue, queue.spec, TLS_FOLDER), queue.full_name, group)


def _to_open(api: Api, queue: QueueView, spec: PartitionedQueueSpec, tls_files: Path) -> QueueToOpen:
    return QueueToOpen(
        queue.namespace,
        queue.name,
        spec.source.fields,
        spec.max_delivered_unacked,
        spec.max_redeliveries or 0,
        _secrets(api, queue),
        tls_files,
    )


def _secrets(api: Api, queue: QueueView) -> ReadSecret:
    async def read(name: str, key: str, *, named_by: str, holds: str) -> SecretText:
        where = f"Secret {queue.namespace}/{name} ({named_by} of queue {queue.name})"
        try:
            secret = await api.get(core_path(queue.namespace, "secrets", name))
        except NotFoundError:
            raise QueueUnreachable(f"{where} does not exist: create it with the key {key}") from None
        except ApiError as error:
            if error.status != FORBIDDEN:
                raise
            raise SecretForbidden(
                f"the operator cannot read {where}, or it does not exist: "
                f"set the chart's value rbac.secrets.{queue.namespace} to [{name}], "
                "or give the operator's service account the verb get on it by a Role in namespace "
                f"{queue.namespace}: {error.message}"
            ) from None
        try:
            return SecretText(base64.b64decode((secret.get("data") or {})[key], validate=True).decode(), where)
        except KeyError:
            raise QueueUnreachable(f"{where} has no key {key}: add it, with the server's {holds}") from None
        except (binascii.Error, UnicodeDecodeError):
            raise QueueUnreachable(f"{where} has no valid {holds} under {key}") from None

    return read
