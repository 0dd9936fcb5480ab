"""The guide to users and TLS, as it stands: its commands make the files, its server takes them, and the example works on it."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from baton.model.ids import Partition, QueueName, Uid
from baton.queues.protocol import Claimant
from baton.queues.redis import RedisAnnouncements, RedisProducer, RedisQueue
from cluster.ports import free_ports
from tests.integration.redis.conftest import Queue
from tests.integration.redis.test_guide import Fleet
from tests.processes import ChildProcess
from tests.waiting import PATIENCE, until

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs" / "guides" / "redis-users-and-tls.md").read_text()
EXAMPLES = ROOT / "manifests" / "examples"
QUEUE = "shop/orders"
GROUP = Claimant(QUEUE, "uid-of-the-group")
FILES, SECRETS, *_ = re.findall(r"^```sh\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)


class Secured:
    """The guide's server, on a free port of this machine, and the URLs that its Secrets have."""

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
        """As the guide writes it into the Secret of that user; the producer's is as the consumer's."""
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


async def test_the_example_works_with_the_users_of_the_guide(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


async def test_without_tls_without_a_user_and_elsewhere_there_is_no_way_in(secured: Secured, tmp_path: Path) -> None:
    with pytest.raises(redis.ConnectionError):
        redis.Redis("localhost", secured.port).ping()
    with pytest.raises(redis.AuthenticationError):
        redis.Redis("localhost", secured.port, ssl=True, ssl_ca_certs=str(secured.folder / "ca.crt")).ping()
    for user in ("operator", "producer", "consumer", "spark"):
        with pytest.raises(redis.exceptions.NoPermissionError):
            secured.client(user).hget("pq:{bank/payments}:queue", "group")
    refused = {one["username"] for one in secured.client("admin").acl_log()}
    assert refused >= {"orders-operator", "orders-producer", "orders-consumer", "orders-spark"}
