"""Answers of Sentinels and cluster nodes: the address of a primary, or an error that is explained."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from baton.queues.protocol import Claimant, QueueUnreachable
from baton.queues.redis import RedisProducer, RedisQueue
from baton.queues.redis.connection import NotPrimaryError, async_client, client
from baton.queues.redis.explanations import explained
from baton.queues.redis.url import read
from baton.queues.redis.url_files import TlsFiles
from tests.listener import Listener


def primary(host: bytes, port: bytes) -> bytes:
    """Return the answer of a Sentinel that knows a primary."""
    return b"*2\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in (host, port))


class Asked:
    """Answers `answer` to requests for an address."""

    def __init__(self) -> None:
        self.answer = b""
        self._listener = Listener(
            lambda connection: threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
        )
        self.sentinel = self._listener.url.replace("redis://", "redis+sentinel://").replace("/0", "/orders/0")
        self.cluster = self._listener.url.replace("redis://", "redis+cluster://")
        self.close = self._listener.close

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(ConnectionError):
            while said := connection.recv(65536):
                connection.sendall(
                    b"+OK\r\n" * said.count(b"SETINFO") + self.answer * (said.count(b"SENTINEL") + said.count(b"EXISTS"))
                )


@pytest.fixture
def asked() -> Iterator[Asked]:
    made = Asked()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"*-1\r\n", "know no primary named orders"),
        (b"*0\r\n", "no address where one belongs"),
        (b"-NOAUTH Authentication required.\r\n", "require a user or a password"),
        (b"-ERR \x1b[2J\r\n", "None of the Sentinels"),
        (b":1\r\n", "no address where one belongs"),
        (b"+OK\r\n", "no address where one belongs"),
        (b"*2\r\n$1\r\nr\r\n:1\r\n", "no address where one belongs"),
        (primary(b"r..s", b"6379"), "no address where one belongs"),
        (primary(b"r", b"0"), "no address where one belongs"),
        (primary(b"r", b"99999"), "no address where one belongs"),
        (primary(b"r", b"x"), "no address where one belongs"),
        (primary(b"127.0.0.1", b"1"), "127.0.0.1:1"),
    ],
)
async def test_an_odd_answer_of_a_sentinel_is_explained(asked: Asked, answer: bytes, said: str) -> None:
    asked.answer = answer
    await assert_explained(asked.sentinel, said)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"-MOVED 3999 127.0.0.1:1\r\n", "127.0.0.1:1"),
        (b"-MOVED 3999 :1\r\n", "127.0.0.1:1"),
        (b"-MOVED 3999 nowhere\r\n", "says where shop/orders is"),
        (b"-MOVED 3999 r..s:6379\r\n", "no address where one belongs"),
        (b"-MOVED 3999 127.0.0.1:99999\r\n", "no address where one belongs"),
        (b"-CLUSTERDOWN Hash slot not served\r\n", "has no master for shop/orders"),
        (b"-LOADING Redis is loading the dataset in memory\r\n", "is still loading its data"),
        (b"-NOAUTH Authentication required.\r\n", "refused the user or password"),
        (b"-ERR \x1b[2J\r\n", "None of the nodes at 127.0.0.1:"),
        (b"+OK\r\n", "no address where one belongs"),
    ],
)
async def test_an_odd_answer_of_a_cluster_node_is_explained(asked: Asked, answer: bytes, said: str) -> None:
    asked.answer = answer
    await assert_explained(asked.cluster, said)


async def assert_explained(url: str, said: str) -> None:
    queue = RedisQueue(url, "shop/orders", Claimant("shop/orders", "uid"))
    with pytest.raises(QueueUnreachable) as refusal:
        await queue.ensure(2)
    assert said in str(refusal.value) and "\x1b" not in str(refusal.value)
    await queue.close()
    with RedisProducer(url, "shop/orders", patience=0.1) as producer, pytest.raises(QueueUnreachable) as failure:
        producer.send("key", "value")
    assert said in str(failure.value) and "\x1b" not in str(failure.value)


async def test_the_operator_bounds_what_it_reads_from_a_sentinel(asked: Asked) -> None:
    asked.answer = b"*2\r\n$900000\r\n" + b"r" * 900_000
    queue = RedisQueue(asked.sentinel, "shop/orders", Claimant("shop/orders", "uid"))
    with pytest.raises(QueueUnreachable, match="more than 256 KiB at once"):
        await queue.ensure(2)
    await queue.close()


# -- If a server cannot serve requests, the connection is closed and the request repeated at the same address.


ANSWERS = {
    "READONLY You can't write against a read only replica.": "is a read-only replica",
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)": "is a read-only replica",
    "LOADING Redis is loading the dataset in memory": "is still loading its data",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.": "has lost its primary",
    "CLUSTERDOWN The cluster is down": "is a node of a Redis Cluster",
    "MOVED 3999 127.0.0.1:6381": "is a node of a Redis Cluster",
    "ASK 3999 127.0.0.1:6381": "is a node of a Redis Cluster",
    "TRYAGAIN Multiple keys request during rehashing of slot": "is a node of a Redis Cluster",
}


class Refusing:
    """Answers everything on the first `times` connections with one error, and on later ones with a number."""

    def __init__(self, error: str, times: int) -> None:
        self._error, self._left = error, times
        self.connections = 0
        self._listener = Listener(self._connect)
        self.url = self._listener.url
        self.close = self._listener.close

    def _connect(self, connection: socket.socket) -> None:
        self.connections += 1
        answer = f"-{self._error}" if self._left > 0 else ":1"
        self._left -= 1
        threading.Thread(target=_answer, args=(connection, f"{answer}\r\n".encode()), daemon=True).start()


def _answer(connection: socket.socket, answer: bytes) -> None:
    with connection, suppress(ConnectionResetError):  # a refused client closes before it has read everything
        while request := connection.recv(65536):
            # Each command is one array; the library sends two of its own when it connects.
            connection.sendall(answer * sum(line.startswith(b"*") for line in request.split(b"\r\n")))


@pytest.fixture(params=ANSWERS)
def refusing(request: pytest.FixtureRequest) -> Iterator[Refusing]:
    made = Refusing(request.param, 1)
    yield made
    made.close()


def test_a_thread_retries_on_a_new_connection(refusing: Refusing) -> None:
    asking = client(read(refusing.url), "any")
    assert asking.incr("x") == 1
    assert refusing.connections == 2
    asking.close()


async def test_a_task_retries_on_a_new_connection(refusing: Refusing) -> None:
    asking = async_client(read(refusing.url), "any", connections=2, files=TlsFiles())
    async with asking.pipeline(transaction=False) as pipe:
        pipe.incr("x")
        pipe.execute_command("INCR", "y")
        assert await pipe.execute(raise_on_error=False) == [1, 1]
    assert refusing.connections == 2
    await asking.aclose()


@pytest.mark.parametrize(("error", "said"), ANSWERS.items())
def test_repeated_refusals_are_explained(error: str, said: str) -> None:
    server = Refusing(error, 10_000)
    url = read(server.url)
    with pytest.raises(QueueUnreachable, match=said), explained(url, "shop/orders"):
        client(url, "any").incr("x")
    with pytest.raises(QueueUnreachable, match=said), RedisProducer(server.url, "shop/orders", patience=0.1) as producer:
        producer.send("k", "v")
    server.close()


def test_other_errors_keep_the_connection() -> None:
    server = Refusing("ERR no such thing", 10_000)
    asking = client(read(server.url), "any")
    for _ in range(3):
        with pytest.raises(Exception, match="no such thing") as error:
            asking.incr("x")
        assert not isinstance(error.value, NotPrimaryError)
    assert server.connections == 1
    asking.close()
    server.close()
