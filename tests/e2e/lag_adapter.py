"""An adapter for external metrics (group external.metrics.k8s.io) that serves `baton_group_lag` as the operator tells it: what
prometheus-adapter does, without a Prometheus."""

import base64
import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cluster import Cluster, ClusterError
from cluster.pki import Authority
from tests.e2e.installing import NAMESPACE, leader

VERSION = "external.metrics.k8s.io/v1beta1"
METRIC = "baton_group_lag"
_SERVICE = "lag-adapter"
_VALUES = re.compile(rf"^/apis/{re.escape(VERSION)}/namespaces/([^/]+)/{METRIC}$")


@contextmanager
def external_lag(cluster: Cluster, folder: Path) -> Iterator[None]:
    """While it lasts, the API server answers for the metric. `folder`: for its certificate."""
    authority = Authority(folder)
    authority.issue("server", _SERVICE, hosts=[f"{_SERVICE}.{NAMESPACE}.svc"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    server = ThreadingHTTPServer((cluster.address, 0), partial(_Answers, cluster))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, name="lag-adapter")
    thread.start()
    service = f"v1beta1.{VERSION.partition('/')[0]}"
    try:
        cluster.apply(*_found_at(cluster.address, server.server_address[1], service, (folder / "ca.crt").read_bytes()))
        cluster.kubectl("wait", f"apiservice/{service}", "--for=condition=Available", "--timeout=120s")
        yield
    finally:
        cluster.kubectl("delete", f"apiservice/{service}", "--ignore-not-found")
        server.shutdown()
        thread.join()
        server.server_close()


class _Answers(BaseHTTPRequestHandler):
    def __init__(self, cluster: Cluster, *connection: Any) -> None:
        self._cluster = cluster
        super().__init__(*connection)

    def do_GET(self) -> None:
        path = urlsplit(self.path)
        if path.path == f"/apis/{VERSION}":
            resource = {
                "name": METRIC,
                "singularName": "",
                "namespaced": True,
                "kind": "ExternalMetricValueList",
                "verbs": ["get"],
            }
            self._say(200, {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": VERSION, "resources": [resource]})
        elif found := _VALUES.match(path.path):
            [selector] = parse_qs(path.query)["labelSelector"]
            self._tell(found[1], selector.removeprefix("group="))
        else:
            self._say(404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404})

    def _tell(self, namespace: str, group: str) -> None:
        where = f"/api/v1/namespaces/{NAMESPACE}/pods/{leader(self._cluster)}:8080/proxy/groups/{namespace}/{group}/lag"
        try:
            lag = json.loads(self._cluster.kubectl("get", "--raw", where))["lag"]
        except ClusterError as error:
            self._say(503, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 503, "message": str(error)})
            return
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        item = {"metricName": METRIC, "metricLabels": {"group": group}, "timestamp": now, "value": str(lag)}
        self._say(200, {"kind": "ExternalMetricValueList", "apiVersion": VERSION, "metadata": {}, "items": [item]})

    def _say(self, status: int, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


def _found_at(address: str, port: int, service: str, authority: bytes) -> Iterator[dict[str, Any]]:
    named = {"name": _SERVICE, "namespace": NAMESPACE}
    ports = [{"name": "https", "port": 443, "targetPort": port}]
    yield {"apiVersion": "v1", "kind": "Service", "metadata": named, "spec": {"ports": ports}}
    yield {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {**named, "labels": {"kubernetes.io/service-name": _SERVICE}},
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": port}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
    }
    group, _, version = VERSION.partition("/")
    spec = {"group": group, "version": version, "groupPriorityMinimum": 100, "versionPriority": 100}
    called = {"service": {**named, "port": 443}, "caBundle": base64.b64encode(authority).decode()}
    yield {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": service}, "spec": spec | called}
