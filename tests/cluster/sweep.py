"""Leaves nothing behind: whatever a cluster started, also when it was killed in the middle of its work.

Everything is recognised by the run folder: processes by the pids that stand there (with their start times), shims by their
socket in it, mounts by their place in it.
"""

import os
import shutil
import signal
import subprocess
from pathlib import Path

from tests.cluster.network import remove_bridge
from tests.cluster.processes import Process, Registry, children, processes, start_time, wait_until

_STOP_ORDER = ("kubelet", "kube-proxy", "coredns", "kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd")


def sweep(folder: Path, *, node: bool) -> None:
    """Stop and remove what belongs to this run folder, and the folder. Safe to repeat."""
    registry = Registry(folder)
    started = registry.names()
    for name in [
        *(name for name in _STOP_ORDER if name in started),
        *(n for n in started if n not in (*_STOP_ORDER, "containerd")),
    ]:
        registry.stop(name, grace=3)
    if node:
        _stop_shims(folder)
        registry.stop("containerd")
        _stop_shims(folder)
        _unmount(folder)
        _remove_control_groups()
        _remove_log_links(folder)
        remove_bridge()
    shutil.rmtree(folder, ignore_errors=True)


def _stop_shims(folder: Path) -> None:
    """Kill the containers of every shim of this folder's containerd, then the shim."""
    shims = [
        Process(pid, started)
        for pid, command in processes()
        if "containerd-shim" in command and str(folder) in command and (started := start_time(pid)) is not None
    ]
    victims = [child for shim in shims for child in children(shim.pid)]
    for victim in victims:
        victim.signal(signal.SIGCONT)
        victim.signal(signal.SIGKILL)
    wait_until(lambda: not any(victim.alive() for victim in victims), 10)
    for shim in shims:
        shim.signal(signal.SIGKILL)
    wait_until(lambda: not any(shim.alive() for shim in shims), 5)


def _unmount(folder: Path) -> None:
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    inside = [point for point in points if point.startswith(f"{folder}/")]
    for point in sorted(inside, key=len, reverse=True):
        subprocess.run(["umount", "--lazy", point], capture_output=True, check=False)


def _remove_control_groups() -> None:
    for root in (*Path("/sys/fs/cgroup").glob("*/kubepods"), Path("/sys/fs/cgroup/kubepods")):
        for place, _, _ in os.walk(root, topdown=False):
            try:
                Path(place).rmdir()
            except OSError:
                continue


def _remove_log_links(folder: Path) -> None:
    for link in Path("/var/log/containers").glob("*.log"):
        if link.is_symlink() and str(link.readlink()).startswith(str(folder)):
            link.unlink(missing_ok=True)
