"""What the commands that speak to a cluster share: whom to ask, which namespace, and how a refusal reads."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from baton.kube.api import Api, ApiError, UnavailableError, connect

F = TypeVar("F", bound=Callable[..., Any])


def cluster_options(command: F) -> F:
    """--namespace and --kubeconfig."""
    namespace = click.option("--namespace", "-n", help="The group's namespace. Default: the kubeconfig's.")
    kubeconfig = click.option(
        "--kubeconfig",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Whom to ask. Default: as kubectl finds it.",
    )
    return namespace(kubeconfig(command))


@asynccontextmanager
async def cluster(kubeconfig: Path | None, namespace: str | None) -> AsyncIterator[tuple[Api, str]]:
    """The API server, and the namespace that is meant."""
    from baton.cli.operator import default_kubeconfig

    file = kubeconfig or default_kubeconfig()
    async with connect(file) as (api, _):
        yield api, namespace or _namespace(file)


def ask(work: Coroutine[Any, Any, None]) -> None:
    """Run it; a refusal is a line and exit 1."""
    from kubernetes.aio.config import ConfigException

    command = click.get_current_context().info_name
    try:
        asyncio.run(work)
    except (ApiError, UnavailableError, ConfigException) as error:
        click.echo(f"baton {command}: {error}", err=True)
        sys.exit(1)


def _namespace(kubeconfig: Path | None) -> str:
    """The context's, as kubectl takes it; in a pod the pod's own."""
    import yaml

    if kubeconfig is None:
        return Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace").read_text().strip()
    raw = yaml.safe_load(kubeconfig.read_text()) or {}
    contexts = {one["name"]: one.get("context") or {} for one in raw.get("contexts") or ()}
    return str((contexts.get(raw.get("current-context")) or {}).get("namespace") or "default")
