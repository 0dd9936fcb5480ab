"""Leaves nothing behind: whatever a cluster started, also when it was killed in the middle of its work.

Everything is recognised by the run folder: processes by the pids that stand there (with their start times) and by the mark in
their environment, containers by their being in the node's namespaces, network and rules by the names they were given.
"""

import os
import shutil
import signal
import subprocess
from pathlib import Path

from cluster.faults import ClusterError
from cluster.namespace import remove_folders
from cluster.network import remove_bridge
from cluster.processes import Registry, marked
from cluster.waiting import PATIENCE, wait_until


def sweep(folder: Path, *, node: bool) -> None:
    """Stop and remove what belongs to this run folder, and the folder. Safe to repeat. Raises ClusterError where that fails."""
    registry = Registry(folder)
    others = [name for name in registry.names() if (process := registry.find(name)) and process.pid != os.getpid()]
    for name in others:
        registry.signal(name, signal.SIGKILL)  # with the node's first process, everything in its namespaces
    for name in others:
        registry.stop(name, grace=0)
    _kill_marked(folder)
    if node:
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
