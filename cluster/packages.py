"""The Debian packages that a node and tests need, by the programs in them."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from cluster.faults import ClusterError
from cluster.progress import shown_progress

PACKAGES = {
    "ip": "iproute2",
    "unshare": "util-linux",
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "bridge": "containernetworking-plugins",
    "iptables-save": "iptables",
    "conntrack": "conntrack",
    "redis-server": "redis-server",
    "java": "openjdk-17-jre-headless",
    "javac": "openjdk-17-jdk-headless",
    "mvn": "maven",
    "buildah": "buildah",
    "mmdebstrap": "mmdebstrap",
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "chromium": "chromium",
    "openssl": "openssl",
    "ps": "procps",
}
"""The package of each program that cluster, demo and tests start. A test compares this with the code."""

NODE = ("ip", "unshare", "containerd", "ctr", "runc", "bridge", "iptables-save", "conntrack")
"""The programs that a cluster with a node needs."""

RELEASE = "bookworm"
_LISTS = (".list", ".sources")
CNI_PROGRAMS = Path("/usr/lib/cni")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Debian's folders of programs, including those for root."""


def require(*programs: str) -> None:
    """Raise ClusterError, with a cure, if a package is missing."""
    if packages := _missing(programs):
        raise ClusterError(f"missing {packages}: run `make machine` as root, or install by hand")


def install(*programs: str) -> None:
    """Install the missing packages of these programs with apt-get. Raises ClusterError if that fails."""
    packages = _missing(programs)
    if not packages:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise ClusterError(f"missing {packages}: install as root (apt-get install {packages})")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "install", "--yes", "--quiet=2", "--no-install-recommends", *packages.split()]
    with shown_progress(f"installing {packages}", "1 to 2 minutes"):
        for attempt in (["apt-get", "update", "--quiet=2"], command):
            done = subprocess.run(
                attempt, check=False, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
    if done.returncode != 0:
        sys.stderr.write(done.stdout)
        raise ClusterError(f"apt-get could not install {packages}: see its lines above")


def make_debian(place: Path, *included: str) -> None:
    """Create a minimal Debian 12 with these packages, in a folder or an archive, from the sources of this machine's apt. Raises
    ClusterError."""
    require("mmdebstrap")
    apt = Path("/etc/apt")
    lists = [path for path in (apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))) if path.suffix in _LISTS]
    debian = re.compile(rf"/debian\b.*?\b{RELEASE}\b.*?\bmain\b", re.DOTALL)
    sources = [str(path) for path in lists if path.exists() and debian.search(path.read_text())]
    settings = [path for path in (apt / "apt.conf.d").glob("*") if re.search(r"::(Proxy|Verify|CaInfo)", path.read_text())]
    options = ["--quiet", "--variant=minbase", f"--include={','.join(included)}", *(f"--aptopt={path}" for path in settings)]
    done = subprocess.run(["mmdebstrap", *options, RELEASE, str(place), *sources], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise ClusterError(f"mmdebstrap failed: {(done.stdout + done.stderr).strip()[-2000:]}")


def _missing(programs: Iterable[str]) -> str:
    """The packages of the programs that this machine lacks, separated by spaces."""
    return " ".join(sorted({PACKAGES[program] for program in programs if not _found(program)}))


def _found(program: str) -> bool:
    # `bridge` is also a program of iproute2; only the one in the plugins' folder counts.
    java_home = os.environ.get("JAVA_HOME", "")
    places = (str(CNI_PROGRAMS),) if program == "bridge" else (_PATH, os.environ.get("PATH", ""), f"{java_home}/bin")
    return any(shutil.which(program, path=place) for place in places)
