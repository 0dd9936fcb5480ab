"""The operator's process: connects, watches, runs for leader, and does the work while it leads."""

import asyncio
import gc
import logging
import os
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import structlog

from baton.controller.adapters import TLS_FOLDER, open_queue
from baton.controller.capacity import MOST_IN_ALL
from baton.controller.event_loop import EventLoopStalls
from baton.controller.health import HealthServer, LagPage
from baton.controller.metrics import ProcessMetrics
from baton.controller.operator_replica import STUCK_AFTER, Replica
from baton.controller.watch import WatchEvents, Watching
from baton.kube.api import Api, connect
from baton.kube.clock import ApiServerClock
from baton.kube.elector import ElectorThread, Terms
from baton.kube.errors import ApiError, UnavailableError
from baton.kube.objects import GROUP_VERSION
from baton.kube.store import WatchedKind
from baton.queues.protocol import QueueAdapter

HUNG = 3
"""The exit code of an operator that hung, or whose watches ended."""

COLLECT_EVERY = 3600.0
"""Seconds between full collections of garbage."""

ENDS_WITHIN = 2.0
"""Seconds for which an operator that has stopped waits for its threads: a plan or a look-up of a host may never end."""

log = structlog.get_logger("baton.operator")


Reach = Callable[[Path | None], AbstractAsyncContextManager[tuple[Api, Any]]]
"""As `baton.kube.api.connect`."""
OpenAnyQueue = Callable[..., Awaitable[QueueAdapter]]
"""As `baton.controller.adapters.open_queue`."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the operator's process."""

    kubeconfig: Path | None = None
    """None: the pod's own service account."""
    namespaces: Sequence[str] = ()
    """Empty: all of them."""
    lease_namespace: str = "default"
    lease_name: str = "baton-operator"
    identity: str = field(default_factory=lambda: default_identity())
    terms: Terms = field(default_factory=Terms)
    metrics_address: str = ""
    metrics_port: int = 8080
    admission_policy: bool = False
    """Whether the chart's admission policies are installed. The operator may not look for itself."""
    most_partitions: int = MOST_IN_ALL
    """Of all groups together."""
    tls_files: Path = TLS_FOLDER
    """The folder of the files that it may read for TLS to queues."""
    stuck_after: float = STUCK_AFTER
    """Seconds for which nothing may hang."""


def default_identity() -> str:
    """The pod's name: a container restarted in its pod takes its Lease back at once. Outside a pod: unlike any other's."""
    return os.environ.get("POD_NAME") or f"{socket.gethostname()}-{uuid4().hex[:8]}"


def _address(port: int) -> str:
    """Where other replicas find this one's pages; empty: it was not told (the chart tells)."""
    host = os.environ.get("POD_IP", "")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}" if host else ""


def run(options: Options, reach: Reach = connect, open_queue: OpenAnyQueue = open_queue) -> None:
    """Until SIGTERM or SIGINT. Raises what connecting raises, and PortTaken. Where it hangs, it ends the process. `reach`,
    `open_queue`: its ways to the API server and to queues."""
    stalls = EventLoopStalls()
    with asyncio.Runner(loop_factory=stalls.loop) as runner:
        runner.run(_operate(options, stalls, reach, open_queue))


async def _operate(options: Options, stalls: EventLoopStalls, reach: Reach, open_queue: OpenAnyQueue) -> None:
    stop = asyncio.Event()
    _on_signals(stop)
    thread = ElectorThread()
    async with reach(options.kubeconfig) as (api, _), thread.within(reach(options.kubeconfig)) as (of_elector, _):
        replica = Replica(
            api,
            of_elector,
            ApiServerClock(),
            partial(open_queue, api, tls_files=options.tls_files),
            identity=options.identity,
            lease_namespace=options.lease_namespace,
            lease_name=options.lease_name,
            terms=options.terms,
            namespaces=options.namespaces,
            admission_policy=options.admission_policy,
            stuck_after=options.stuck_after,
            most_partitions=options.most_partitions,
            there=thread.do,
        )
        loop = asyncio.get_running_loop()
        feed = WatchEvents(loop, replica.cache.event, replica.relists.watch_begins)
        watching = Watching(options.kubeconfig, options.namespaces, feed, partial(loop.call_soon_threadsafe, stop.set))
        replica.metrics.registry.register(ProcessMetrics(stalls))
        health = HealthServer(
            options.metrics_address,
            options.metrics_port,
            replica.metrics.registry,
            alive=replica.stuck,
            ready=lambda: None if watching.begun else "not watching yet",
            page=LagPage(replica.metrics, lambda: replica.elector.leading, lambda: replica.elector.leader_address),
        )
        health.start()
        replica.elector.address = _address(health.port)
        log.info("started", identity=options.identity, namespaces=list(options.namespaces) or "all", port=health.port)
        try:
            await _crds(api, replica, stop)
            if not stop.is_set():
                watching.start()
                replica.tasks.keep("collector", _collect)
                running = replica.tasks.start("replica", replica.run())
                running.add_done_callback(lambda _: stop.set())
                await stop.wait()
                if running.done():
                    _end_at_once(HUNG)
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
        finally:
            watching.stop()
            health.close()
        log.info("stopped")
        if watching.failed:
            _end_at_once(HUNG)
    _end_soon()


async def _collect() -> None:
    """Collect all garbage once an hour, and young objects as Python does.

    A full collection looks at every object, and nothing else runs meanwhile: half a second with a thousand groups and ten
    thousand pods. Python would run one at every growth by a quarter. Nearly all objects here go with their last reference.
    """
    gc.set_threshold(*gc.get_threshold()[:2], 1_000_000)
    while True:
        await asyncio.sleep(COLLECT_EVERY)
        gc.collect()


def _end_at_once(code: int) -> None:
    """An orderly end would wait for threads that hang."""
    logging.shutdown()
    os._exit(code)


def _end_soon() -> None:
    """In order, or at once where that takes long: everything is done that was to be done."""
    timer = threading.Timer(ENDS_WITHIN, _end_at_once, [0])
    timer.daemon = True
    timer.start()


async def _crds(api: Api, replica: Replica, stop: asyncio.Event) -> None:
    """Wait until the API server has Baton's resources."""
    told = False
    while not stop.is_set():
        try:
            there = {str(one["name"]) for one in (await api.get(f"/apis/{GROUP_VERSION}"))["resources"]}
            if {WatchedKind.QUEUES, WatchedKind.GROUPS} <= there:
                return
            problem = f"it has {' and '.join(sorted(there)) or 'none'}"
        except (ApiError, UnavailableError) as error:
            problem = str(error)
        if not told:
            log.warning("the API server does not have Baton's resources (yet); apply the CRDs in crds/", problem=problem)
            told = True
        replica.elector.beat = replica.group_loops.beat = replica.clock.ticks()
        await asyncio.sleep(1.0)


def _on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
