"""The operator's process: connect, watch, run for leader, and serve groups while leading."""

import asyncio
import gc
import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from baton.controller.adapters import open_queue
from baton.controller.event_loop import EventLoopStalls
from baton.controller.health import HealthServer, LagPage
from baton.controller.metrics import ProcessMetrics
from baton.controller.operator_replica import Options as Options
from baton.controller.operator_replica import Replica
from baton.controller.operator_replica import default_identity as default_identity
from baton.controller.watch import WatchEvents, Watching
from baton.kube.api import Api, connect
from baton.kube.clock import ApiServerClock
from baton.kube.elector import ElectorThread
from baton.kube.errors import ApiError, UnavailableError
from baton.kube.objects import GROUP_VERSION
from baton.kube.store import WatchedKind
from baton.queues.protocol import QueueAdapter

HUNG = 3
"""The exit code of an operator that hung, or whose watches ended."""

COLLECT_EVERY = 3600.0
"""Seconds between full collections of garbage."""

ENDS_WITHIN = 2.0
"""Seconds for which a stopped operator waits for its threads: a plan or a host look-up may never end."""

log = structlog.get_logger("baton.operator")


Reach = Callable[[Path | None], AbstractAsyncContextManager[tuple[Api, Any]]]
"""See `baton.kube.api.connect`."""
OpenAnyQueue = Callable[..., Awaitable[QueueAdapter]]
"""See `baton.controller.adapters.open_queue`."""


def _address(port: int) -> str:
    """HOST:PORT of this replica's pages for other replicas; empty: POD_IP, which the chart sets, is missing."""
    host = os.environ.get("POD_IP", "")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}" if host else ""


def run(options: Options, reach: Reach = connect, open_queue: OpenAnyQueue = open_queue) -> None:
    """Run the operator until SIGTERM or SIGINT. If it hangs, it ends the process. Raises what connecting raises, and PortTaken.
    `reach`, `open_queue`: connect to the API server and to queues."""
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
            options,
            there=thread.do,
        )
        loop = asyncio.get_running_loop()
        feed = WatchEvents(loop, replica.cache.event, replica.relists.watch_broke, replica.relists.watch_listed)
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
    """Run a full garbage collection once an hour; Python collects young objects as usual.

    A full collection visits every object and blocks the process: half a second with a thousand groups and ten thousand pods.
    Python would run one whenever the heap grows by a quarter. Nearly all objects here are freed with their last reference.
    """
    gc.set_threshold(*gc.get_threshold()[:2], 1_000_000)
    while True:
        await asyncio.sleep(COLLECT_EVERY)
        gc.collect()


def _end_at_once(code: int) -> None:
    """End the process without waiting for threads that hang."""
    logging.shutdown()
    os._exit(code)


def _end_soon() -> None:
    """Let the interpreter exit normally, or end the process at once after ENDS_WITHIN: all work is done."""
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
