"""The one node: containerd, kubelet, kube-proxy and DNS on the cluster's bridge.

containerd, the kubelet, shims and containers share a PID namespace and a mount namespace, so that the kernel cleans up: when
their first process is killed, the kernel kills all others, and every mount is gone with the last one, whatever the node's
state. The network is the machine's.
"""

import json
import subprocess
from pathlib import Path

import yaml

from cluster import images
from cluster.faults import ClusterError
from cluster.network import ADDRESS, BRIDGE, POD_RANGE, SERVICE_RANGE
from cluster.packages import CNI_PROGRAMS
from cluster.processes import Process, Registry, children
from cluster.programs import KUBE, kube

NAME = "node"
_PAUSE_IMAGE = "localhost/pause:1"
_LARGEST_POD_COUNT = 100

_COREFILE = """.:53 {{
  bind {address}
  errors
  kubernetes cluster.local {{
    kubeconfig {kubeconfig} baton
  }}
}}
"""

_PRIVATE = ("/run/containerd", "/var/lib/cni", "/var/lib/kubelet", "/var/log/containers")
"""Folders that the programs write to regardless of settings: the node has its own, in memory."""

_ENTER = """
set -e
mount --make-rshared /   # in this namespace only: the kubelet's mount propagation needs it
for folder in "$@"; do mount -t tmpfs -o mode=755 baton-node "$folder"; done
# Without a name server no registry can be found, whatever an image is called.
mount --bind /dev/null /etc/resolv.conf || true
touch entered
"""

_NAMESPACE = "namespace"


class Node:
    """A node named `node` with the address of the bridge."""

    def __init__(self, folder: Path, registry: Registry) -> None:
        self._folder = folder
        self._registry = registry
        self._namespace = _Namespace(folder, registry)
        self.socket = folder / "ct" / "sock"
        self.kubelet_folder = folder / "kubelet"

    def start_runtime(self) -> None:
        """Start containerd, which needs no API server."""
        self._write_settings()
        self._namespace.make()
        self._namespace.start("containerd", ["containerd", "--config", f"{self._folder}/containerd.toml"])

    def start(self) -> None:
        """Start the other programs, once the API server is ready; the node becomes Ready a little later."""
        proxy = ("--proxy-mode=iptables", f"--cluster-cidr={POD_RANGE}", "--masquerade-all=true", "--conntrack-max-per-core=0")
        listen = (f"--metrics-bind-address={ADDRESS}:10249", f"--healthz-bind-address={ADDRESS}:10256", "--oom-score-adj=0")
        name = f"--hostname-override={NAME}"
        self._registry.start("kube-proxy", kube("kube-proxy", "--kubeconfig=proxy.kubeconfig", name, *proxy, *listen))
        self._registry.start("coredns", kube("coredns", "-conf", "Corefile"))
        self._registry.wait("containerd", lambda: self._ctr("version").returncode == 0, "containerd does not answer")
        self.load(images.pause(_PAUSE_IMAGE, KUBE.path()))
        files = (f"--config={self._folder}/kubelet.yaml", f"--kubeconfig={self._folder}/node.kubeconfig")
        folders = (f"--root-dir={self.kubelet_folder}", f"--cert-dir={self._folder}/kubelet-pki")
        self._namespace.start("kubelet", kube("kubelet", name, f"--node-ip={ADDRESS}", *files, *folders))

    def must_run(self) -> None:
        """Raise ClusterError with the end of its log if one of the node's programs has ended."""
        for program in ("containerd", "kubelet", "kube-proxy", "coredns"):
            self._registry.must_run(program)

    def load(self, archive: Path) -> None:
        """Import an image archive. Raises ClusterError."""
        try:
            done = self._ctr("-n", "k8s.io", "images", "import", str(archive))
        finally:
            archive.unlink()
        if done.returncode:
            raise ClusterError(f"the image {archive.name} was not imported: {done.stderr.strip()}")

    @staticmethod
    def container_pids(container_id: str) -> list[int]:
        """The pids of a container on this machine, from its control group, which is named by its id."""
        for root in (Path("/sys/fs/cgroup/pids/kubepods"), Path("/sys/fs/cgroup/kubepods")):
            for group in root.glob(f"**/{container_id}"):
                return [int(line) for line in (group / "cgroup.procs").read_text().split()]
        raise ClusterError(f"the container {container_id[:12]} does not run")

    def _ctr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["ctr", "--address", str(self.socket), *arguments], capture_output=True, text=True, check=False)

    def _write_settings(self) -> None:
        for name in ("ct", "cni/conf", "kubelet", "pod-logs", "plugins"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        (self._folder / "cni" / "conf" / "10-baton.conflist").write_text(json.dumps(self._network()))
        (self._folder / "containerd.toml").write_text(self._containerd())
        (self._folder / "kubelet.yaml").write_text(yaml.safe_dump(self._kubelet()))
        (self._folder / "Corefile").write_text(_COREFILE.format(address=ADDRESS, kubeconfig=self._folder / "kubeconfig"))
        (self._folder / "resolv.conf").write_text("")

    def _network(self) -> dict[str, object]:
        """The pods' network: routes to the bridge and to services, and no default route."""
        addresses = {
            "type": "host-local",
            "dataDir": f"{self._folder}/cni/ipam",
            "ranges": [[{"subnet": POD_RANGE}]],
            "routes": [{"dst": SERVICE_RANGE}],
        }
        bridge = {"type": "bridge", "bridge": BRIDGE, "isGateway": True, "hairpinMode": True, "ipam": addresses}
        return {"cniVersion": "0.4.0", "name": "baton", "plugins": [bridge]}

    def _containerd(self) -> str:
        return f"""version = 2
root = "{self._folder}/ct/root"
state = "{self._folder}/ct/state"
[grpc]
  address = "{self.socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{self._folder}/ct/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{_PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_PROGRAMS}"
    conf_dir = "{self._folder}/cni/conf"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
"""

    def _kubelet(self) -> dict[str, object]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": f"{self._folder}/pki/ca.crt"},
            },
            "authorization": {"mode": "Webhook"},
            "address": ADDRESS,
            "cgroupDriver": "cgroupfs",
            "failSwapOn": False,
            "failCgroupV1": False,
            "oomScoreAdj": 0,
            "enforceNodeAllocatable": [],
            "containerRuntimeEndpoint": f"unix://{self.socket}",
            "clusterDNS": [ADDRESS],
            "clusterDomain": "cluster.local",
            "resolvConf": f"{self._folder}/resolv.conf",
            "evictionHard": {"memory.available": "1Mi"},
            "imageGCHighThresholdPercent": 100,
            "maxPods": _LARGEST_POD_COUNT,
            "podLogsDir": f"{self._folder}/pod-logs",
            "volumePluginDir": f"{self._folder}/plugins",
            "healthzPort": 0,
            "makeIPTablesUtilChains": True,
        }


