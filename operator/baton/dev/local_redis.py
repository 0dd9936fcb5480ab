"""A Redis or Valkey server for the lifetime of `baton dev`."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import redis

from baton.dev.folder import DevError

NO_SERVER = "found neither redis-server nor valkey-server: install one (apt-get install redis-server, or brew install redis)"
_STARTS_WITHIN = 30.0
_WHILE_READ = '"$@" & server=$!; cat; kill "$server"; wait "$server"'
"""Runs a server until its standard input is closed, however the process at the other end ends."""


@contextmanager
def local_redis(asked_to_end: Callable[[], bool]) -> Iterator[str]:
    """Start a server without persistence, yield its URL, and stop it. Stops waiting for the server once `asked_to_end()` is true.
    Raises DevError."""
    program = server_program()
    if program is None:
        raise DevError(f"{NO_SERVER}, or name a running one with --redis-url")
    with tempfile.TemporaryDirectory(prefix="baton-dev-") as directory:
        port = _free_port()
        command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", directory, "--save", "", "--appendonly", "no"]
        process = subprocess.Popen(
            ["sh", "-c", _WHILE_READ, "sh", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for this process, which ends it last
        )
        try:
            url = f"redis://127.0.0.1:{port}/0"
            _wait(url, process, asked_to_end)
            yield url
        finally:
            process.communicate()


def server_program(environment: Mapping[str, str] = os.environ) -> str | None:
    """The first of redis-server and valkey-server on PATH."""
    names, folders = ("redis-server", "valkey-server"), os.get_exec_path(environment)
    return next((found for folder in folders for name in names if (found := shutil.which(name, path=folder))), None)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait(url: str, process: "subprocess.Popen[bytes]", asked_to_end: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _STARTS_WITHIN
    with redis.Redis.from_url(url) as client:
        while process.poll() is None and time.monotonic() < deadline:
            try:
                client.ping()
                return
            except redis.RedisError:
                if asked_to_end():
                    return
                time.sleep(0.02)
    raise DevError("redis-server did not start: start one by hand, and name it with --redis-url")
