"""A consumer as a process, where no kubelet runs pods: `python -m tests.load.consumer`, with a pod's environment.

It is the consumer of `tests.e2e.reader`, but for its way to the API server (KUBECONFIG), and a ledger that is a plain directory.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import redis
from prometheus_client import start_http_server

from baton.consumer import AnnouncedAssignments, AssignmentSource, Consumer, Session
from baton.consumer.api_server import ApiConnection, KubernetesLease
from baton.consumer.callbacks import Callbacks
from baton.consumer.metrics import ConsumerMetrics
from baton.consumer.pod import Pod
from baton.model.names import session_lease_name
from baton.queues.redis import RedisAnnouncements, RedisReader
from tests.e2e.reader import Record
from tests.processes import ChildProcess

ROOT = Path(__file__).parents[2]


def start(
    kubeconfig: Path, url: str, sink: str, queue: str, ledger: Path, group: str, pod: str, uid: str, metrics: int, log: BinaryIO
) -> subprocess.Popen[bytes]:
    """`queue` is namespace/name. `sink`: the URL by which it tells what it has processed. `metrics`: the port of its metrics."""
    namespace, _, name = queue.partition("/")
    environment = {
        "KUBECONFIG": str(kubeconfig),
        "BATON_REDIS_URL": url,
        "SINK_URL": sink,
        "BATON_LEDGER": str(ledger),
        "BATON_GROUP": group,
        "QUEUE": name,
        "POD_NAME": pod,
        "POD_NAMESPACE": namespace,
        "POD_UID": uid,
        "METRICS_PORT": str(metrics),
        "TMPDIR": str(ledger.parent),
    }
    command = [sys.executable, "-m", "tests.load.consumer"]
    return ChildProcess(command, cwd=ROOT, env={**os.environ, **environment}, stderr=log)


def main() -> None:
    """Works until it is asked to stop."""
    pod, url = Pod.from_environment(), os.environ["BATON_REDIS_URL"]
    group = f"{pod.namespace}/{pod.group}"
    ledger = AssignmentSource(pod.ledger, pod.name, pod.uid)
    record = Record(redis.Redis.from_url(os.environ["SINK_URL"]))
    start_http_server(int(os.environ["METRICS_PORT"]), "127.0.0.1")
    lease = KubernetesLease(ApiConnection.from_kubeconfig(), pod.namespace, session_lease_name(pod.name))
    Consumer(
        lambda queue: RedisReader(url, f"{pod.namespace}/{queue}", pod.uid),
        AnnouncedAssignments(ledger, RedisAnnouncements(url, group, pod.uid), group, pod.name, pod.uid),
        pod.uid,
        Session(lease, holder=pod.uid, group=pod.group),
        pod.grace,
        callbacks=Callbacks(on_assigned=record.assigned),
        metrics=ConsumerMetrics(),
    ).run(record.handle)


if __name__ == "__main__":
    main()
