"""A group under load whose consumers are processes, and those who bear witness. It needs an API server, Redis and an operator."""

import signal
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from cluster.ports import free_ports
from tests.load import consumer, sink
from tests.load.ledger_watch import LedgerWatch
from tests.load.links import Links
from tests.load.producer import Load
from tests.load.witness import Witness
from tests.promises import promised
from tests.redis_server import RedisServer


class LoadedFleet:
    """`with LoadedFleet(…) as fleet:` has load and witnesses until the end of the block; consumers come by `join`.

    The queue has the group's name, and must have been made. `links`: by which the load and the consumers go; the witnesses and
    the sink never do.
    """

    def __init__(
        self,
        kubeconfig: Path,
        namespace: str,
        group: str,
        server: RedisServer,
        partitions: int,
        folder: Path,
        links: Links | None = None,
    ) -> None:
        self._kubeconfig, self._group, self._folder, self._links = kubeconfig, group, folder, links
        self.queue = f"{namespace}/{group}"
        self._mount = folder / "assignments"
        self._mount.mkdir()
        self._server = server
        self.url = server.url
        self._stack = ExitStack()
        self.consumers: dict[str, subprocess.Popen[bytes]] = {}
        self._uids: dict[str, str] = {}
        self.metrics: dict[str, int] = {}
        """The port of each consumer's metrics."""
        self.load = Load(links.redis("producer") if links else server.url, self.queue)
        self.witness = Witness(server.url, self.queue, partitions)
        self.ledger = LedgerWatch(kubeconfig, namespace, group, self._mount)

    def join(self, pods: Mapping[str, str]) -> None:
        """Start the consumers of these pods, by name and UID."""
        self._uids.update(pods)
        for pod in pods:
            self.start(pod)

    def start(self, pod: str) -> None:
        """As a container that starts again in its pod."""
        kubeconfig, url = self._kubeconfig, self._server.url
        if self._links:
            kubeconfig, url = self._links.api_server(pod), self._links.redis(pod)
        port = self.metrics[pod] = next(free_ports("127.0.0.1"))
        with self.log(pod).open("ab") as log:
            self.consumers[pod] = consumer.start(
                kubeconfig, url, self._server.url, self.queue, self._mount, self._group, pod, self._uids[pod], port, log
            )

    def log(self, pod: str) -> Path:
        return self._folder / f"{pod}.log"

    def processings(self) -> int:
        """How many results have come, late ones included."""
        with self._server.client() as server:
            return sink.processings(server, self.queue)

    def verdict(self) -> None:
        """Fails where a promise was broken. Call it while the load is paused and the queue is empty."""
        with self._server.client() as server:
            sink.judged(self.load.produced, sink.rows(server, self.queue), self.witness)
        with promised():
            assert self.ledger.broken == [], self.ledger.broken
        assert all(process.poll() is None for process in self.consumers.values())

    def __enter__(self) -> Self:
        for watcher in (self.ledger, self.witness, self.load):
            self._stack.enter_context(watcher)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for process in self.consumers.values():
            process.send_signal(signal.SIGKILL)
            process.wait()
        self._stack.close()
