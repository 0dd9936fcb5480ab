"""Processes that a cluster started, remembered by pid and start time, so that nothing else is ever stopped."""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.cluster.faults import ClusterError


class Process(NamedTuple):
    """A process that cannot be mistaken for a later one with the same pid."""

    pid: int
    started: int
    """Clock ticks after the machine's start."""

    def alive(self) -> bool:
        """Running, not a zombie, and the very process."""
        return start_time(self.pid) == self.started

    def signal(self, number: int) -> None:
        """Does nothing where the process has ended."""
        if self.alive():
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return


def start_time(pid: int) -> int | None:
    """When this process started, in clock ticks after the machine's start; None where there is none or it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])


def processes() -> Iterable[tuple[int, str]]:
    """All pids with their command lines, arguments separated by blanks."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield int(entry.name), (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue


def children(pid: int) -> list[Process]:
    """The direct children of a process."""
    found = []
    for child, _ in processes():
        try:
            parent = int(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid and (started := start_time(child)) is not None:
            found.append(Process(child, started))
    return found


class Registry:
    """The processes of one run folder: one file per name in `pids/`, which outlives whoever started them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pids = folder / "pids"
        self._logs = folder / "log"
        self._owned: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start a program with its output in `log/NAME`."""
        self._pids.mkdir(parents=True, exist_ok=True)
        self._logs.mkdir(parents=True, exist_ok=True)
        with (self._logs / name).open("ab") as log:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env={**os.environ, **(environment or {})},
                start_new_session=True,  # Ctrl-C is for the supervisor, which then stops everything in order
            )
        self._owned[process.pid] = process
        (self._pids / name).write_text(f"{process.pid} {start_time(process.pid) or 0}\n")

    def find(self, name: str) -> Process | None:
        """The named process, if it was started; it may have ended."""
        try:
            pid, started = (self._pids / name).read_text().split()
        except (OSError, ValueError):
            return None
        return Process(int(pid), int(started))

    def names(self) -> list[str]:
        """All that were started, oldest first."""
        if not self._pids.is_dir():
            return []
        return [path.name for path in sorted(self._pids.iterdir(), key=lambda path: path.stat().st_mtime_ns)]

    def stop(self, name: str, grace: float = 10.0) -> None:
        """SIGTERM, and SIGKILL after `grace` seconds; then it is forgotten."""
        process = self.find(name)
        if process is not None:
            process.signal(signal.SIGTERM)
            if not wait_until(lambda: self._ended(process), grace):
                process.signal(signal.SIGKILL)
                wait_until(lambda: self._ended(process), 5)
        (self._pids / name).unlink(missing_ok=True)

    def must_run(self, name: str) -> None:
        """Raises ClusterError with the end of its log where the process has ended."""
        process = self.find(name)
        if process is None or self._ended(process):
            log = self._logs / name
            tail = log.read_text(errors="replace")[-2000:] if log.exists() else ""
            raise ClusterError(f"{name} has stopped; the end of {log}:\n{tail}")

    def _ended(self, process: Process) -> bool:
        if (owned := self._owned.get(process.pid)) is not None:
            owned.poll()
        return not process.alive()


def wait_until(condition: Callable[[], bool], seconds: float, every: float = 0.05) -> bool:
    """Whether the condition came true within this time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(every)
    return True


def share_the_root_mount() -> None:
    """Make the root mount shared, as the kubelet's mount propagation needs it. Harmless where it is already."""
    libc = ctypes.CDLL(None, use_errno=True)
    shared, recursive = 1 << 20, 1 << 14
    if libc.mount(b"none", b"/", None, shared | recursive, None):
        raise ClusterError(f"the root mount cannot be made shared: {os.strerror(ctypes.get_errno())}; are you root?")
