"""kopf's part: it watches, and hands every event to the mirror.

Only on.event handlers, for they write nothing: no annotations and no finalizers of a framework on anybody's objects. A
follower watches as well, so that it can lead at once. An index of kopf's would keep what vanished while a watch was broken (it
lists anew without saying what is gone), which is why the mirror has shelves of its own and is put right by lists.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import Any

import kopf
from kubernetes.aio.client import Configuration

from baton.controller.mirror import Mirror
from baton.model.names import API_GROUP, API_VERSION, GROUP_LABEL


def handlers(mirror: Mirror) -> kopf.OperatorRegistry:
    """A registry whose handlers feed this mirror."""
    registry = kopf.OperatorRegistry()

    @kopf.on.event("", "v1", "pods", registry=registry)
    async def pod(event: Any, **_: Any) -> None:
        mirror.pods.event(event["type"], event["object"])

    @kopf.on.event("coordination.k8s.io", "v1", "leases", registry=registry)
    async def lease(event: Any, **_: Any) -> None:
        mirror.leases.event(event["type"], event["object"])

    @kopf.on.event("", "v1", "configmaps", registry=registry)
    async def ledger(event: Any, **_: Any) -> None:
        mirror.ledger_event(event["type"], event["object"])

    @kopf.on.event(API_GROUP, API_VERSION, "partitionedqueues", registry=registry)
    async def queue(event: Any, **_: Any) -> None:
        mirror.queues.event(event["type"], event["object"])

    @kopf.on.event(API_GROUP, API_VERSION, "consumergroups", registry=registry)
    async def group(event: Any, **_: Any) -> None:
        mirror.groups.event(event["type"], event["object"])

    return registry


def settings() -> kopf.OperatorSettings:
    """Watch only what has the group's label (narrowed at the server), post nothing, scan nothing, lock nothing."""
    made = kopf.OperatorSettings()
    made.posting.enabled = False
    made.scanning.disabled = True
    made.peering.standalone = True
    for labelled in ("pods", "configmaps", "leases"):
        made.watching.label_selectors[labelled] = GROUP_LABEL
    # A request that hangs must not hold the watch for kopf's five minutes.
    made.networking.request_timeout = 30
    made.networking.error_backoffs = Backoffs()
    made.watching.connect_timeout = 10
    # A handler here only fills a shelf; an idle object needs no worker for long.
    made.queueing.idle_timeout = 1.0
    made.process.ultimate_exiting_timeout = 10
    return made


class Backoffs:
    """Seconds between tries. After an outage of the API server the watches must be back in seconds, not in the minute of kopf's
    own backoffs; and they must not end, for kopf gives all of them up where the last try of one meets a server that answers,
    but does not know its own resources yet (503 while it starts).
    """

    def __iter__(self) -> Iterator[float]:
        return chain((0.2, 0.5, 1.0), repeat(2.0))


async def watch(
    mirror: Mirror,
    connection: Configuration,
    kubeconfig: bool,
    namespaces: Sequence[str],
    stop: asyncio.Event,
    ready: asyncio.Event,
) -> None:
    """Watch until `stop`. Namespaces empty: all of them."""
    logging.getLogger("kopf").setLevel(logging.WARNING)
    registry = handlers(mirror)

    @kopf.on.login(registry=registry)
    async def login(**arguments: Any) -> kopf.ConnectionInfo | None:
        if not kubeconfig:
            return kopf.login_with_service_account(**arguments)
        return await _credentials(connection)

    await kopf.operator(
        registry=registry,
        settings=settings(),
        standalone=True,
        clusterwide=not namespaces,
        namespaces=namespaces,
        stop_flag=stop,
        ready_flag=ready,
    )


async def _credentials(connection: Any) -> kopf.ConnectionInfo:
    """The same connection that the API client has."""
    if connection.refresh_api_key_hook is not None:
        await _maybe(connection.refresh_api_key_hook(connection))
    token = connection.api_key.get("BearerToken")
    scheme, _, bare = (token or "").rpartition(" ")
    return kopf.ConnectionInfo(
        server=connection.host,
        ca_path=connection.ssl_ca_cert,
        ca_data=connection.ca_cert_data if not connection.ssl_ca_cert else None,
        insecure=not connection.verify_ssl,
        certificate_path=connection.cert_file,
        private_key_path=connection.key_file,
        scheme=scheme or None,
        token=bare or None,
    )


async def _maybe(answer: Any) -> None:
    if asyncio.iscoroutine(answer):
        await answer
