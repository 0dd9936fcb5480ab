"""Run folders: where a cluster keeps everything it has, and by which it is found again after whoever started it has gone.

A folder belongs to the process that made it. When that process has ended, however it ended, the folder is abandoned and the next
who comes removes it with all that hangs on it; unless the cluster was left running on purpose.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.faults import ClusterError
from cluster.processes import Process, Registry, start_time
from cluster.sweep import sweep

RUNS = Path("/var/tmp") / f"baton-cluster-{os.geteuid()}"
"""The same for whoever cleans up, hence not the environment's temporary folder; and on a disk, as containers' files lie here."""

NODE = "node"
"""The folder of the one cluster with a node."""

_KEPT = "nobody"


def claim(folder: Path) -> None:
    """Make the run folder for this process, having removed what is abandoned. Raises ClusterError where it is in use."""
    with exclusive():
        remove_abandoned()
        if folder.exists():
            cure = "wait for that to end" if owner(folder) else "stop it with: make cluster-down"
            raise ClusterError(f"the cluster {in_use(folder)}: {cure}")
        folder.mkdir(mode=0o700)
        (folder / "owner").write_text(f"{os.getpid()} {start_time(os.getpid())}\n")


def keep(folder: Path) -> None:
    """From now on the cluster belongs to nobody: it runs until `down`."""
    (folder / "owner").write_text(f"{_KEPT}\n")


def folders() -> list[Path]:
    """All run folders of this user."""
    return sorted(path for path in RUNS.iterdir() if path.is_dir()) if RUNS.is_dir() else []


def remove_abandoned() -> None:
    """Remove what clusters left whose owner has ended."""
    for folder in folders():
        if is_abandoned(folder):
            sweep(folder, node=folder.name == NODE)


def is_kept(folder: Path) -> bool:
    """It was left running on purpose, and does run: after a restart of the machine it does not."""
    registry = Registry(folder)
    running = [process for name in registry.names() if (process := registry.find(name)) and process.alive()]
    return _owner_text(folder) == _KEPT and bool(running)


def is_abandoned(folder: Path) -> bool:
    return owner(folder) is None and not is_kept(folder)


def owner(folder: Path) -> Process | None:
    """The process that the cluster belongs to, if it still runs."""
    try:
        pid, started = map(int, _owner_text(folder).split())
    except ValueError:
        return None
    process = Process(pid, started)
    return process if process.alive() else None


def in_use(folder: Path) -> str:
    """Who uses it, for a message."""
    if (process := owner(folder)) is None:
        return f"{folder.name} was left running"
    try:
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        command = "ended just now"
    return f"{folder.name} is in use by process {process.pid} ({command[:80]})"


@contextmanager
def exclusive() -> Iterator[None]:
    """Only one process at a time claims or removes run folders."""
    RUNS.mkdir(mode=0o700, exist_ok=True)
    if RUNS.stat().st_uid != os.geteuid():
        raise ClusterError(f"{RUNS} belongs to another user: remove it")
    descriptor = os.open(RUNS, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _owner_text(folder: Path) -> str:
    try:
        return (folder / "owner").read_text().strip()
    except OSError:
        return ""
