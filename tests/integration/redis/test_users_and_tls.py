"""Users and TLS: the guide's example, client certificates, and credentials in files."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from baton.model.ids import Epoch, Partition, QueueName, Uid
from baton.queues.protocol import Claimant, QueueUnreachable
from baton.queues.redis import RedisAnnouncements, RedisProducer, RedisQueue, RedisReader
from cluster.ports import free_ports
from tests.integration.redis.conftest import Queue
from tests.integration.redis.counted import in_time
from tests.integration.redis.test_guide import Fleet
from tests.processes import ChildProcess
from tests.redis_server import RedisServer
from tests.self_signed import self_signed
from tests.waiting import PATIENCE, until

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs" / "guides" / "redis-users-and-tls.md").read_text()
EXAMPLES = ROOT / "manifests" / "examples"
QUEUE = "shop/orders"
GROUP = Claimant(QUEUE, "uid-of-the-group")
FILES, SECRETS, *_ = re.findall(r"^```sh\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)


class Secured:
    """The guide's server on a free port of this machine, and the URLs of its Secrets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run(("bash", "-euc", FILES), cwd=folder, check=True, capture_output=True)
        (folder / "ca.pem").write_bytes((folder / "ca.crt").read_bytes())
        self.port = next(free_ports("127.0.0.1"))
        places = {"/etc/redis/tls": folder, "/etc/redis/users": folder, "/data": folder, "tls-port 6379": f"tls-port {self.port}"}
        text = (EXAMPLES / "redis-tls" / "redis.conf").read_text()
        for there, here in places.items():
            assert there in text
            text = text.replace(there, str(here))
        (folder / "redis.conf").write_text(text)
        with (folder / "log").open("wb") as log:
            self.process = ChildProcess(("redis-server", str(folder / "redis.conf")), stdout=log, stderr=log)
        until(lambda: "Ready to accept connections" in (folder / "log").read_text(), "the server takes connections")

    def url(self, user: str) -> str:
        """Return the URL in the user's Secret. The producer's is like the consumer's."""
        written = {one[1]: one[0] for one in re.findall(r'url="(rediss://orders-(\w+):[^"]+)"', SECRETS)}
        assert set(written) == {"operator", "consumer"}
        url = written.get(user) or written["consumer"].replace("orders-consumer", f"orders-{user}")
        url = re.sub(r"\$\(cat \w+\.password\)", (self.folder / f"{user}.password").read_text().strip(), url)
        url = url.replace("redis.shop:6379", f"localhost:{self.port}")
        return re.sub(r"/etc/[\w/-]+/ca\.pem", str(self.folder / "ca.pem"), url)

    def client(self, user: str) -> redis.Redis:
        password = (self.folder / f"{user}.password").read_text().strip()
        name = user if user == "admin" else f"orders-{user}"
        ca = str(self.folder / "ca.crt")
        return redis.Redis("localhost", self.port, username=name, password=password, ssl=True, ssl_ca_certs=ca)


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    made = Secured(tmp_path)
    yield made
    made.process.kill()
    made.process.wait(PATIENCE)


