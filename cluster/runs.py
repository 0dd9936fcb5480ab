"""Run folders: where a cluster keeps everything it has, and by which it is found again when its process has ended.

A folder belongs to the process that made it, and is watched by a guard, a second process. When the owner has ended, however it
ended, the folder is abandoned: the guard removes it with all that hangs on it, else the next process that claims a folder does.
A cluster that was left running on purpose belongs to the clone that started it.

Everything of a cluster is recognised by its folder: processes by the pids that stand there (with their start times) and by the
mark in their environment, containers by their being in the node's namespaces, network and rules by the names they were given.
"""

import fcntl
import os
import select
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.faults import ClusterError
from cluster.images import ROOT
from cluster.network import remove_bridge
from cluster.node import remove_folders
from cluster.processes import Process, Registry, marked, start_time
from cluster.waiting import PATIENCE, wait_until

RUNS = Path("/var/tmp") / f"baton-cluster-{os.geteuid()}"
"""The same for each process that cleans up, hence not the environment's temporary folder; on a disk, for containers' files."""

NODE = "node"
"""The folder of the one cluster with a node."""

_KEPT = "nobody"


def claim(folder: Path, owner: int) -> None:
    """Make the run folder for the process `owner`, having removed what is abandoned. Raises ClusterError where it is in use."""
    with exclusive():
        remove_abandoned()
        if folder.exists():
            raise ClusterError(f"the cluster {whose(folder)}")
        folder.mkdir(mode=0o700)
        (folder / "owner").write_text(f"{owner} {start_time(owner)}\n")
        (folder / "clone").write_text(f"{ROOT}\n")


def keep(folder: Path) -> None:
    """From now on the cluster belongs to no process: it runs until `down`."""
    with exclusive():
        (folder / "owner").write_text(f"{_KEPT}\n")


def guard(folder: Path, owner: Process) -> None:
    """Wait for the owner's end, however long that takes, and remove the cluster that it did not take down."""
    try:
        descriptor = os.pidfd_open(owner.pid)
    except ProcessLookupError:
        descriptor = None
    if descriptor is not None and owner.alive():
        select.select([descriptor], [], [])
    with exclusive():
        # Unless it was handed over to be kept, or a quicker process already has a cluster here.
        if folder.exists() and is_abandoned(folder):
            sweep(folder)


def down(*, everything: bool = False) -> Iterator[str]:
    """Remove what is abandoned and end what this clone left running; `everything`: also what other clones left. Gives lines that
    say what was done, and whose the rest is."""
    with exclusive():
        for folder in folders():
            if owner(folder) is None and (everything or is_abandoned(folder) or is_ours(folder)):
                if kept := is_kept(folder):
                    yield f"{folder.name}: ending its processes and removing {folder} (up to a minute for a node with pods)"
                sweep(folder)
                done = "stopped" if kept else "removed what was left of"
                yield f"{done} {folder.name}"
            else:
                yield f"left alone: {whose(folder)}"


def folders() -> list[Path]:
    """All run folders of this user."""
    return sorted(path for path in RUNS.iterdir() if path.is_dir()) if RUNS.is_dir() else []


def remove_abandoned() -> None:
    """Remove what clusters left whose owner has ended."""
    for folder in folders():
        if is_abandoned(folder):
            sweep(folder)


def is_kept(folder: Path) -> bool:
    """It was left running on purpose, and does run: after a restart of the machine it does not."""
    registry = Registry(folder)
    running = [process for name in registry.names() if (process := registry.find(name)) and process.alive()]
    return _text(folder, "owner") == _KEPT and bool(running)


def is_abandoned(folder: Path) -> bool:
    return owner(folder) is None and not is_kept(folder)


def is_ours(folder: Path) -> bool:
    """This clone started it."""
    return _clone(folder) == ROOT


def owner(folder: Path) -> Process | None:
    """The process that the cluster belongs to, if it still runs."""
    try:
        pid, started = map(int, _text(folder, "owner").split())
    except ValueError:
        return None
    process = Process(pid, started)
    return process if process.alive() else None


def whose(folder: Path) -> str:
    """Which process or clone it belongs to, and how it ends, for a message."""
    clone = _clone(folder)
    if (process := owner(folder)) is not None:
        try:
            command = Path(f"/proc/{process.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            command = "ended just now"
        of = clone or "an earlier version of Baton"
        return f"{folder.name} is in use by process {process.pid} ({command[:80]}) of {of}, and ends with it"
    if is_abandoned(folder):
        return f"{folder.name} is abandoned: remove it with: make cluster-down"
    if clone == ROOT:
        return f"{folder.name} was left running by this clone: stop it with: make cluster-down"
    if clone is None:
        return f"{folder.name} was left running by an earlier version of Baton: stop it with: make cluster-down ALL=1"
    if (clone / "Makefile").exists():
        return f"{folder.name} was left running by {clone}: stop it with: make -C {shlex.quote(str(clone))} cluster-down"
    return f"{folder.name} was left running by {clone}, which is gone: stop it with: make cluster-down ALL=1"


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


def _clone(folder: Path) -> Path | None:
    """The top of the clone that started the cluster. None: an earlier version of Baton did, which did not record it."""
    text = _text(folder, "clone")
    return Path(text) if text else None


def _text(folder: Path, name: str) -> str:
    try:
        return (folder / name).read_text().strip()
    except OSError:
        return ""


def sweep(folder: Path) -> None:
    """Stop and remove what belongs to this run folder, and the folder. Safe to repeat. Raises ClusterError where that fails."""
    registry = Registry(folder)
    others = [name for name in registry.names() if (process := registry.find(name)) and process.pid != os.getpid()]
    for name in others:
        registry.signal(name, signal.SIGKILL)  # with the node's first process, everything in its namespaces
    for name in others:
        registry.stop(name, grace=0)
    _kill_marked(folder)
    if folder.name == NODE:
        if (folder / "made").exists():  # else there were no pods, and these groups are another Kubernetes'
            _remove_control_groups()
        remove_bridge(folder)
        remove_folders(folder)
    _unmount(folder)
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        raise ClusterError(f"{folder} could not be removed: look what is in it and remove it by hand")


def _kill_marked(folder: Path) -> None:
    """Those that no pid file names: a supervisor was killed in the moment between starting one and writing it down."""

    def gone() -> bool:
        left = marked(folder)
        for process in left:
            process.signal(signal.SIGKILL)
        return not left

    if not wait_until(gone, PATIENCE):
        raise ClusterError(f"processes of {folder} do not end: {', '.join(str(process.pid) for process in marked(folder))}")


def _unmount(folder: Path) -> None:
    """There should be none, as the node has a namespace of its own; but what is deleted next must not be the machine's /usr."""
    for point in sorted(_mounts(folder), key=len, reverse=True):
        subprocess.run(["umount", "--lazy", point], capture_output=True, check=False)
    if left := _mounts(folder):
        raise ClusterError(f"cannot unmount {left[0]}: unmount it, then run: make cluster-down")


def _mounts(folder: Path) -> list[str]:
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [point for point in points if point.startswith(f"{folder}/")]


def _remove_control_groups() -> None:
    """Those of pods. The kernel lets them go only when their last process has been reaped."""
    roots = [root for root in (*Path("/sys/fs/cgroup").glob("*/kubepods"), Path("/sys/fs/cgroup/kubepods")) if root.is_dir()]

    def gone() -> bool:
        for root in roots:
            for place, _, _ in os.walk(root, topdown=False):
                try:
                    Path(place).rmdir()
                except OSError:
                    continue
        return not any(root.is_dir() for root in roots)

    wait_until(gone, 20)
