"""A Redis that speaks TLS, and wants to see a certificate."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from baton.queues.protocol import Claimant, QueueUnreachable
from baton.queues.redis import RedisProducer, RedisQueue
from cluster.ports import free_ports
from tests.integration.redis.counted import in_time
from tests.redis_server import RedisServer
from tests.self_signed import self_signed
from tests.waiting import PATIENCE, until


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The operator's: the certificate of namespace shop, and a CA for all."""
    (tmp_path / "shop").mkdir()
    certificate = self_signed(tmp_path / "shop")
    (tmp_path / "ca.pem").write_bytes(certificate.read_bytes())
    return tmp_path


@pytest.fixture(params=["rediss", "rediss+cluster"])
def url(folder: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """Of a server; or of a node of a cluster, which has no slots and names the one that has them."""
    certificate = folder / "shop" / "server.pem"
    files = {"tls-cert-file": certificate, "tls-key-file": certificate, "tls-ca-cert-file": certificate}
    clustered = request.param == "rediss+cluster"
    with ExitStack() as stack:
        ports, bus = [], []
        for _ in range(1 + clustered):
            server = stack.enter_context(RedisServer(cluster=clustered))
            raw = stack.enter_context(server.client())
            ports.append(next(free_ports("127.0.0.1")))
            tls = {**files, "tls-auth-clients": "yes", "tls-cluster": "yes" if clustered else "no", "tls-port": ports[-1]}
            for name, value in tls.items():
                raw.config_set(name, str(value))
            bus.append(server.cluster_port if clustered else 0)
        if clustered:
            raw.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16_383)
            raw.execute_command("CLUSTER", "MEET", "127.0.0.1", ports[0], bus[0])
            until(lambda: raw.cluster("INFO")["cluster_known_nodes"] == "2", "they know each other")
        shown = f"ssl_certfile={certificate}&ssl_keyfile={certificate}"
        yield f"{request.param}://127.0.0.1:{ports[0]}/0?ssl_ca_certs={folder}/ca.pem&ssl_check_hostname=false&{shown}"


async def test_operator_and_producer_show_their_certificate_and_no_other_namespace_can(url: str, folder: Path) -> None:
    ours = RedisQueue(url, "shop/orders", Claimant("shop/orders", "uid"), tls_folder=folder)
    await in_time(lambda: ours.ensure(2))
    assert (await ours.check()).partitions == 2
    with RedisProducer(url, "shop/orders", patience=PATIENCE) as producer:
        producer.send("key", b"value")
    assert (await ours.check()).incarnation
    theirs = RedisQueue(url, "bank/orders", Claimant("bank/orders", "another uid"), tls_folder=folder)
    with pytest.raises(QueueUnreachable, match=f"option ssl_certfile, which names no file .* below {folder}/bank"):
        await theirs.ensure(2)
    await ours.close()
    await theirs.close()
