"""The cluster's own network: one bridge that pods, the API server's address and the service range live on.

No packet for a cluster address leaves the machine: the service range is routed to the bridge before anything starts, and what
comes from the bridge is not forwarded anywhere else.
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
"""The file in the run folder that says how forwarding was set before, and with that, that this cluster made the bridge."""

_STAYS = ["FORWARD", "-i", BRIDGE, "!", "-o", BRIDGE, "-m", "comment", "--comment", "baton-cluster", "-j", "REJECT"]
_OURS = re.compile(r"KUBE-|baton-cluster")


def make_bridge(folder: Path) -> None:
    """Raises ClusterError where the machine has a Kubernetes of its own, or the addresses are taken.

    What was changed on the machine is noted in the run folder, for `remove_bridge`.
    """
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
    """Removes the bridge with its routes and links, and every rule that the cluster's programs made. Safe to repeat.

    Only where `make_bridge` made it for this run folder: a bridge or rules that were there before belong to others.
    """
    before = folder / _BEFORE
    if not before.exists():
        return
    for family in ("iptables", "ip6tables"):
        _remove_rules(family)
    for link in _LINKS.iterdir():
        if (link / "master").exists() and (link / "master").resolve().name == BRIDGE:
            _run("ip", "link", "del", link.name, check=False)  # a pod's; it may be going by itself
    if (_LINKS / BRIDGE).exists():
        _run("ip", "link", "del", BRIDGE)
    _FORWARDING.write_text(before.read_text())
    before.unlink()


def _refuse_conflicts(folder: Path) -> None:
    if (_LINKS / BRIDGE).exists():
        raise ClusterError(
            f"there is a link {BRIDGE} that no run folder in {folder.parent} knows: stop whose it is, "
            f"or remove it with `ip link del {BRIDGE}`"
        )
    if ":KUBE-SERVICES " in _run("iptables-save"):
        raise ClusterError(
            "iptables has chains of another Kubernetes on this machine, which a test cluster would disturb: stop that first"
        )
    for address in (ADDRESS, KUBERNETES_SERVICE):
        if route := _run("ip", "route", "show", "match", address, "scope", "link").strip():
            raise ClusterError(f"the cluster's address {address} is taken by the route `{route}`: remove that first")


def _refuse_a_taken_port(port: int, who: str) -> None:
    try:
        socket.create_server((ADDRESS, port)).close()
    except OSError as error:
        raise ClusterError(f"port {port} is taken by {who} that listens on all addresses ({error.strerror}): stop it") from None


def _remove_rules(family: str) -> None:
    """Keep all rules and chains but those of the cluster: written back whole, table by table, as one change each."""
    kept = [line for line in _run(f"{family}-save", check=False).splitlines() if not _OURS.search(line)]
    if kept:
        _run(f"{family}-restore", text="\n".join(kept) + "\n", check=False)


def _run(*command: str, text: str | None = None, check: bool = True) -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise ClusterError(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
    return done.stdout
