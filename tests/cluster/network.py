"""The cluster's own network: one bridge that pods, the API server's address and the service range live on.

No packet for a cluster address leaves the machine: the service range is routed to the bridge before anything starts, and what
comes from the bridge is not forwarded anywhere else.
"""

import re
import subprocess
from pathlib import Path

from tests.cluster.faults import ClusterError

BRIDGE = "batonbr0"
ADDRESS = "10.244.77.1"
POD_RANGE = "10.244.77.0/24"
SERVICE_RANGE = "10.96.0.0/16"
KUBERNETES_SERVICE = "10.96.0.1"

_STAYS = ["FORWARD", "-i", BRIDGE, "!", "-o", BRIDGE, "-m", "comment", "--comment", "baton-cluster", "-j", "REJECT"]
_OURS = re.compile(r"KUBE-|baton-cluster")


def make_bridge() -> None:
    """Raises ClusterError where the machine has a Kubernetes of its own, or the addresses are taken."""
    if (Path("/sys/class/net") / BRIDGE).exists():
        raise ClusterError(
            f"the link {BRIDGE} exists: another cluster of this kind is running; stop it with: python -m tests.cluster down"
        )
    if " KUBE-SERVICES " in _run("iptables-save").replace("\n", " "):
        raise ClusterError("iptables has chains of another Kubernetes on this machine; the cluster would disturb it")
    _run("ip", "link", "add", BRIDGE, "type", "bridge")
    _run("ip", "addr", "add", f"{ADDRESS}/24", "dev", BRIDGE)
    _run("ip", "link", "set", BRIDGE, "up")
    _run("ip", "route", "replace", SERVICE_RANGE, "dev", BRIDGE)
    _run("iptables", "-I", *_STAYS)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def remove_bridge() -> None:
    """Removes the bridge with its routes and what hangs on it, and every rule that the cluster's programs made."""
    for link in Path("/sys/class/net").iterdir():
        if (link / "master").exists() and (link / "master").resolve().name == BRIDGE:
            _run("ip", "link", "del", link.name, check=False)
    if (Path("/sys/class/net") / BRIDGE).exists():
        _run("ip", "link", "del", BRIDGE, check=False)
        for family in ("iptables", "ip6tables"):
            _remove_rules(family)


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
