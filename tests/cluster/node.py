"""The one node: containerd, kubelet, kube-proxy and DNS on the cluster's bridge."""

import json
import subprocess
from pathlib import Path

import yaml

from tests.cluster import images
from tests.cluster.faults import ClusterError
from tests.cluster.network import ADDRESS, BRIDGE, POD_RANGE
from tests.cluster.packages import CNI_PROGRAMS
from tests.cluster.processes import Registry, share_the_root_mount, wait_until
from tests.cluster.programs import KUBE, kube

_PAUSE_IMAGE = "localhost/pause:1"
_LARGEST_POD_COUNT = 100


class Node:
    """A node named `node` with the address of the bridge."""

    def __init__(self, folder: Path, registry: Registry) -> None:
        self._folder = folder
        self._registry = registry
        self.socket = folder / "ct" / "sock"
        self.kubelet_folder = folder / "kubelet"

    def start(self) -> None:
        """Start everything; the node becomes Ready a little later."""
        share_the_root_mount()
        self._write_settings()
        self._registry.start("containerd", ["containerd", "--config", "containerd.toml"])
        if not wait_until(lambda: self._ctr("version").returncode == 0, 20):
            self._registry.must_run("containerd")
            raise ClusterError(f"containerd does not answer; see {self._folder}/log/containerd")
        self.load(images.pause(_PAUSE_IMAGE, KUBE.path()))
        self._registry.start(
            "kube-proxy",
            kube(
                "kube-proxy", "--kubeconfig=proxy.kubeconfig", "--hostname-override=node", "--proxy-mode=iptables",
                f"--cluster-cidr={POD_RANGE}", "--masquerade-all=true", "--conntrack-max-per-core=0", "--oom-score-adj=0",
                f"--metrics-bind-address={ADDRESS}:10249", f"--healthz-bind-address={ADDRESS}:10256",
            ),
        )  # fmt: skip
        self._registry.start("coredns", kube("coredns", "-conf", "Corefile"))
        self._registry.start(
            "kubelet",
            kube(
                "kubelet", "--config=kubelet.yaml", "--kubeconfig=node.kubeconfig", "--hostname-override=node", f"--node-ip={ADDRESS}",
                f"--root-dir={self.kubelet_folder}", f"--cert-dir={self._folder}/kubelet-pki",
            ),
        )  # fmt: skip

    def load(self, archive: Path) -> None:
        """Import an image archive. Raises ClusterError."""
        done = self._ctr("-n", "k8s.io", "images", "import", str(archive))
        archive.unlink()
        if done.returncode:
            raise ClusterError(f"the image {archive.name} was not imported: {done.stderr.strip()}")

    def container_pid(self, container_id: str) -> int:
        """The pid, on the machine, of a container's first process. Raises ClusterError where it does not run."""
        done = self._ctr("-n", "k8s.io", "tasks", "list")
        for line in done.stdout.splitlines()[1:]:
            name, pid, *_ = line.split()
            if name == container_id:
                return int(pid)
        raise ClusterError(f"the container {container_id[:12]} does not run")

    def _ctr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["ctr", "--address", str(self.socket), *arguments], capture_output=True, text=True, check=False)

    def _write_settings(self) -> None:
        for name in ("ct", "cni/conf", "kubelet", "pod-logs", "plugins"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        (self._folder / "cni" / "conf" / "10-baton.conflist").write_text(json.dumps(self._network()))
        (self._folder / "containerd.toml").write_text(self._containerd())
        (self._folder / "kubelet.yaml").write_text(yaml.safe_dump(self._kubelet()))
        (self._folder / "Corefile").write_text(
            f".:53 {{\n  bind {ADDRESS}\n  errors\n  kubernetes cluster.local {{\n    kubeconfig {self._folder}/kubeconfig baton\n  }}\n}}\n"
        )
        (self._folder / "resolv.conf").write_text("")

    def _network(self) -> dict[str, object]:
        ranges = {"type": "host-local", "dataDir": f"{self._folder}/cni/ipam", "ranges": [[{"subnet": POD_RANGE}]]}
        bridge = {
            "type": "bridge",
            "bridge": BRIDGE,
            "isGateway": True,
            "isDefaultGateway": True,
            "hairpinMode": True,
            "ipam": ranges,
        }
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
            "healthzBindAddress": "127.0.0.1",
            "makeIPTablesUtilChains": True,
        }
