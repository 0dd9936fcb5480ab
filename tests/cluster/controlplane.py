"""etcd, the API server, the controllers and the scheduler: their certificates and command lines."""

import json
import socket
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.faults import ClusterError
from tests.cluster.network import ADDRESS, KUBERNETES_SERVICE, SERVICE_RANGE
from tests.cluster.pki import Authority, write_kubeconfig
from tests.cluster.processes import Registry, wait_until
from tests.cluster.programs import kube

_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Ports:
    etcd: int
    peers: int
    api: int
    controllers: int
    scheduler: int

    @classmethod
    def free(cls) -> "Ports":
        """Ports that nobody listens on. All are held until all are known, so they differ."""
        sockets = [socket.create_server((_LOOPBACK, 0)) for _ in range(5)]
        try:
            return cls(*(held.getsockname()[1] for held in sockets))
        finally:
            for held in sockets:
                held.close()


class ControlPlane:
    """What answers the API. `advertise` is the address under which pods reach it."""

    def __init__(self, folder: Path, registry: Registry, *, node: bool) -> None:
        self._folder = folder
        self._registry = registry
        self._advertise = ADDRESS if node else _LOOPBACK
        self._node = node
        self.ports = Ports.free()
        self.pki = folder / "pki"
        self.kubeconfig = folder / "kubeconfig"

    @property
    def server(self) -> str:
        return f"https://{_LOOPBACK}:{self.ports.api}"

    def prepare(self) -> None:
        """Write certificates and kubeconfigs."""
        authority = Authority(self.pki)
        names = [
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "localhost",
        ]
        authority.issue("api", "kube-apiserver", hosts=[_LOOPBACK, ADDRESS, KUBERNETES_SERVICE, *names])
        authority.issue("kubelet-client", "kube-apiserver-kubelet-client", "system:masters")
        authority.issue("admin", "admin", "system:masters")
        authority.issue("controllers", "system:kube-controller-manager")
        authority.issue("scheduler", "system:kube-scheduler")
        authority.issue("proxy", "system:kube-proxy")
        authority.issue("node", "system:node:node", "system:nodes")
        for user in ("controllers", "scheduler", "proxy", "node"):
            write_kubeconfig(self._folder / f"{user}.kubeconfig", self.server, self.pki, user)
        write_kubeconfig(self.kubeconfig, self.server, self.pki, "admin")

    def start(self) -> None:
        """Start everything and wait until the API is ready."""
        self.start_etcd()
        self.start_api_server()
        self.wait_ready()
        configs = [
            f"--{name}=controllers.kubeconfig" for name in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
        ]
        self._registry.start(
            "kube-controller-manager",
            kube(
                "kube-controller-manager", *configs, "--leader-elect=false", "--use-service-account-credentials=true",
                "--service-account-private-key-file=pki/sa.key", "--root-ca-file=pki/ca.crt", f"--bind-address={_LOOPBACK}",
                f"--secure-port={self.ports.controllers}", "--horizontal-pod-autoscaler-sync-period=3s",
            ),
        )  # fmt: skip
        if self._node:
            configs = [
                f"--{name}=scheduler.kubeconfig"
                for name in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
            ]
            self._registry.start(
                "kube-scheduler",
                kube(
                    "kube-scheduler",
                    *configs,
                    "--leader-elect=false",
                    f"--bind-address={_LOOPBACK}",
                    f"--secure-port={self.ports.scheduler}",
                ),
            )

    def start_etcd(self) -> None:
        client, peer = f"http://{_LOOPBACK}:{self.ports.etcd}", f"http://{_LOOPBACK}:{self.ports.peers}"
        self._registry.start(
            "etcd",
            kube(
                "etcd", "--data-dir=etcd", "--unsafe-no-fsync", f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
                "--log-level=warn",
            ),
        )  # fmt: skip

    def start_api_server(self) -> None:
        self._registry.start(
            "kube-apiserver",
            kube(
                "kube-apiserver", f"--etcd-servers=http://{_LOOPBACK}:{self.ports.etcd}", f"--secure-port={self.ports.api}",
                f"--bind-address={'0.0.0.0' if self._node else _LOOPBACK}", f"--advertise-address={self._advertise}",
                "--tls-cert-file=pki/api.crt", "--tls-private-key-file=pki/api.key", "--client-ca-file=pki/ca.crt",
                "--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=pki/sa.pub",
                "--service-account-signing-key-file=pki/sa.key", "--authorization-mode=Node,RBAC",
                f"--service-cluster-ip-range={SERVICE_RANGE}", "--allow-privileged=true",
                "--kubelet-client-certificate=pki/kubelet-client.crt", "--kubelet-client-key=pki/kubelet-client.key",
                "--kubelet-preferred-address-types=InternalIP", "--profiling=false",
                *([] if self._node else ["--endpoint-reconciler-type=none"]),
            ),
        )  # fmt: skip

    def wait_ready(self, seconds: float = 60) -> None:
        """Raises ClusterError with the end of the log of what did not come up."""

        def ready() -> bool:
            self._registry.must_run("etcd")
            self._registry.must_run("kube-apiserver")
            return self.answers()

        if not wait_until(ready, seconds):
            raise ClusterError(f"the API server was not ready after {seconds:.0f} s; see {self._folder}/log/kube-apiserver")

    def answers(self) -> bool:
        """The API server says that it is ready."""
        context = ssl.create_default_context(cafile=str(self.pki / "ca.crt"))
        context.load_cert_chain(self.pki / "admin.crt", self.pki / "admin.key")
        try:
            with urllib.request.urlopen(f"{self.server}/readyz", timeout=2, context=context) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def describe(self) -> str:
        """What a later process needs to know, as JSON."""
        return json.dumps({"ports": vars(self.ports), "node": self._node})
