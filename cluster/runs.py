"""Run folders: each has everything of a cluster, by which it is found again after its process has ended.

A folder belongs to the process that made it, and is watched by a guard, a second process. Once the owner has ended, however it
ended, the folder is abandoned: the guard removes it with its cluster, or else the next process that claims a folder.
A cluster that was left running on purpose belongs to the clone that started it.

The folder identifies everything of a cluster: processes by their pids and start times in it and by a mark in their environment,
containers by the node's namespaces, and the network and its rules by their names.
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
"""The same for every process that cleans up, so not TMPDIR; on a disk, because it has containers' files."""

NODE = "node"
"""The name of the folder of the only cluster with a node."""

_KEPT = "nobody"


def claim(folder: Path, owner: int) -> None:
    """Remove abandoned clusters, and make the run folder for the process `owner`. Raises ClusterError if it is in use."""
    with exclusive():
        remove_abandoned()
        if folder.exists():
            raise ClusterError(f"the cluster {whose(folder)}")
        folder.mkdir(mode=0o700)
        (folder / "owner").write_text(f"{owner} {start_time(owner)}\n")
        (folder / "clone").write_text(f"{ROOT}\n")


def keep(folder: Path) -> None:
    """Detach the cluster from its process: it runs until `down`."""
    with exclusive():
        (folder / "owner").write_text(f"{_KEPT}\n")


def guard(folder: Path, owner: Process) -> None:
    """Wait for the owner's end, and remove the cluster if the owner did not."""
    try:
        descriptor = os.pidfd_open(owner.pid)
    except ProcessLookupError:
        descriptor = None
    if descriptor is not None and owner.alive():
        select.select([descriptor], [], [])
    with exclusive():
        # It may be kept by now, or a quicker process may have a cluster here already.
        if folder.exists() and is_abandoned(folder):
            sweep(folder)


def down(*, everything: bool = False) -> Iterator[str]:
    """Remove abandoned clusters and stop those that this clone left running; `everything`: also those of other clones. Yields
    lines about what was done, and about the owners of the others."""
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
    """Remove the clusters whose owner has ended."""
    for folder in folders():
        if is_abandoned(folder):
            sweep(folder)


def is_kept(folder: Path) -> bool:
    """Whether the cluster was left running on purpose and is still running; after a restart of the machine it is not."""
    registry = Registry(folder)
    running = [process for name in registry.names() if (process := registry.find(name)) and process.alive()]
    return _text(folder, "owner") == _KEPT and bool(running)


def is_abandoned(folder: Path) -> bool:
    return owner(folder) is None and not is_kept(folder)


def is_ours(folder: Path) -> bool:
    """Whether this clone started the cluster."""
    return _clone(folder) == ROOT


def owner(folder: Path) -> Process | None:
    """The process that owns the cluster, if it is running."""
    try:
        pid, started = map(int, _text(folder, "owner").split())
    except ValueError:
        return None
    process = Process(pid, started)
    return process if process.alive() else None


def whose(folder: Path) -> str:
    """A sentence about the cluster's owner, and how to end the cluster."""
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
    """Lock the run folders: one process at a time claims or removes them."""
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
    """The root of the clone that started the cluster. None: an earlier version of Baton did, which did not record it."""
    text = _text(folder, "clone")
    return Path(text) if text else None


def _text(folder: Path, name: str) -> str:
    try:
        return (folder / name).read_text().strip()
    except OSError:
        return ""


def sweep(folder: Path) -> None:
    """Stop the cluster of this run folder, and remove it with the folder. Safe to repeat. Raises ClusterError if that fails."""
    registry = Registry(folder)
    others = [name for name in registry.names() if (process := registry.find(name)) and process.pid != os.getpid()]
    for name in others:
        registry.signal(name, signal.SIGKILL)  # the end of the node's first process ends everything in its namespaces
    for name in others:
        registry.stop(name, grace=0)
    _kill_marked(folder)
    if folder.name == NODE:
        if (folder / "made").exists():  # otherwise there were no pods, and the groups belong to another Kubernetes
            _remove_control_groups()
        remove_bridge(folder)
        remove_folders(folder)
    _unmount(folder)
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        raise ClusterError(f"{folder} could not be removed: remove it by hand")


def _kill_marked(folder: Path) -> None:
    """Kill processes without a pid file: a supervisor may have been killed between starting one and recording it."""

    def gone() -> bool:
        left = marked(folder)
        for process in left:
            process.signal(signal.SIGKILL)
        return not left

    if not wait_until(gone, PATIENCE):
        raise ClusterError(f"processes of {folder} do not end: {', '.join(str(process.pid) for process in marked(folder))}")


def _unmount(folder: Path) -> None:
    """Unmount everything in the folder. The node has its own mount namespace, so there should be nothing, but the folder is
    deleted next, and a leftover bind mount could be the machine's /usr."""
    for point in sorted(_mounts(folder), key=len, reverse=True):
        subprocess.run(["umount", "--lazy", point], capture_output=True, check=False)
    if left := _mounts(folder):
        raise ClusterError(f"cannot unmount {left[0]}: unmount it, then run: make cluster-down")


def _mounts(folder: Path) -> list[str]:
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [point for point in points if point.startswith(f"{folder}/")]


def _remove_control_groups() -> None:
    """Remove the control groups of pods. The kernel allows that only once their last process has been reaped."""
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
