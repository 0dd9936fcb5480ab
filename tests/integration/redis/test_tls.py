"""A Redis that speaks TLS, and wants to see a certificate."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ports import free_ports
from tests.redis_server import RedisServer
from tests.self_signed import self_signed
from tests.waiting import PATIENCE

from baton.queues.protocol import Claimant, QueueUnreachable
from baton.queues.redis import RedisProducer, RedisQueue


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The operator's: the certificate of namespace shop, and a CA for all."""
    (tmp_path / "shop").mkdir()
    certificate = self_signed(tmp_path / "shop")
    (tmp_path / "ca.pem").write_bytes(certificate.read_bytes())
    return tmp_path


@pytest.fixture
def url(folder: Path) -> Iterator[str]:
    certificate, port = folder / "shop" / "server.pem", next(free_ports("127.0.0.1"))
    with RedisServer() as server, server.client() as raw:
        files = {"tls-cert-file": certificate, "tls-key-file": certificate, "tls-ca-cert-file": certificate}
        for name, value in {**files, "tls-auth-clients": "yes", "tls-port": port}.items():
            raw.config_set(name, str(value))
        shown = f"ssl_certfile={certificate}&ssl_keyfile={certificate}"
        yield f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={folder}/ca.pem&ssl_check_hostname=false&{shown}"


async def test_operator_and_producer_show_their_certificate_and_no_other_namespace_can(url: str, folder: Path) -> None:
    ours = RedisQueue(url, "shop/orders", Claimant("shop/orders", "uid"), tls_folder=folder)
    await ours.ensure(2)
    assert await ours.partitions() == 2
    with RedisProducer(url, "shop/orders", patience=PATIENCE) as producer:
        producer.send("key", b"value")
    assert await ours.incarnation()
    theirs = RedisQueue(url, "bank/orders", Claimant("bank/orders", "another uid"), tls_folder=folder)
    with pytest.raises(QueueUnreachable, match=f"option ssl_certfile, which names no file .* below {folder}/bank"):
        await theirs.ensure(2)
    await ours.close()
    await theirs.close()
