"""What the commands that speak to a cluster share: the connection, and how a refusal reads."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from baton.cli.cluster_target import ClusterTarget
from baton.cli.kubeconfig import KubeconfigError, context_of, default_kubeconfig
from baton.cli.printing import refuse
from baton.kube.api import Api, connect
from baton.kube.errors import ApiError, NotFoundError, UnavailableError

T = TypeVar("T")

OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""Of the pod that this runs in."""


class NoAnswerError(Exception):
    """The cluster has nothing to show, or cannot be asked. The message is one line."""


@asynccontextmanager
async def cluster(target: ClusterTarget) -> AsyncIterator[tuple[Api, str]]:
    """The API server, and the namespace that is meant. What goes wrong with either is a NoAnswerError."""
    from kubernetes.aio.config import ConfigException

    file, context, namespace = _meant(target)
    async with AsyncExitStack() as stack:
        try:
            api, settings = await stack.enter_async_context(connect(file, context))
        except (ConfigException, OSError, ValueError) as error:
            raise NoAnswerError(f"{file or 'the service account'} cannot be used: {error}") from None
        try:
            yield api, namespace
        except UnavailableError as error:
            raise NoAnswerError(f"{settings.host} does not answer: {error}") from None
        except NotFoundError as error:
            raise NoAnswerError(_missing(error, namespace)) from None
        except ApiError as error:
            raise NoAnswerError(f"{settings.host} refused: {error.message or error}") from None


def namespace_of(target: ClusterTarget) -> str:
    """The namespace that is meant. Raises NoAnswerError."""
    return target.namespace or _meant(target)[2]


def _meant(target: ClusterTarget) -> tuple[Path | None, str | None, str]:
    """Kubeconfig and context (None: the pod's service account), and the namespace."""
    file = target.kubeconfig or default_kubeconfig()
    try:
        if file is None:
            return None, None, target.namespace or OWN_NAMESPACE.read_text(encoding="utf-8").strip()
        chosen = context_of(file, target.context)
    except KubeconfigError as error:
        raise NoAnswerError(str(error)) from None
    except OSError as error:
        raise NoAnswerError(
            f"{OWN_NAMESPACE}: {error.strerror}: give -n NAMESPACE, or --kubeconfig FILE for another cluster"
        ) from None
    return file, chosen.name, target.namespace or chosen.namespace


def _missing(error: NotFoundError, namespace: str) -> str:
    if error.reason != "NotFound" or "requested resource" in error.message:  # the path itself is unknown
        return "this cluster knows no ConsumerGroups: install Baton there, or name another cluster with --context"
    return f"{error.message} in namespace {namespace}: `baton status -A` lists all groups, -n NAMESPACE names another namespace"


def ask(work: Coroutine[Any, Any, T]) -> T:
    """What comes of it; a refusal is a line and exit 1."""
    try:
        return asyncio.run(work)
    except NoAnswerError as error:
        refuse(str(error))
