"""A process that has a cluster with a running pod, for tests that end it in one way or another.

Run as `python -m tests.integration.cluster.supervised`: it prints `ready`, and waits.
"""

import signal
import sys
import time

from cluster import Cluster

SLEEPER = "import time; time.sleep(3600)"

if __name__ == "__main__":
    # Tests that were started in the background inherit an ignored SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with Cluster(node=True) as cluster:
        volumes, mounts = cluster.host_volumes()
        container = {"name": "sleeper", "image": cluster.load_consumer_image(), "args": ["-c", SLEEPER], "volumeMounts": mounts}
        spec = {"containers": [container], "volumes": volumes}
        cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "sleeper"}, "spec": spec})
        cluster.kubectl("wait", "pod/sleeper", "--for=condition=Ready", "--timeout=300s")
        print("ready", flush=True)
        try:
            while True:  # one that comes just before signal.pause() would not end it
                time.sleep(0.1)
        except KeyboardInterrupt:
            sys.exit(130)
