"""The Debian packages that a node and the tests need, found by the programs that they bring."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from cluster.faults import ClusterError
from cluster.progress import told

CONTROL_PLANE = {"ip": "iproute2"}
"""program -> package, for a cluster without a node."""

NODE = {
    **CONTROL_PLANE,
    "unshare": "util-linux",
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "bridge": "containernetworking-plugins",
    "iptables-save": "iptables",
    "conntrack": "conntrack",
}

TESTS = {
    **NODE,
    "redis-server": "redis-server",
    "javac": "openjdk-17-jdk-headless",
    "buildah": "buildah",
    "mmdebstrap": "mmdebstrap",
    "prometheus": "prometheus",
    "chromium": "chromium",
}
"""… and for everything that the tests and the demo start."""

CNI_PROGRAMS = Path("/usr/lib/cni")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where the cluster's processes look for programs."""


def missing(needed: dict[str, str]) -> list[str]:
    """The packages, in order, whose programs are not on this machine."""
    return sorted({package for program, package in needed.items() if not _found(program)})


def require(needed: dict[str, str]) -> None:
    """Raises ClusterError with the command that helps if a package is missing."""
    if packages := missing(needed):
        raise ClusterError(f"missing {_enumerate(packages)}: run `python -m cluster packages` as root, or install by hand")


def install(needed: dict[str, str]) -> None:
    """Install what is missing with apt-get; raises ClusterError when that is not possible."""
    packages = missing(needed)
    if not packages:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise ClusterError(f"missing {_enumerate(packages)}: install as root (apt-get install {' '.join(packages)})")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "install", "--yes", "--quiet=2", "--no-install-recommends", *packages]
    with told(f"installing {_enumerate(packages)}", "1 to 2 minutes"):
        for attempt in (["apt-get", "update", "--quiet=2"], command):
            done = subprocess.run(
                attempt, check=False, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
    if done.returncode != 0:
        sys.stderr.write(done.stdout)
        raise ClusterError(f"apt-get could not install {_enumerate(packages)}: see its lines above")


def _found(program: str) -> bool:
    # `bridge` is also a program of iproute2: only the one in the plugins' folder counts.
    return shutil.which(program, path=str(CNI_PROGRAMS) if program == "bridge" else PATH) is not None


def _enumerate(names: Iterable[str]) -> str:
    return ", ".join(names)
