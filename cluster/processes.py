"""Processes of a cluster, recorded by pid and start time, so that no other process is ever stopped."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from cluster.faults import ClusterError
from cluster.waiting import PATIENCE, wait_until

_MARK = "BATON_CLUSTER"
"""The environment variable with the run folder, inherited by all descendants."""

_NOT_INHERITED = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
"""Variables to remove: requests between the cluster's programs must not go through a proxy."""


class Process(NamedTuple):
    """A process, distinguished by its start time from a later one with the same pid."""

    pid: int
    started: int
    """Clock ticks after the machine's start."""

    def alive(self) -> bool:
        """Whether the process is running, and not a zombie."""
        return start_time(self.pid) == self.started

    def signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.alive():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


def start_time(pid: int) -> int | None:
    """When the process started, in clock ticks after the machine's start; None: no such process, or it has ended.

    A process whose first thread has ended while others end still holds its sockets: it has not ended.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    state, threads, started = fields[0], int(fields[17]), int(fields[19])
    return None if state == "X" or (state == "Z" and threads <= 1) else started


def marked(folder: Path) -> list[Process]:
    """The processes of this run folder and their descendants, except those of containers, which have no mark."""
    return with_variable(_MARK, str(folder))


def with_variable(name: str, value: str) -> list[Process]:
    """The other processes that were started with this environment variable."""
    mark = f"{name}={value}".encode()
    found = []
    for pid in _pids():
        with suppress(OSError):  # it ended meanwhile
            if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") and (started := start_time(pid)) is not None:
                found.append(Process(pid, started))
    return [process for process in found if process.pid != os.getpid()]


def children(pid: int) -> list[Process]:
    """The direct children of a process."""
    found = []
    for child in _pids():
        with suppress(OSError):
            parent = int(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid and (started := start_time(child)) is not None:
                found.append(Process(child, started))
    return found


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


class Registry:
    """The processes of a run folder, each with a file in `pids/`, which outlives the process that started it.

    Each process leads a process group, and is signalled with its group.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pids = folder / "pids"
        self._logs = folder / "log"
        self._owned: dict[int, subprocess.Popen[bytes]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """The state for another process, which is not the parent of these processes."""
        return {**vars(self), "_owned": {}}

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> Process:
        """Start a program in the run folder, with its output in `log/NAME`."""
        self._pids.mkdir(parents=True, exist_ok=True)
        self._logs.mkdir(parents=True, exist_ok=True)
        inherited = {key: value for key, value in os.environ.items() if key.lower() not in _NOT_INHERITED}
        with (self._logs / name).open("ab") as log:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env={**inherited, **(environment or {}), _MARK: str(self._folder)},
                start_new_session=True,  # Ctrl-C is for the supervisor, which then stops everything in order
            )
        self._owned[process.pid] = process
        started = Process(process.pid, start_time(process.pid) or 0)
        (self._pids / name).write_text(f"{started.pid} {started.started}\n")
        return started

    def find(self, name: str) -> Process | None:
        """The named process if it was started, even if it has ended."""
        try:
            pid, started = (self._pids / name).read_text().split()
        except (OSError, ValueError):
            return None
        return Process(int(pid), int(started))

    def names(self) -> list[str]:
        """The names of all processes, the oldest first."""
        if not self._pids.is_dir():
            return []
        return [path.name for path in sorted(self._pids.iterdir(), key=lambda path: path.stat().st_mtime_ns)]

    def signal(self, name: str, number: int) -> None:
        """Send a signal to the named process and its group, unless it has ended."""
        process = self.find(name)
        if process is not None and process.alive():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)

    def stop(self, name: str, grace: float = 10.0) -> None:
        """Stop the named process by SIGTERM, and by SIGKILL after `grace` seconds, and remove its record."""
        process = self.find(name)
        if process is not None:
            if grace > 0:
                self.signal(name, signal.SIGTERM)
            if not wait_until(lambda: self._ended(process), grace):
                self.signal(name, signal.SIGKILL)
                wait_until(lambda: self._ended(process), PATIENCE)
        (self._pids / name).unlink(missing_ok=True)

    def must_run(self, name: str) -> None:
        """Raise ClusterError with the end of the process's log if it has ended."""
        process = self.find(name)
        if process is None or self._ended(process):
            log = self._logs / name
            tail = log.read_text(errors="replace")[-2000:] if log.exists() else ""
            raise ClusterError(f"{name} has stopped; the end of {log}:\n{tail}")

    def wait(self, name: str, condition: Callable[[], bool], problem: str, every: float = 0.05) -> None:
        """Wait until the condition is true. Raises ClusterError if the process ends first, or with `problem` after PATIENCE."""

        def fulfilled() -> bool:
            self.must_run(name)
            return condition()

        if not wait_until(fulfilled, PATIENCE, every):
            raise ClusterError(f"{problem}; see {self._logs / name}")

    def _ended(self, process: Process) -> bool:
        if (owned := self._owned.get(process.pid)) is not None:
            owned.poll()
        return not process.alive()
