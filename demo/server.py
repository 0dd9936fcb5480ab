"""The queue's server: a Redis of the demo's own."""

import socket
from pathlib import Path
from typing import Self

from cluster.ports import free_ports
from cluster.processes import Registry
from cluster.waiting import PATIENCE, wait_until

_NAME = "redis-server"


class QueueServer:
    """A Redis on a free port of this address, with an append-only file as the queue's promises need it.

    It is one more process of the cluster with this run folder, so whatever stops the cluster stops it too.
    """

    def __init__(self, address: str, folder: Path) -> None:
        port = next(free_ports(address))
        self._place = (address, port)
        self._data = folder / "redis"
        self._processes = Registry(folder)
        self.url = f"redis://{address}:{port}/0"

    def __enter__(self) -> Self:
        address, port = self._place
        self._data.mkdir(parents=True, exist_ok=True)
        command = [_NAME, "--bind", address, "--port", str(port), "--protected-mode", "no", "--save", ""]
        command += ["--dir", str(self._data), "--appendonly", "yes", "--appendfsync", "everysec"]
        self._processes.start(_NAME, [*command, "--maxmemory-policy", "noeviction"])
        if not wait_until(self._answers, PATIENCE):
            self._processes.must_run(_NAME)
            raise RuntimeError(f"redis-server does not answer at {address}:{port}")
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.stop(_NAME)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(self._place, 1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False
