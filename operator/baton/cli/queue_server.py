"""Where the server of a Redis queue is: as told, or as the queue's own resource says."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import TypeVar, cast

import click

from baton.cli.cluster import NoAnswerError, ask, cluster, namespace_of
from baton.cli.cluster_target import ClusterTarget, cluster_options
from baton.cli.names import QUEUE, REDIS_URL
from baton.cli.printing import need_redis
from baton.queues.kind import QueueKind
from baton.queues.kinds import kind

F = TypeVar("F", bound=Callable[..., object])

VARIABLE = "BATON_REDIS_URL"


@dataclass(frozen=True, slots=True)
class QueueServer:
    """A queue at its server."""

    queue: str
    """namespace/name"""
    url: str = field(repr=False)
    stands_in: str
    """Where the URL is written."""
    kind: QueueKind


def queue_options(command: F) -> F:
    """QUEUE, --redis-url and those that name a cluster, which reach the command as `server`."""

    @click.argument("queue", type=QUEUE)
    @click.option(
        "--redis-url",
        type=REDIS_URL,
        envvar=VARIABLE,
        show_envvar=True,
        help="The queue's server. Default: that of the queue's spec.source.redis.",
    )
    @cluster_options
    @wraps(command)
    def with_server(*args: object, queue: str, redis_url: str | None, target: ClusterTarget, **rest: object) -> object:
        need_redis()
        return command(*args, server=_server(queue, redis_url, target), **rest)

    return cast(F, with_server)


def _server(queue: str, url: str | None, target: ClusterTarget) -> QueueServer:
    name, target = target.within(queue)
    if url is None:
        return ask(_of_resource(name, target))
    try:
        namespace = namespace_of(target)
    except NoAnswerError:
        raise click.UsageError(f"a server has queues of many namespaces: give NAMESPACE/{name}, or -n NAMESPACE") from None
    return QueueServer(f"{namespace}/{name}", url, f"--redis-url or {VARIABLE}", kind("Redis"))


async def _of_resource(name: str, target: ClusterTarget) -> QueueServer:
    from baton.controller.adapters import SecretForbidden, queue_address
    from baton.kube.errors import NotFoundError
    from baton.kube.objects import queue_view, queues_path
    from baton.queues.protocol import QueueUnreachable

    async with cluster(target) as (api, where):
        try:
            queue = queue_view(await api.get(queues_path(where, name)))
        except NotFoundError:
            raise NoAnswerError(
                f"there is no PartitionedQueue {where}/{name}: kubectl get partitionedqueues -A lists them; "
                "without a cluster give --redis-url"
            ) from None
        if queue.spec is None:
            raise NoAnswerError(f"PartitionedQueue {queue.full_name}: {queue.problem}")
        try:
            address = await queue_address(api, queue)
        except SecretForbidden:
            raise NoAnswerError(
                f"you may not read the Secret that spec.source.redis.urlSecretRef of {queue.full_name} names: put the URL into "
                f"{VARIABLE}, or ask for the verb get on that Secret"
            ) from None
        except QueueUnreachable as problem:
            raise NoAnswerError(str(problem)) from None
        if address is None:
            raise NoAnswerError(
                f"PartitionedQueue {queue.full_name} has no server to be asked: its spec.source.type is {queue.spec.source.type}"
            )
        return QueueServer(queue.full_name, address.text, address.stands_in, queue.spec.source.kind)
