"""What a pod runs in tests: it writes each entry down before it is acknowledged. The address of the broker, the pod's identity
and its ledger come from the environment, as in a pod; OUTPUT is a file that all pods share, so that it has an order."""

import os
import time
from typing import Any

from baton.consumer import AssignmentSource, Consumer, Pod
from baton.consumer.api_server import ApiConnection, session_of
from baton.queues.consumer_side import addressed, opened


def main() -> None:
    pod = Pod.from_environment()
    kind, address = addressed(os.environ)
    side = opened(kind, address, f"{pod.namespace}/{pod.group}", pod.uid)
    session = session_of(pod, ApiConnection.from_kubeconfig())
    output = os.open(os.environ["OUTPUT"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    takes = float(os.environ["TAKES"])

    def handle(entry: Any) -> None:
        time.sleep(takes)  # the work
        os.write(
            output, f"{entry.queue} {entry.partition} {entry.offset} {entry.epoch} {int(entry.redelivered)} {pod.name}\n".encode()
        )

    Consumer(side.reader, AssignmentSource(pod.ledger, pod.name, pod.uid), pod.uid, session, grace=20.0).run(handle)


if __name__ == "__main__":
    main()
