"""What a cluster could leave behind on a machine, as one value to compare."""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from cluster.processes import marked
from cluster.runs import NODE, RUNS

_FOLDERS = ("/run/containerd", "/var/lib/cni", "/var/lib/kubelet", "/var/log/containers", "/var/log/pods")


@dataclass(frozen=True)
class Machine:
    processes: tuple[str, ...]
    """Command lines of what a node's supervisor started, and of what runs in its containers."""
    mounts: tuple[str, ...]
    """With their propagation."""
    links: tuple[str, ...]
    routes: tuple[str, ...]
    rules: tuple[str, ...]
    folders: tuple[str, ...]
    forwarding: str

    @classmethod
    def now(cls) -> "Machine":
        return cls(
            processes=_processes(),
            mounts=tuple(sorted(" ".join(line.split()[4:7]) for line in _lines(Path("/proc/self/mountinfo")))),
            links=tuple(sorted(path.name for path in Path("/sys/class/net").iterdir())),
            routes=tuple(sorted(_output("ip", "route") + _output("ip", "-6", "route"))),
            rules=tuple(line for family in ("iptables", "ip6tables") for line in _output(f"{family}-save") if _is_rule(line)),
            folders=tuple(str(path) for path in (*map(Path, _FOLDERS), *_control_groups(), RUNS / NODE) if path.exists()),
            forwarding=Path("/proc/sys/net/ipv4/ip_forward").read_text(),
        )


def _processes() -> tuple[str, ...]:
    found = [f"{process.pid} {name}" for process in marked(RUNS / NODE) for name in _read(Path(f"/proc/{process.pid}/comm"))]
    folders = [Path(folder) for group in _control_groups() for folder, _, _ in os.walk(group)]
    return (*found, *(pid for folder in folders for pid in _read(folder / "cgroup.procs")))


def _read(path: Path) -> list[str]:
    """Its lines; none where it has gone since it was listed."""
    try:
        return _lines(path)
    except OSError:
        return []


def _control_groups() -> list[Path]:
    root = Path("/sys/fs/cgroup")
    return [path for path in (root / "kubepods", *root.glob("*/kubepods")) if path.exists()]


def _is_rule(line: str) -> bool:
    """A rule, or a chain that is not built in; an empty table that was looked at once stays, and does nothing."""
    return line.startswith("-A") or re.match(r":\S+ - ", line) is not None


def _output(*command: str) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()
