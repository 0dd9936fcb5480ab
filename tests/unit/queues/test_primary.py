"""Answers of a server that cannot be worked with end the connection, and the request goes to who answers at the address next."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from baton.queues.protocol import QueueUnreachable
from baton.queues.redis import RedisProducer
from baton.queues.redis.connection import NotPrimaryError, async_client, client
from baton.queues.redis.explanations import explained
from baton.queues.redis.url import read
from baton.queues.redis.url_files import TlsFiles
from tests.listener import Listener

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
    with connection, suppress(ConnectionResetError):  # who is refused closes before it has read all
        while request := connection.recv(65536):
            # Each command is one array; the library sends two of its own when it connects.
            connection.sendall(answer * sum(line.startswith(b"*") for line in request.split(b"\r\n")))


@pytest.fixture(params=ANSWERS)
def refusing(request: pytest.FixtureRequest) -> Iterator[Refusing]:
    made = Refusing(request.param, 1)
    yield made
    made.close()


def test_a_thread_asks_again_on_a_new_connection(refusing: Refusing) -> None:
    asking = client(read(refusing.url), "any")
    assert asking.incr("x") == 1
    assert refusing.connections == 2
    asking.close()


async def test_a_task_asks_again_on_a_new_connection(refusing: Refusing) -> None:
    asking = async_client(read(refusing.url), "any", connections=2, files=TlsFiles())
    async with asking.pipeline(transaction=False) as pipe:
        pipe.incr("x")
        pipe.execute_command("INCR", "y")
        assert await pipe.execute(raise_on_error=False) == [1, 1]
    assert refusing.connections == 2
    await asking.aclose()


@pytest.mark.parametrize(("error", "said"), ANSWERS.items())
def test_who_is_refused_again_and_again_is_told_why(error: str, said: str) -> None:
    server = Refusing(error, 10_000)
    url = read(server.url)
    with pytest.raises(QueueUnreachable, match=said), explained(url, "shop/orders"):
        client(url, "any").incr("x")
    with pytest.raises(QueueUnreachable, match=said), RedisProducer(server.url, "shop/orders", patience=0.1) as producer:
        producer.send("k", "v")
    server.close()


def test_another_error_leaves_the_connection_alone() -> None:
    server = Refusing("ERR no such thing", 10_000)
    asking = client(read(server.url), "any")
    for _ in range(3):
        with pytest.raises(Exception, match="no such thing") as error:
            asking.incr("x")
        assert not isinstance(error.value, NotPrimaryError)
    assert server.connections == 1
    asking.close()
    server.close()
