"""Embedded certificates and keys of a kubeconfig are never left in a file, even if the process is killed."""

import ssl
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml
from kubernetes.aio.config import ConfigException, kube_config

from baton.consumer.api_server import ApiConnection
from baton.kube.api import connect
from tests.self_signed import self_signed


class ApiServer(BaseHTTPRequestHandler):
    """A server that authenticates clients by certificate."""

    def do_GET(self) -> None:
        answer = b'{"items": []}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    pem = self_signed(tmp_path, "127.0.0.1")
    server = HTTPServer(("127.0.0.1", 0), ApiServer)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(pem))
    context.load_cert_chain(pem)
    context.verify_mode = ssl.CERT_REQUIRED
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    data = b64encode(pem.read_bytes()).decode()
    file = tmp_path / "kubeconfig"
    cluster = {"server": f"https://127.0.0.1:{server.server_port}", "certificate-authority-data": data}
    user = {"client-certificate-data": data, "client-key-data": data}
    config = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file.write_text(yaml.safe_dump(config))
    yield file
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(kube_config, "_temp_files", {})
    return folder


def left(temporary: Path) -> list[str]:
    return [one.name for one in temporary.iterdir()]


def without_key(kubeconfig: Path) -> None:
    config = yaml.safe_load(kubeconfig.read_text())
    user = config["users"][0]["user"]
    del user["client-key-data"]
    user["client-key"] = "absent.pem"
    kubeconfig.write_text(yaml.safe_dump(config))


def comment(kubeconfig: Path, inline: bool) -> None:
    """Comments in two encodings, above the API server's certificate."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    bundle = "# Főtanúsítvány\n".encode() + b"# Autorit\xe9\n" + b64decode(cluster.pop("certificate-authority-data"))
    if inline:
        cluster["certificate-authority-data"] = b64encode(bundle).decode()
    else:
        (kubeconfig.parent / "ca.pem").write_bytes(bundle)
        cluster["certificate-authority"] = "ca.pem"
    kubeconfig.write_text(yaml.safe_dump(config))


async def test_the_operator_and_the_command_leave_no_file(kubeconfig: Path, temporary: Path) -> None:
    for _ in range(2):
        async with connect(kubeconfig) as (api, _):
            assert left(temporary) == []
            assert await api.get("/api/v1/pods") == {"items": []}
            assert left(temporary) == []


@pytest.mark.parametrize("inline", [True, False])
async def test_comments_between_certificates_may_be_in_any_encoding(kubeconfig: Path, temporary: Path, inline: bool) -> None:
    comment(kubeconfig, inline)
    async with connect(kubeconfig) as (api, _):
        assert left(temporary) == []
        assert await api.get("/api/v1/pods") == {"items": []}


async def test_an_invalid_kubeconfig_leaves_no_file(kubeconfig: Path, temporary: Path) -> None:
    without_key(kubeconfig)
    with pytest.raises(ConfigException):
        async with connect(kubeconfig):
            raise AssertionError("it has no key")
    assert left(temporary) == []


def test_threads_may_read_a_kubeconfig_at_the_same_time(kubeconfig: Path) -> None:
    """The library shares one file between clients; the first to finish used to remove it."""
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: ApiConnection.from_kubeconfig(str(kubeconfig)), range(64)))
    assert made[-1].request("GET", "/api/v1/pods") == {"items": []}


def test_a_consumer_outside_a_cluster_leaves_no_file(kubeconfig: Path, temporary: Path) -> None:
    for _ in range(2):
        api = ApiConnection.from_kubeconfig(str(kubeconfig))
        assert left(temporary) == []
        assert api.request("GET", "/api/v1/pods") == {"items": []}
