"""The queue's server: a Redis of the demo's own."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.processes import Registry, wait_until

from demo.story import Story

_NAME = "redis-server"


@contextmanager
def redis_server(address: str, folder: Path, story: Story) -> Iterator[str]:
    """A Redis on a free port of this address, with an append-only file as the queue's promises need it; gives its URL.

    It is one more process of the cluster with this run folder, so whatever stops the cluster stops it too.
    """
    data = folder / "redis"
    data.mkdir(parents=True, exist_ok=True)
    with socket.create_server((address, 0)) as probe:
        port = probe.getsockname()[1]
    command = [_NAME, "--bind", address, "--port", str(port), "--protected-mode", "no", "--save", ""]
    command += ["--dir", str(data), "--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory-policy", "noeviction"]
    processes = Registry(folder)
    processes.start(_NAME, command)
    try:
        if not wait_until(lambda: _answers(address, port), 10):
            processes.must_run(_NAME)
            raise RuntimeError(f"redis-server does not answer at {address}:{port}")
        story.good(f"redis-server at {address}:{port}")
        yield f"redis://{address}:{port}/0"
    finally:
        processes.stop(_NAME)


def _answers(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), 1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False
