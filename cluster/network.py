"""The cluster's network: a bridge with the pods, the API server's address and the service range.

No packet for a cluster address leaves the machine: the service range is routed to the bridge before anything starts, and packets
from the bridge are not forwarded elsewhere.
"""

import re
import socket
import subprocess
from pathlib import Path

from cluster.faults import ClusterError

BRIDGE = "batonbr0"
ADDRESS = "10.244.77.1"
POD_RANGE = "10.244.77.0/24"
SERVICE_RANGE = "10.96.0.0/16"
KUBERNETES_SERVICE = "10.96.0.1"

_LINKS = Path("/sys/class/net")
_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
_BEFORE = "ip_forward"
"""The file in the run folder with the previous setting of forwarding. It also marks that this cluster made the bridge."""

_STAYS = ["FORWARD", "-i", BRIDGE, "!", "-o", BRIDGE, "-m", "comment", "--comment", "baton-cluster", "-j", "REJECT"]
_OURS = re.compile(r"KUBE-|baton-cluster")


def make_bridge(folder: Path) -> None:
    """Make the bridge, and record changes of the machine in the run folder for `remove_bridge`. Raises ClusterError if the
    machine runs another Kubernetes, or the addresses are taken."""
    _refuse_conflicts(folder)
    (folder / _BEFORE).write_text(_FORWARDING.read_text())
    _run("ip", "link", "add", BRIDGE, "type", "bridge")
    _run("ip", "addr", "add", f"{ADDRESS}/24", "dev", BRIDGE)
    _run("ip", "link", "set", BRIDGE, "up")
    _run("ip", "route", "add", SERVICE_RANGE, "dev", BRIDGE)
    _run("iptables", "-I", *_STAYS)
    _FORWARDING.write_text("1")
    _refuse_a_taken_port(53, "a name server")


def remove_bridge(folder: Path) -> None:
    """Remove the bridge with its routes and links, and all rules of the cluster's programs. Safe to repeat.

    Does nothing unless `make_bridge` made the bridge for this run folder: another bridge and its rules belong to others.
    """
    before = folder / _BEFORE
    if not before.exists():
        return
    for family in ("iptables", "ip6tables"):
        _remove_rules(family)
    for link in _LINKS.iterdir():
        if (link / "master").exists() and (link / "master").resolve().name == BRIDGE:
            _run("ip", "link", "del", link.name, check=False)  # a pod's, which may be gone already
    if (_LINKS / BRIDGE).exists():
        _run("ip", "link", "del", BRIDGE)
    _FORWARDING.write_text(before.read_text())
    before.unlink()


def _refuse_conflicts(folder: Path) -> None:
    if (_LINKS / BRIDGE).exists():
        raise ClusterError(
            f"there is a link {BRIDGE} that belongs to no run folder in {folder.parent}: stop its owner, "
            f"or remove it with `ip link del {BRIDGE}`"
        )
    if ":KUBE-SERVICES " in _run("iptables-save"):
        raise ClusterError(
            "iptables has chains of another Kubernetes on this machine, which a test cluster would disturb: stop that one first"
        )
    for address in (ADDRESS, KUBERNETES_SERVICE):
        if route := _run("ip", "route", "show", "match", address, "scope", "link").strip():
            raise ClusterError(f"the cluster's address {address} is taken by the route `{route}`: remove that first")


def _refuse_a_taken_port(port: int, who: str) -> None:
    try:
        socket.create_server((ADDRESS, port)).close()
    except OSError as error:
        raise ClusterError(f"port {port} is taken by {who} listening on all addresses ({error.strerror}): stop it") from None


def _remove_rules(family: str) -> None:
    """Write back all rules and chains except the cluster's, each table in one change."""
    kept = [line for line in _run(f"{family}-save", check=False).splitlines() if not _OURS.search(line)]
    if kept:
        _run(f"{family}-restore", text="\n".join(kept) + "\n", check=False)


def _run(*command: str, text: str | None = None, check: bool = True) -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise ClusterError(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
    return done.stdout