class _Namespace:
    """The node's namespaces. Programs inside see the machine's files, and only each other."""

    def __init__(self, folder: Path, registry: Registry) -> None:
        self._folder = folder
        self._registry = registry
        self._first: Process | None = None

    def make(self) -> None:
        """Make the namespaces. Raises ClusterError if the kernel refuses."""
        made = make_folders(_PRIVATE)
        (self._folder / "made").write_text("".join(f"{path}\n" for path in made))
        script = f"{_ENTER}\nexec {' '.join(kube('pause'))}"
        options = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        outer = self._registry.start(_NAMESPACE, ["unshare", *options, "sh", "-c", script, "sh", *_PRIVATE])
        self._registry.wait(_NAMESPACE, (self._folder / "entered").exists, "the node's namespaces were not made", every=0.01)
        self._first = children(outer.pid)[0]

    def start(self, name: str, command: list[str]) -> None:
        """Start a program in the namespaces. Its paths must be absolute: its working directory is the root."""
        if self._first is None:
            raise ClusterError("the node's namespaces have not been made")
        self._registry.start(name, ["nsenter", f"--target={self._first.pid}", "--mount", "--pid", *command])


def make_folders(paths: tuple[str, ...]) -> list[Path]:
    """Make these folders, and return those that did not exist, parents first."""
    made = []
    for path in map(Path, paths):
        missing = [folder for folder in (*reversed(path.parents), path) if not folder.exists()]
        for folder in missing:
            folder.mkdir()
        made += missing
    return made


def remove_folders(folder: Path) -> None:
    """Remove the folders that `make` added to the machine, except those now used by others."""
    try:
        made = [Path(line) for line in (folder / "made").read_text().splitlines()]
    except OSError:
        return
    for path in reversed(made):
        try:
            path.rmdir()
        except OSError:
            continue
