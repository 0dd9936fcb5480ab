"""The queue's server: a Redis of the demo's own."""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from demo.story import Story


@contextmanager
def redis_server(address: str, folder: Path, story: Story) -> Iterator[str]:
    """A Redis on a free port of this address, with an append-only file as the queue's promises need it; gives its URL."""
    folder.mkdir(parents=True, exist_ok=True)
    with socket.create_server((address, 0)) as probe:
        port = probe.getsockname()[1]
    command = ["redis-server", "--bind", address, "--port", str(port), "--protected-mode", "no", "--save", ""]
    command += ["--dir", str(folder), "--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory-policy", "noeviction"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    (folder / "pid").write_text(str(process.pid))
    try:
        _answering(address, port, process, folder / "log")
        story.good(f"redis-server at {address}:{port}")
        yield f"redis://{address}:{port}/0"
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answering(address: str, port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 10
    while time.monotonic() < end and process.poll() is None:
        try:
            with socket.create_connection((address, port), 1) as connection:
                connection.sendall(b"PING\r\n")
                if connection.recv(16).startswith(b"+PONG"):
                    return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"redis-server did not start: {log.read_text()[-1000:]}")
