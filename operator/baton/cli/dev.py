"""`baton dev`: hand-offs between processes of this machine, without a cluster."""

import os
import shlex
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from baton.cli.names import DEV_QUEUE, REDIS_URL
from baton.cli.printing import need_redis, refuse, say
from baton.cli.queue_server import VARIABLE
from baton.model.wording import counted

if TYPE_CHECKING:
    from baton.dev.end_signals import EndSignals
    from baton.dev.folder import DevFolder

FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME", "/tmp")) / ".cache") / "baton" / "dev"

_folder = click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=FOLDER,
    envvar="BATON_DEV_FOLDER",
    help="The folder for its files. A second `baton dev` needs another one. Default: in ~/.cache.",
)


@click.group(invoke_without_command=True)
@click.option(
    "--redis-url", type=REDIS_URL, envvar=VARIABLE, show_envvar=True, help="A running Redis. Default: the command starts one."
)
@click.option(
    "--queue",
    "name",
    type=DEV_QUEUE,
    default="orders",
    show_default=True,
    help="The name of the queue and of the group, in the namespace dev.",
)
@click.option("--partitions", type=click.IntRange(1, 1024), default=6, show_default=True)
@click.option("--delay", type=click.FloatRange(0, 3600), default=1.0, show_default=True, help="spec.rebalance.delaySeconds.")
@_folder
@click.pass_context
def dev(context: click.Context, redis_url: str | None, name: str, partitions: int, delay: float, folder: Path) -> None:
    """Hand partitions over between processes of this machine, as the operator does in a cluster.

    It runs until Ctrl-C and says who owns what. In other terminals: baton dev run -- python consumer.py
    """
    if context.invoked_subcommand is not None:
        return
    need_redis()
    from baton.dev.end_signals import EndSignals

    signals = EndSignals()
    with signals.handled():
        _run(signals, redis_url, name, partitions, delay, folder)


def _run(signals: "EndSignals", redis_url: str | None, name: str, partitions: int, delay: float, folder: Path) -> None:
    from baton.dev.folder import DevError, DevFolder
    from baton.dev.local_redis import local_redis

    here = DevFolder(folder)
    try:
        with here.held(), nullcontext(redis_url) if redis_url else local_redis(signals.asked) as url:
            signals.run(lambda: _serve(url, name, partitions, delay, here, redis_url is None))
    except DevError as error:
        refuse(str(error))


@dev.command(context_settings={"ignore_unknown_options": True})
@_folder
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)
def run(folder: Path, command: tuple[str, ...]) -> None:
    """Run COMMAND as a pod of the group would run: a consumer finds all it needs, and a producer the server.

    Give it after --, as in: baton dev run -- python consumer.py
    """
    from baton.dev.folder import DevError, DevFolder
    from baton.dev.process import LocalProcess

    try:
        code = LocalProcess(DevFolder(folder)).run(command)
    except DevError as error:
        refuse(str(error))
    sys.exit(code)


def _quiet() -> None:
    """What is wrong with the queue is said as who owns what is, and not once more as the operator's log."""
    import logging

    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


async def _serve(url: str, name: str, partitions: int, delay: float, folder: "DevFolder", started: bool) -> None:
    from baton.dev.folder import Address
    from baton.dev.group import NAMESPACE, DevGroup
    from baton.model.names import DEV_QUEUE_VARIABLE
    from baton.queues.protocol import QueueUnreachable
    from baton.queues.redis.url import read

    _quiet()
    os.environ[DEV_QUEUE_VARIABLE] = f"{NAMESPACE}/{name}"
    try:
        place = read(url, stands_in="--redis-url").place
    except QueueUnreachable as problem:
        refuse(str(problem))

    def begun() -> None:
        ends = " (which ends with this)" if started else ""
        say(f"Queue {NAMESPACE}/{name} with {counted(partitions, 'partition')}, {place}{ends}. In other terminals:")
        where = "" if folder.path == FOLDER else f"--folder {shlex.quote(str(folder.path))} "
        say(f"  baton dev run {where}-- python consumer.py     once more for a second one; Ctrl-C there hands over")
        say(f"  baton dev run {where}-- python producer.py     sends to {NAMESPACE}/{name}")

    group = DevGroup(url, name, partitions, delay, folder, lambda text: say(f"{time.strftime('%T')}  {text}"), begun)
    folder.announce(Address(group.server.url, group.server.token, url, NAMESPACE, name))
    await group.run()
