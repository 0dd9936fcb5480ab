"""The members that are measured, each a process of its own: `python -m tests.bench.handoff.member`.

It starts a member for each line on its standard input (JSON), by a fork, and answers with its process id. So a member costs a
few milliseconds of processor time to start, and not the second in which Python imports libraries: on a machine with few
processors that would be felt by those that are measured. A member writes a line for each message that it handles.
"""

import ctypes
import json
import os
import signal
import sys
import time
import traceback
from contextlib import suppress
from typing import Any

import confluent_kafka
import kubernetes  # noqa: F401 -- what members import when they need it is imported once, here

import baton.queues.kafka.consumer_side
import baton.queues.redis.consumer_side  # noqa: F401 -- likewise
from baton.consumer import AnnouncedAssignments, AssignmentSource, Consumer, Pod, Session
from baton.consumer.api_server import ApiConnection, KubernetesLease
from baton.consumer.assignments import Assignments
from baton.model.names import session_lease_name
from baton.queues.consumer_side import addressed, opened

_PR_SET_PDEATHSIG = 1
_POLL = 0.1
_GRACE = 30.0


class Handled:
    """The file that all members of a system share: a line is appended at once, so lines are in the order of what was handled."""

    def __init__(self, output: str, member: str) -> None:
        self._file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._member = member

    def __call__(self, partition: int, value: bytes) -> None:
        """`value`: the message's number in its partition, from 0."""
        os.write(self._file, b"%d %d %d %s\n" % (time.monotonic_ns(), partition, int(value), self._member.encode()))


def consume_by_baton(order: dict[str, Any]) -> None:
    """As `Consumer.from_environment`, but for the way to the API server: a pod has a service account."""
    os.environ.update(order["environment"])
    pod = Pod.from_environment()
    kind, address = addressed(os.environ)
    group = f"{pod.namespace}/{pod.group}"
    side = opened(kind, address, group, pod.uid)
    api = ApiConnection.from_kubeconfig(order["kubeconfig"])
    lease = KubernetesLease(api, pod.namespace, session_lease_name(pod.name))
    session = Session(lease, holder=pod.uid, group=pod.group, owner={"name": pod.name, "uid": pod.uid})
    assignments: Assignments = AssignmentSource(pod.ledger, pod.name, pod.uid)
    announcements = side.announcements()
    if announcements is not None:
        assignments = AnnouncedAssignments(assignments, announcements, group, pod.name, pod.uid)
    handled = Handled(order["output"], order["member"])
    consumer = Consumer(side.reader, assignments, pod.uid, session, _GRACE)
    consumer.run(lambda entry: handled(entry.partition, entry.value))


def consume_by_group(order: dict[str, Any]) -> None:
    """What one writes with confluent-kafka who wants no message lost: what is handled is stored, and librdkafka commits it every
    now and then, and when a partition is called back."""
    handled = Handled(order["output"], order["member"])
    consumer = confluent_kafka.Consumer(order["settings"])
    going = [True]
    signal.signal(signal.SIGTERM, lambda *_: going.clear())
    consumer.subscribe([order["topic"]])
    while going:
        message = consumer.poll(_POLL)
        if message is not None and message.error() is None:
            handled(message.partition() or 0, message.value() or b"")
            with suppress(confluent_kafka.KafkaException):  # it was taken away meanwhile
                consumer.store_offsets(message)
    consumer.close()


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who has ended is gone at once
    here = os.getpid()
    for line in sys.stdin:
        order = json.loads(line)
        if not (child := os.fork()):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != here:
                os._exit(1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                (consume_by_baton if "environment" in order else consume_by_group)(order)
            except Exception:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(0)
        print(child, flush=True)


if __name__ == "__main__":
    main()
