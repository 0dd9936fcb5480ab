"""etcd, the API server, the controllers and the scheduler: their certificates and command lines."""

import json
import ssl
import urllib.request
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from cluster.network import ADDRESS, KUBERNETES_SERVICE, SERVICE_RANGE
from cluster.pki import Authority, write_kubeconfig
from cluster.ports import free_ports
from cluster.processes import Registry
from cluster.programs import kube
from cluster.waiting import PATIENCE

_LOOPBACK = "127.0.0.1"

_NOT_WITHOUT_NODES = ("-node-lifecycle-controller", "-taint-eviction-controller", "-pod-garbage-collector-controller")
"""Controllers that, without nodes, would delete pods that a test declares running."""


class Ports(NamedTuple):
    etcd: int
    peers: int
    api: int
    controllers: int
    scheduler: int


class ControlPlane:
    """The API server with etcd, controllers and scheduler, for this machine, and for pods if there is a node."""

    def __init__(self, folder: Path, registry: Registry, *, node: bool) -> None:
        self._folder = folder
        self._registry = registry
        self._node = node
        self.ports = Ports(*islice(free_ports(), len(Ports._fields)))
        self.pki = folder / "pki"
        self.kubeconfig = folder / "kubeconfig"

    @property
    def server(self) -> str:
        return f"https://{_LOOPBACK}:{self.ports.api}"

    def prepare(self) -> None:
        """Write certificates and kubeconfigs."""
        authority = Authority(self.pki)
        service = ["kubernetes", "default", "svc", "cluster", "local"]
        names = ["localhost", *(".".join(service[:count]) for count in (1, 2, 3, 5))]
        authority.issue("api", "kube-apiserver", hosts=[_LOOPBACK, ADDRESS, KUBERNETES_SERVICE, *names])
        authority.issue("kubelet-client", "kube-apiserver-kubelet-client", "system:masters")
        authority.issue("admin", "admin", "system:masters", rsa_key=True)
        # All controllers share a user with all rights: creating an account for each would take seconds.
        authority.issue("controllers", "controllers", "system:masters")
        authority.issue("scheduler", "system:kube-scheduler")
        authority.issue("proxy", "system:kube-proxy")
        authority.issue("node", "system:node:node", "system:nodes")
        for user in ("controllers", "scheduler", "proxy", "node"):
            write_kubeconfig(self._folder / f"{user}.kubeconfig", self.server, self.pki, user)
        write_kubeconfig(self.kubeconfig, self.server, self.pki, "admin")
        # A separate authority: a client with one of its certificates may act as any user.
        Authority(self.pki / "aggregator").issue("aggregator", "aggregator")

    def start(self) -> None:
        """Start all programs, and wait until the API is ready."""
        self.start_etcd()
        self.start_api_server()
        self.wait_ready()
        keys = ("--service-account-private-key-file=pki/sa.key", "--root-ca-file=pki/ca.crt")
        controllers = "*" if self._node else ",".join(("*", *_NOT_WITHOUT_NODES))
        some = (f"--controllers={controllers}", "--horizontal-pod-autoscaler-sync-period=3s")
        self._start_client("kube-controller-manager", "controllers", self.ports.controllers, *keys, *some)
        if self._node:
            self._start_client("kube-scheduler", "scheduler", self.ports.scheduler)

    def _start_client(self, name: str, user: str, port: int, *arguments: str) -> None:
        configs = [f"--{use}kubeconfig={user}.kubeconfig" for use in ("", "authentication-", "authorization-")]
        listen = (f"--bind-address={_LOOPBACK}", f"--secure-port={port}", "--leader-elect=false")
        pace = ("--kube-api-qps=500", "--kube-api-burst=500")
        self._registry.start(name, kube(name, *configs, *listen, *pace, *arguments))

    def start_etcd(self) -> None:
        client, peer = f"http://{_LOOPBACK}:{self.ports.etcd}", f"http://{_LOOPBACK}:{self.ports.peers}"
        self._registry.start(
            "etcd",
            kube(
                "etcd",
                "--data-dir=etcd",
                "--log-level=warn",
                "--unsafe-no-fsync",  # a killed process loses nothing, only a machine that crashes
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
            ),
        )

    def start_api_server(self) -> None:
        tokens = ("issuer=https://kubernetes.default.svc", "key-file=pki/sa.pub", "signing-key-file=pki/sa.key")
        self._registry.start(
            "kube-apiserver",
            kube(
                "kube-apiserver",
                f"--etcd-servers=http://{_LOOPBACK}:{self.ports.etcd}",
                f"--bind-address={'0.0.0.0' if self._node else _LOOPBACK}",
                f"--secure-port={self.ports.api}",
                f"--advertise-address={ADDRESS if self._node else _LOOPBACK}",
                "--tls-cert-file=pki/api.crt",
                "--tls-private-key-file=pki/api.key",
                "--client-ca-file=pki/ca.crt",
                *(f"--service-account-{token}" for token in tokens),
                "--authorization-mode=Node,RBAC",
                f"--service-cluster-ip-range={SERVICE_RANGE}",
                "--allow-privileged=true",
                "--kubelet-client-certificate=pki/kubelet-client.crt",
                "--kubelet-client-key=pki/kubelet-client.key",
                "--kubelet-preferred-address-types=InternalIP",  # the node's name is in no DNS
                "--requestheader-client-ca-file=pki/aggregator/ca.crt",
                "--requestheader-allowed-names=aggregator",
                "--requestheader-username-headers=X-Remote-User",
                "--requestheader-group-headers=X-Remote-Group",
                "--requestheader-extra-headers-prefix=X-Remote-Extra-",
                "--proxy-client-cert-file=pki/aggregator/aggregator.crt",
                "--proxy-client-key-file=pki/aggregator/aggregator.key",
                "--enable-aggregator-routing=true",  # without a node a service's address would lead off the machine
                "--profiling=false",
                *(() if self._node else ("--endpoint-reconciler-type=none",)),  # a loopback address is no endpoint
            ),
        )

    def wait_ready(self) -> None:
        """Wait until the API is ready. Raises ClusterError, with the end of a program's log if that has ended."""

        def ready() -> bool:
            self._registry.must_run("etcd")
            return self.ask("/readyz") is not None

        self._registry.wait("kube-apiserver", ready, f"the API server was not ready after {PATIENCE:.0f} s")

    def must_run(self) -> None:
        """Raise ClusterError with the end of its log if etcd or the API server has ended."""
        self._registry.must_run("etcd")
        self._registry.must_run("kube-apiserver")

    def compact(self) -> None:
        """Compact etcd to the present versions of objects."""
        found = self._ask_etcd("range", {"key": "AA=="})
        self._ask_etcd("compaction", {"revision": found["header"]["revision"], "physical": True})

    def _ask_etcd(self, what: str, body: dict[str, object]) -> dict[str, Any]:
        asked = urllib.request.Request(f"http://{_LOOPBACK}:{self.ports.etcd}/v3/kv/{what}", json.dumps(body).encode())
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=PATIENCE) as answer:
            told: dict[str, Any] = json.load(answer)
            return told

    def ask(self, path: str) -> bytes | None:
        """The API server's answer to an administrator, faster than kubectl; None: no answer, or an error."""
        context = ssl.create_default_context(cafile=str(self.pki / "ca.crt"))
        context.load_cert_chain(self.pki / "admin.crt", self.pki / "admin.key")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
        try:
            with opener.open(f"{self.server}{path}", timeout=10) as answer:
                return bytes(answer.read())
        except OSError:  # URLError and HTTPError are among them
            return None