async def test_the_example_works_with_the_guides_users(secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    operator = RedisQueue(secured.url("operator"), QUEUE, GROUP, tls_folder=secured.folder)
    await operator.ensure(2)
    producer = RedisProducer(secured.url("producer"), QUEUE, patience=PATIENCE)
    queue = Queue(secured.url("consumer"), QUEUE, 2, operator, producer)
    monkeypatch.setenv("POD_NAME", "orders-consumer-1")
    fleet = Fleet(queue, tmp_path)
    process = await fleet.start((EXAMPLES / "redis-consumer" / "app.py").read_text())
    try:
        queue.send("hello", "world")
        until(lambda: process.output.count("orders-consumer-1") == 2, process.output)
        lines = [json.loads(line) for line in process.output.splitlines() if line.startswith("{")]
        assert [line["value"] for line in lines] == ["hello", "world"]
        heard = RedisAnnouncements(secured.url("consumer"), GROUP.group, Uid(process.uid))
        assert heard.wait(PATIENCE)[Partition(QueueName("orders"), 0)].uid == process.uid
        heard.close()
        await fleet.call_back(process)
        assert process.end() == 0
        assert secured.client("admin").acl_log() == [], "nothing was refused"
    finally:
        process.process.kill()
        await queue.close()


async def test_access_needs_tls_a_user_and_the_right_keys(secured: Secured, tmp_path: Path) -> None:
    with pytest.raises(redis.ConnectionError):
        redis.Redis("localhost", secured.port).ping()
    with pytest.raises(redis.AuthenticationError):
        redis.Redis("localhost", secured.port, ssl=True, ssl_ca_certs=str(secured.folder / "ca.crt")).ping()
    for user in ("operator", "producer", "consumer", "spark"):
        with pytest.raises(redis.exceptions.NoPermissionError):
            secured.client(user).hget("pq:{bank/payments}:queue", "group")
    refused = {one["username"] for one in secured.client("admin").acl_log()}
    assert refused >= {"orders-operator", "orders-producer", "orders-consumer", "orders-spark"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The operator's folder: the certificate of namespace shop, and a CA for all."""
    (tmp_path / "shop").mkdir()
    certificate = self_signed(tmp_path / "shop")
    (tmp_path / "ca.pem").write_bytes(certificate.read_bytes())
    return tmp_path


@pytest.fixture(params=["rediss", "rediss+cluster"])
def url(folder: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a server, or of a cluster node without slots, which names the node that has them."""
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


async def test_client_certificates_are_usable_in_their_own_namespace_only(url: str, folder: Path) -> None:
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


NAME = "shop/orders"
FIRST, SECOND = "Fp7-quokka", "numbat-8Xy"


def change(server: RedisServer, password: str) -> None:
    """Change the password at the server, and end the user's connections."""
    with server.client() as raw:
        raw.execute_command("ACL", "SETUSER", "shop", "on", "resetpass", f">{password}", "~*", "+@all")
        raw.execute_command("CLIENT", "KILL", "USER", "shop")


async def test_a_changed_password_file_is_used_from_the_next_connection_on(tmp_path: Path) -> None:
    user, password = tmp_path / "username", tmp_path / "password"
    user.write_text("shop\n")
    password.write_text(FIRST + "\n")
    with RedisServer() as server:
        change(server, FIRST)
        operator = RedisQueue(server.url, NAME, GROUP)
        await operator.ensure(1)
        await operator.grant(0, Uid("a"), Epoch(1))
        url = f"{server.url}?username_file={user}&password_file={password}"
        with (
            RedisProducer(url, NAME, patience=0.3) as producer,
            RedisReader(url, NAME, "a") as reader,
        ):
            announcements = RedisAnnouncements(url, GROUP.group, Uid("a"))
            for number, word in enumerate((FIRST, SECOND)):
                change(server, word)
                if word != FIRST:
                    for ask in (
                        lambda: producer.send("key", "lost"),
                        lambda: reader.read(0, Epoch(1)),
                        lambda: reader.wait([0], 0.3),
                        lambda: announcements.wait(0.3),
                    ):
                        with pytest.raises(
                            QueueUnreachable, match=f"refused the user or password for .* from {user} and {password}"
                        ):
                            ask()
                    password.write_text(word)
                producer.send("key", f"{number}")
                assert [entry.value for entry in reader.read(0, Epoch(1))] == [b"%d" % number]
                assert list(announcements.look([Partition(QueueName("orders"), 0)]).values()) == [("a", 1, False, None)]
            announcements.close()
        await operator.close()


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff\xfe", b"p" * 5000])
def test_a_password_file_without_a_password_is_named(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
    with (
        RedisServer(password=FIRST) as server,
        RedisProducer(f"redis://127.0.0.1:{server.port}/0?password_file={file}", NAME, patience=0.1) as producer,
        pytest.raises(QueueUnreachable, match="option password_file, which names no file with one: put one there"),
    ):
        producer.send("key", "value")
