"""What a Sentinel may answer: the address of a primary, or something else, which is believed in no case."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from baton.queues.protocol import Claimant, QueueUnreachable
from baton.queues.redis import RedisProducer, RedisQueue
from tests.listener import Listener


def primary(host: bytes, port: bytes) -> bytes:
    """As a Sentinel that knows one."""
    return b"*2\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in (host, port))


class Asked:
    """Says `answer` to who asks where to go."""

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
        (b"-NOAUTH Authentication required.\r\n", "want a user or a password"),
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
async def test_what_a_sentinel_says_is_an_address_or_a_sentence_for_the_user(asked: Asked, answer: bytes, said: str) -> None:
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
async def test_what_a_node_of_a_cluster_says_is_an_address_or_a_sentence_for_the_user(
    asked: Asked, answer: bytes, said: str
) -> None:
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


async def test_the_operator_reads_no_more_of_a_sentinel_than_it_can_have_asked_for(asked: Asked) -> None:
    asked.answer = b"*2\r\n$900000\r\n" + b"r" * 900_000
    queue = RedisQueue(asked.sentinel, "shop/orders", Claimant("shop/orders", "uid"))
    with pytest.raises(QueueUnreachable, match="more than 256 KiB at once"):
        await queue.ensure(2)
    await queue.close()
