"""`baton console`: groups in a browser."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from baton.cli.cluster import NoAnswerError, ask, cluster
from baton.cli.options import ADDRESS, GROUP, HOST, HTTP_URL, ClusterTarget, bounded, cluster_options
from baton.cli.printing import say
from baton.http_server import EVERYWHERE, listening

if TYPE_CHECKING:
    from baton.console.server import ConsoleOptions
    from baton.console.viewers import Viewers

LOOPBACK = "127.0.0.1"


@click.command()
@click.argument("group", type=GROUP, required=False)
@cluster_options
@click.option("--port", type=bounded(0, 65535), default=0, help="The port to serve on. Default: a free one.")
@click.option("--allow-approve", is_flag=True, help="Let viewers with the right approve proposals.")
@click.option(
    "--operator",
    "operator_url",
    type=HTTP_URL,
    metavar="URL",
    help="The URL of the operator's leader, for the lag. Default: its pod, through the API server with your rights.",
)
@click.option("--viewer-tokens", is_flag=True, help="For a Deployment: each viewer signs in with a Kubernetes token.")
@click.option(
    "--address", type=ADDRESS, default=LOOPBACK, show_default=True, help="With --viewer-tokens: the address to serve on."
)
@click.option("--host", "hosts", type=HOST, multiple=True, help="With --viewer-tokens: a host name of the console; repeatable.")
@click.option(
    "--ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="With --viewer-tokens, in a pod: the CA of the API server.",
)
def console(
    group: str | None,
    port: int,
    allow_approve: bool,
    operator_url: str | None,
    viewer_tokens: bool,
    address: str,
    hosts: tuple[str, ...],
    ca: Path | None,
    target: ClusterTarget,
) -> None:
    """Show ConsumerGroups in a browser: owners, hand-offs with their reasons, and the effect of another number of pods.

    The console serves on this machine only, with the rights of your kubeconfig. The URL contains a token, which every request
    needs.
    """
    if not viewer_tokens and (hosts or ca or address != LOOPBACK):
        raise click.UsageError(
            "--address, --host and --ca need --viewer-tokens: a console for one person serves on loopback only"
        )
    from baton.console.guard import LOOPBACK as LOCAL
    from baton.console.server import ConsoleOptions

    # If it serves on all addresses, the URL has the loopback address.
    host = LOOPBACK if address in EVERYWHERE else f"[{address}]" if ":" in address else address
    options = ConsoleOptions(LOCAL | {host} | set(hosts), allow_approve, operator_url)
    ask(_serve(group, address, port, f"http://{host}", options, _viewers(target, viewer_tokens, ca)))


async def _serve(
    group: str | None,
    address: str,
    port: int,
    url: str,
    options: "ConsoleOptions",
    who: AbstractAsyncContextManager[tuple["Viewers", str | None]],
) -> None:
    """Serve until SIGINT or SIGTERM."""
    from aiohttp import web

    from baton.console.server import ConsoleServer

    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with who as (viewers, namespace):
        application = ConsoleServer(viewers, replace(options, namespace=namespace)).application()
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0, handler_cancellation=True)
        await runner.setup()
        try:
            await web.SockSite(runner, listening(address, port)).start()
        except OSError as error:
            await runner.cleanup()
            why = os.strerror(error.errno or 0)
            raise NoAnswerError(f"cannot serve on port {port} of {address}: {why}: choose another --port") from None
        place = f"/{namespace or ''}/{group}" if group else ""
        fragment = f"token={viewers.token}&at={place}" if viewers.token is not None else place
        say(f"{url}:{runner.addresses[0][1]}/#{fragment}")
        say("Serving until Ctrl-C." + ("" if options.may_approve else " Read-only. Pass --allow-approve to approve proposals."))
        await ended.wait()
        await runner.cleanup()


@asynccontextmanager
async def _viewers(target: ClusterTarget, viewer_tokens: bool, ca: Path | None) -> AsyncIterator[tuple["Viewers", str | None]]:
    """The viewers, and the namespace to show first."""
    from baton.console.viewers import OnePerson, OwnRights

    if not viewer_tokens:
        async with cluster(target) as (api, namespace):
            yield OnePerson(api), namespace
    elif ca is not None:
        yield OwnRights(_in_pod(ca)), target.namespace
    else:
        async with cluster(target) as (api, _):
            yield OwnRights(api.settings), target.namespace


def _in_pod(ca: Path) -> Any:
    """The settings of a pod's API server, without credentials."""
    from kubernetes.aio import client

    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise NoAnswerError("--ca is for pods, but KUBERNETES_SERVICE_HOST is not set: use --kubeconfig instead")
    settings = client.Configuration()
    settings.host = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    settings.ssl_ca_cert = str(ca)
    return settings
