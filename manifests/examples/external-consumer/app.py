"""Works on partitions that are only numbers to Baton: shards, folders. Copy this and put your own work into `serve`."""

import logging
import signal
import threading
import time
from collections.abc import Callable

from baton.consumer import AssignmentSource, Pod, Session
from baton.consumer.api import KubernetesLease
from baton.consumer.api_server import ApiConnection
from baton.model import Partition
from baton.model.ledger import flat
from baton.model.names import session_lease_name
from baton.model.session import Release


def serve(partition: Partition) -> bool:
    """A little work on one partition, well under maxHandoffSeconds. False: there was nothing to do."""
    print(f"working on {partition.queue}/{partition.number}", flush=True)
    time.sleep(1)
    return True


def work(source: AssignmentSource, session: Session, pod: Pod, serve: Callable[[Partition], bool], stop: threading.Event) -> None:
    """What is ours, in turns, until told to stop."""
    while not stop.is_set():
        entry, worked = source.current(), False
        # Nothing is in hand between two turns, so what is revoked is let go of by saying so.
        session.release(Release(pod.uid, one.queue, one.number, epoch) for one, epoch in flat(entry.revoking if entry else {}))
        for partition, _ in flat(entry.owned if entry else {}):
            # Nothing fences this queue: a consumer that the operator may have given up must not go on.
            if stop.is_set() or session.lapsed() or source.current() is not entry:
                break
            worked |= serve(partition)
        if not worked:
            stop.wait(0.2)


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    pod, stop = Pod.from_environment(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    lease = KubernetesLease(ApiConnection.in_pod(), pod.namespace, session_lease_name(pod.name))
    session = Session(lease, holder=pod.uid, group=pod.group, owner={"name": pod.name, "uid": pod.uid})
    session.start()
    try:
        work(AssignmentSource(pod.ledger, pod.name, pod.uid), session, pod, serve, stop)
    finally:
        session.close()  # the pod ends now, which lets go of all that it has


if __name__ == "__main__":
    main()
