"""Works on partitions that are only numbers to Baton: shards, folders. Copy this and put your own work into `serve`."""

import logging
import signal
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext

from baton.consumer import AssignmentSource, Pod, Session
from baton.consumer.api_server import ApiConnection, KubernetesLease
from baton.consumer.probes import ProbeServer
from baton.model import Partition
from baton.model.ledger import flat
from baton.model.names import session_lease_name
from baton.model.session import Release

STUCK_AFTER = 60.0
"""Seconds, much longer than `serve` takes."""


class Progress:
    """Whether the loop goes on, for the liveness probe."""

    def __init__(self) -> None:
        self.goes_on()

    def goes_on(self) -> None:
        self._seen_at = time.monotonic()

    def hangs(self) -> str:
        """Empty: it goes on."""
        silent = time.monotonic() - self._seen_at
        return f"the loop has not gone on for {silent:.0f} s" if silent > STUCK_AFTER else ""


def unheard(session: Session) -> str:
    """Why the operator does not hear of this pod, for the readiness probe; empty: it does."""
    return "the session is not renewed: see the log" if session.lapsed() else ""


def serve(partition: Partition) -> bool:
    """A little work on one partition, well under maxHandoffSeconds. False: there was nothing to do."""
    print(f"working on {partition.queue}/{partition.number}", flush=True)
    time.sleep(1)
    return True


def work(
    source: AssignmentSource,
    session: Session,
    pod: Pod,
    serve: Callable[[Partition], bool],
    stop: threading.Event,
    progress: Progress,
) -> None:
    """What is ours, in turns, until told to stop."""
    while not stop.is_set():
        progress.goes_on()
        entry, worked = source.current(), False
        # Nothing is in hand between two turns, so what is revoked is let go of by saying so.
        session.release(Release(pod.uid, one.queue, one.number, epoch) for one, epoch in flat(entry.revoking if entry else {}))
        for partition, _ in flat(entry.owned if entry else {}):
            # Nothing fences this queue: a consumer that the operator may have given up must not go on.
            if stop.is_set() or session.lapsed() or source.current() is not entry:
                break
            worked |= serve(partition)
            progress.goes_on()
        if not worked:
            stop.wait(0.2)


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    pod, stop = Pod.from_environment(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    lease = KubernetesLease(ApiConnection.in_pod(), pod.namespace, session_lease_name(pod.name))
    session = Session(lease, holder=pod.uid, group=pod.group, owner={"name": pod.name, "uid": pod.uid})
    progress = Progress()
    checks = {"/healthz": progress.hangs, "/readyz": lambda: unheard(session)}
    with nullcontext() if pod.health_port is None else ProbeServer(pod.health_port, checks):
        session.start()
        try:
            work(AssignmentSource(pod.ledger, pod.name, pod.uid), session, pod, serve, stop, progress)
        finally:
            session.close()  # the pod ends now, which lets go of all that it has


if __name__ == "__main__":
    main()
