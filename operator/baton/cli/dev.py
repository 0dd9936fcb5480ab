"""`baton dev`: hand-offs between processes on this machine, without a cluster."""

import os
import shlex
import sys
import time
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from baton.cli.main import WholeSummaries
from baton.cli.options import DEV_PROCESS, DEV_QUEUE, KAFKA_URL, REDIS_URL, TOPIC, bounded
from baton.cli.printing import need_kafka, need_redis, refuse, say, waiting_for
from baton.model.wording import counted

if TYPE_CHECKING:
    from baton.dev.folder import DevFolder
    from baton.dev.queues import DevQueue
    from baton.dev.signals import EndSignals

_PARTITIONS = 6
_CACHES = Path(os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME", "/tmp")) / ".cache")
FOLDER = Path(os.environ.get("BATON_CACHE") or _CACHES / "baton") / "dev"

_folder = click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=FOLDER,
    envvar="BATON_DEV_FOLDER",
    help="State directory, for one `baton dev` and no other files. Default: dev in BATON_CACHE or ~/.cache/baton.",
)


@click.group(cls=WholeSummaries, invoke_without_command=True)
@click.option(
    "--redis-url",
    type=REDIS_URL,
    envvar="BATON_REDIS_URL",
    show_envvar=True,
    help="A running Redis or Valkey. Default: start one.",
)
@click.option(
    "--kafka-url",
    type=KAFKA_URL,
    envvar="BATON_KAFKA_URL",
    show_envvar=True,
    help="A running Kafka, such as kafka://127.0.0.1:9092. The queue is one of its topics.",
)
@click.option("--topic", type=TOPIC, help="The topic, with --kafka-url. Default: the queue's name.")
@click.option(
    "--queue",
    "name",
    type=DEV_QUEUE,
    default="orders",
    show_default=True,
    help="The name of the queue and the group, in the namespace dev.",
)
@click.option("--partitions", type=bounded(1, 1024), help="The number of partitions. Default: 6, or the topic's.")
@click.option("--delay", type=bounded(0, 3600, whole=False), default=1.0, show_default=True, help="spec.rebalance.delaySeconds.")
@click.option(
    "--max-handoff",
    type=bounded(0, 3600, whole=False),
    default=3.0,
    show_default=True,
    help="spec.rebalance.maxHandoffSeconds of the queue.",
)
@click.option(
    "--max-redeliveries",
    type=bounded(0, 1_000_000),
    default=0,
    show_default=True,
    help="spec.maxRedeliveries of the queue; 0: no limit.",
)
@_folder
@click.pass_context
def dev(
    context: click.Context,
    redis_url: str | None,
    kafka_url: str | None,
    topic: str | None,
    name: str,
    partitions: int | None,
    delay: float,
    max_handoff: float,
    max_redeliveries: int,
    folder: Path,
) -> None:
    """Hand off partitions between processes on this machine, as the operator does in a cluster.

    Shows the owners of partitions, until Ctrl-C. In other terminals: baton dev run -- python consumer.py
    """
    if context.invoked_subcommand is not None:
        return
    if redis_url is not None and kafka_url is not None:
        raise click.UsageError("use --redis-url (BATON_REDIS_URL) or --kafka-url (BATON_KAFKA_URL): a queue has one server")
    if kafka_url is None and topic is not None:
        raise click.UsageError("--topic needs --kafka-url")
    if kafka_url is not None and partitions is not None:
        raise click.UsageError("the topic has its own number of partitions: omit --partitions, or change the topic")
    if kafka_url is None:
        need_redis()
    else:
        need_kafka()
    from baton.dev.folder import DevError, DevFolder
    from baton.dev.queues import on_kafka, on_redis
    from baton.dev.signals import EndSignals
    from baton.queues.protocol import QueueUnreachable

    signals, here = EndSignals(), DevFolder(folder)

    def queue(server: str) -> "DevQueue":
        if kafka_url is not None:
            return on_kafka(server, name, topic or name, max_redeliveries)
        return on_redis(server, name, partitions or _PARTITIONS, max_redeliveries)

    with signals.handled():
        try:
            with here.held(), _server(kafka_url or redis_url, signals) as url:
                signals.run(lambda: _serve(queue(url), delay, max_handoff, here, started=url not in (kafka_url, redis_url)))
        except (DevError, QueueUnreachable) as problem:
            refuse(str(problem))


def _server(url: str | None, signals: "EndSignals") -> AbstractContextManager[str]:
    """The server at the URL, or a Redis to be started. Raises DevError."""
    from baton.dev.local_redis import local_redis

    return nullcontext(url) if url else local_redis(signals.asked)


@dev.command(context_settings={"ignore_unknown_options": True})
@_folder
@click.option("--name", type=DEV_PROCESS, help="The name of the process. Default: the queue's name with the lowest free number.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)
def run(folder: Path, name: str | None, command: tuple[str, ...]) -> None:
    """Run COMMAND like a pod of the group, with the settings for consumers and the server's URL for producers.

    Put COMMAND after --, as in: baton dev run -- python consumer.py

    On Ctrl-C a consumer releases its partitions, which then wait for the delay. On SIGTERM it works until they are handed off.
    """
    from baton.dev.folder import DevError, DevFolder
    from baton.dev.process import LocalProcess

    try:
        code = LocalProcess(DevFolder(folder), name).run(command)
    except DevError as error:
        refuse(str(error))
    sys.exit(code)


def _quiet() -> None:
    """Silence the logs of the operator and of clients: `baton dev` itself prints problems of the queue."""
    import logging

    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


async def _serve(queue: "DevQueue", delay: float, max_handoff: float, folder: "DevFolder", *, started: bool) -> None:
    from baton.dev.folder import Address
    from baton.dev.group import DevGroup
    from baton.dev.queues import NAMESPACE
    from baton.model.names import DEV_QUEUE_VARIABLE

    _quiet()
    os.environ[DEV_QUEUE_VARIABLE] = queue.full_name

    waiting = ExitStack()

    def begun(partitions: int) -> None:
        waiting.close()
        ends = " (stops with this command)" if started else ""
        say(f"Queue {queue.full_name} with {counted(partitions, 'partition')}, {queue.place}{ends}. In other terminals:")
        where = "" if folder.path == FOLDER else f"--folder {shlex.quote(str(folder.path))} "
        say(f"  baton dev run {where}-- python consumer.py     start two; Ctrl-C there releases the partitions")
        if queue.kind.name == "Redis":
            say(f"  baton dev run {where}-- python producer.py     finds {queue.full_name} in BATON_DEV_QUEUE")
        else:
            say("  Any Kafka producer may send to the topic, without `baton dev run`")

    group = DevGroup(queue, delay, max_handoff, folder, lambda text: say(f"{time.strftime('%T')}  {text}"), begun)
    assert queue.kind.variable is not None
    folder.announce(Address(group.server.url, group.server.token, NAMESPACE, queue.name, queue.kind.variable, queue.url))
    with waiting:
        waiting.enter_context(waiting_for(queue.place))
        await group.run()
