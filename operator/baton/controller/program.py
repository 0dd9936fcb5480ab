"""The operator's process: connects, watches, runs for leader, and does the work while it leads."""

import asyncio
import os
import signal
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import structlog
from kubernetes.aio.client import Configuration

from baton.controller.adapters import open_queue
from baton.controller.faults import arm
from baton.controller.health import HealthServer
from baton.controller.replica import Replica
from baton.controller.watch import watch
from baton.kube.api import Api, ApiError, UnavailableError, connect
from baton.kube.clock import Clock
from baton.kube.election import Terms
from baton.kube.objects import GROUP_VERSION

STUCK_AFTER = 90.0
"""Seconds without a reconcile of a group, or without an attempt to renew, after which the process is better restarted."""

log = structlog.get_logger("baton.operator")


@dataclass(frozen=True, slots=True)
class Options:
    """How to run."""

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


class Ended(Exception):  # noqa: N818 -- what became of the program, for the user
    """What must go on has ended; the operator is to be started again."""


def default_identity() -> str:
    """The pod's name: a container restarted in its pod takes its Lease back at once. Outside a pod: unlike any other's."""
    return os.environ.get("POD_NAME") or f"{socket.gethostname()}-{uuid4().hex[:8]}"


async def operate(options: Options) -> None:
    """Until SIGTERM or SIGINT. Raises what connecting raises, BadFault, and Ended when it cannot go on."""
    arm()
    stop = asyncio.Event()
    _on_signals(stop)
    async with connect(options.kubeconfig) as (api, connection), connect(options.kubeconfig) as (of_elector, _):
        replica = Replica(
            api,
            of_elector,
            Clock(),
            partial(open_queue, api),
            identity=options.identity,
            lease_namespace=options.lease_namespace,
            lease_name=options.lease_name,
            terms=options.terms,
            namespaces=options.namespaces,
            admission_policy=options.admission_policy,
        )
        watching = asyncio.Event()
        health = HealthServer(
            options.metrics_address,
            options.metrics_port,
            replica.metrics.registry,
            alive=lambda: _alive(replica),
            ready=lambda: None if watching.is_set() else "not watching yet",
        )
        health.start()
        log.info("started", identity=options.identity, namespaces=list(options.namespaces) or "all", port=health.port)
        try:
            await _crds(api, replica, stop)
            if not stop.is_set():
                await _work(options, connection, replica, stop, watching)
        finally:
            health.close()
        log.info("stopped")


async def _work(
    options: Options, connection: Configuration, replica: Replica, stop: asyncio.Event, watching: asyncio.Event
) -> None:
    """Watch from the start, lead when it is this one's turn, and leave in good order."""
    stop_watch = asyncio.Event()
    leading = asyncio.create_task(replica.elector.run(), name="elector")
    posting = asyncio.create_task(replica.events.run(), name="events")
    stopping = asyncio.create_task(stop.wait(), name="stop")
    watch_task = asyncio.create_task(
        watch(replica.mirror, connection, options.kubeconfig is not None, options.namespaces, stop_watch, watching), name="watch"
    )
    began = asyncio.create_task(watching.wait())
    first: set[asyncio.Task[Any]] = {watch_task, began, stopping}
    await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
    _on_signals(stop)  # kopf has taken the signals for itself meanwhile
    working = asyncio.create_task(replica.fleet.run(), name="fleet")
    try:
        tasks: set[asyncio.Task[Any]] = {watch_task, stopping, working, leading}
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (working, leading):
            task.cancel()
        await asyncio.gather(working, leading, return_exceptions=True)
        await replica.elector.resign()
        stop_watch.set()
        posting.cancel()
        began.cancel()
        stopping.cancel()
        await asyncio.wait({watch_task}, timeout=5)
        watch_task.cancel()
    if not stop.is_set():
        # Where kopf fails, it cancels the other tasks as well: its own error comes first.
        for task in (watch_task, *done):
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                log.error("cannot go on", exc_info=error)
                raise Ended(f"the {task.get_name()} failed: {error}")
        raise Ended(f"the {' and the '.join(sorted(task.get_name() for task in done))} ended")


async def _crds(api: Api, replica: Replica, stop: asyncio.Event) -> None:
    """Wait until the API server has Baton's resources: kopf looks once."""
    told = False
    while not stop.is_set():
        try:
            there = {resource["name"] for resource in (await api.get(f"/apis/{GROUP_VERSION}"))["resources"]}
            if {"partitionedqueues", "consumergroups"} <= there:
                return
            problem = f"it has only {', '.join(sorted(there))}"
        except (ApiError, UnavailableError) as error:
            problem = str(error)
        if not told:
            log.warning("the API server does not have Baton's resources (yet); apply the CRDs in crds/", problem=problem)
            told = True
        replica.elector.beat = replica.clock.ticks()
        await asyncio.sleep(1.0)


def _alive(replica: Replica) -> str | None:
    """Asked on another thread."""
    renewed = replica.clock.ticks() - replica.elector.beat
    if renewed > STUCK_AFTER:
        return f"no attempt to renew the leader Lease for {renewed:.0f} s"
    reconciled = replica.metrics.oldest_reconcile()
    if reconciled > STUCK_AFTER:
        return f"a group has not been reconciled for {reconciled:.0f} s"
    return None


def _on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
