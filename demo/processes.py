"""The processes of a pod, found from outside by their control group, so that one can do to them what a bad day does."""

import contextlib
import os
import signal
from pathlib import Path


def of_pod(uid: str, command: str) -> tuple[int, ...]:
    """The pids of the pod's containers but its sandbox: all of a control group in which a command line contains `command`."""
    groups: dict[str, list[int]] = {}
    wanted: set[str] = set()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError):  # a process that ended meanwhile
            group = _container(folder, uid)
            if group:
                groups.setdefault(group, []).append(int(folder.name))
                if command.encode() in (folder / "cmdline").read_bytes():
                    wanted.add(group)
    return tuple(sorted(pid for group in wanted for pid in groups[group]))


def send(pids: tuple[int, ...], what: signal.Signals) -> int:
    """Send the signal; returns to how many processes that were still there."""
    count = 0
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, what)
            count += 1
    return count


def _container(folder: Path, uid: str) -> str | None:
    """The path of the container's control group if it is the pod's. The kubelet puts the uid into it, in one of two spellings."""
    for line in (folder / "cgroup").read_text().splitlines():
        path = line.split(":", 2)[2]
        if f"pod{uid}" in path or f"pod{uid.replace('-', '_')}" in path:
            return path
    return None
