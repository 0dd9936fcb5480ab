"""Odd servers at a queue's address: the operator bounds what it reads, and reports that it is not a Redis."""

import asyncio
import inspect
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.exceptions import ConnectionError, InvalidResponse  # noqa: A004 - the library's name

from baton.model.ids import Epoch, Uid
from baton.queues.offsets import SetsOffsets
from baton.queues.protocol import Claimant, QueueConflict, QueueUnreachable
from baton.queues.redis import RedisQueue, connection
from baton.queues.redis.connection import MOST_BYTES, async_client
from baton.queues.redis.records import OddAnswerError
from baton.queues.redis.url import read
from baton.queues.redis.url_files import TlsFiles

QUEUE = "shop/orders"
INFO = (
    b"run_id:%s\r\nredis_version:7.2.0\r\nrole:master\r\naof_enabled:1\r\nconnected_slaves:1\r\nmaxmemory_policy:noeviction\r\n"
)
ENDLESS = {
    "a text": (b"$9000000000\r\n", b"x" * 65536),
    "numbers": (b"*1000000000\r\n", b":1\r\n" * 10_000),
    "arrays": (b"*1000000000\r\n", b"*0\r\n" * 10_000),
    "arrays in arrays": (b"", b"*1\r\n" * 10_000),
    "small answers": (b"", b"*60\r\n" + b"$900\r\n" + (b"x" * 900 + b"\r\n$900\r\n") * 59 + b"x" * 900 + b"\r\n"),
    "a line": (b"+", b"x" * 65536),
    "an error": (b"-ERR ", b"\x1b[31m" * 10_000),
    "lengths": (b"", b"*-77\r\n$-9\r\n" * 1000),
    "pushes": (b">1000000000\r\n", b"+a\r\n" * 10_000),
}
"""The beginning of the answer, and its endless continuation."""
MOST_MEMORY = 16 * MOST_BYTES
"""Limit for the client and this server together."""


class OddServer:
    """Answers each read with `answer`, and counts connections."""

    def __init__(self, answer: Callable[[bytes], bytes], then: bytes = b"", every: float = 0.0) -> None:
        self._answer, self._then, self._every = answer, then, every
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while asked := await reader.read(1 << 20):
                writer.write(self._answer(asked))
                while self._then:
                    writer.write(self._then)
                    await writer.drain()
                    await asyncio.sleep(self._every)
        except (OSError, asyncio.CancelledError):
            pass  # the client left, or the test has ended
        finally:
            writer.close()


@asynccontextmanager
async def at(server: OddServer) -> AsyncIterator[str]:
    """Serve, and return the URL."""
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    async with listening:
        yield f"redis://127.0.0.1:{listening.sockets[0].getsockname()[1]}/0"


def queue_at(url: str) -> RedisQueue:
    return RedisQueue(url, QUEUE, Claimant("shop/orders-group", "uid-of-the-group"))


@pytest.mark.parametrize("what", ENDLESS)
async def test_an_endless_answer_is_abandoned_at_the_byte_limit(what: str) -> None:
    begins, then = ENDLESS[what]
    server = OddServer(lambda _: begins, then)
    async with at(server) as url:
        client = async_client(read(url), "any", connections=1, files=TlsFiles())
        pipe = client.pipeline(transaction=False)
        for _ in range(1000):
            pipe.execute_command("PING")
        tracemalloc.start()
        try:
            with pytest.raises((OddAnswerError, InvalidResponse, ConnectionError)):
                await pipe.execute()
            assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY
        finally:
            tracemalloc.stop()
        assert server.connections <= 2, "it was not asked again and again"
        await client.aclose()


@pytest.mark.parametrize("what", ENDLESS)
async def test_a_queue_at_an_endless_server_is_named_with_the_cure(what: str) -> None:
    begins, then = ENDLESS[what]
    async with at(OddServer(lambda _: begins, then)) as url:
        queue = queue_at(url)
        with pytest.raises(QueueUnreachable, match=rf"^Redis at 127.*(like Redis.*Correct the URL of {QUEUE}|not answer)"):
            await queue.check()
        await queue.close()


async def test_a_dripping_answer_is_abandoned_at_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "WITHIN", 0.2)
    async with at(OddServer(lambda _: b"", b"+x\r\n", every=0.05)) as url:
        client = async_client(read(url), "any", connections=1, files=TlsFiles())
        pipe = client.pipeline(transaction=False)
        for _ in range(100_000):
            pipe.execute_command("PING")
        with pytest.raises(Exception, match="its answers are incomplete after"):
            await pipe.execute()
        await client.aclose()


async def test_url_options_cannot_extend_the_operators_timeouts() -> None:
    url = read("redis://127.0.0.1/0?socket_timeout=9999&socket_connect_timeout=9999")
    client = async_client(url, "any", connections=1, files=TlsFiles())
    assert client.connection_pool.connection_kwargs["socket_timeout"] == connection.WITHIN
    assert client.connection_pool.connection_kwargs["socket_connect_timeout"] == connection.WITHIN


def bulk(text: bytes) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(text), text)


def array(those: list[bytes]) -> bytes:
    return b"*%d\r\n" % len(those) + b"".join(those)


SCALARS = st.one_of(
    st.sampled_from([b"$-1\r\n", b"*-1\r\n", b":-1\r\n", b":" + b"9" * 5000 + b"\r\n", b"$" + b"9" * 30 + b"\r\n", b"*-77\r\n"]),
    st.sampled_from(
        [b"+OK\r\n", b"-ERR no\r\n", b"-\r\n", b"-WRONGPASS x\r\n", b"-MOVED 1 x\r\n", b"-LOADING\r\n", b"-NOSCRIPT\r\n"]
    ),
    st.sampled_from([b"%1\r\n", b"_\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\r\n", b"\x15\x03\x03\x00\x02\x02F\r\n"]),
    st.integers(-(10**20), 10**20).map(lambda number: b":%d\r\n" % number),
    st.sampled_from([b"", b"\xff\xfe", b"1", b"uid-of-the-group", b"0x1024", b"hello:1\r\n"]).map(bulk),
    st.sampled_from(
        [INFO % b"z", INFO % b"z" * 3000, INFO % b"\xff", INFO % b"", b"run_id:\xff\r\n" + b"redis_version:9.\r\n"]
    ).map(bulk),
    st.sampled_from([b"9" * 5000, b"7.x", b"", b"-1", b"1e9", "٧".encode()]).map(
        lambda word: bulk((INFO % b"z").replace(b"7.2.0", word))
    ),
    st.sampled_from([b"abc", b"2", b"", b"1e9"]).map(lambda word: bulk((INFO % b"z").replace(b"enabled:1", b"enabled:" + word))),
)
ANSWERS = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=9).map(array), max_leaves=12)
QUESTIONS: dict[str, Callable[[RedisQueue], Awaitable[object]]] = {
    "ensure": lambda queue: queue.ensure(2),
    "ensure as it is": lambda queue: queue.ensure(None),
    "check": lambda queue: queue.check(),
    "pause": lambda queue: queue.pause(0, Epoch(1)),
    "outstanding": lambda queue: queue.outstanding(0),
    "grant": lambda queue: queue.grant(0, Uid("a"), Epoch(1)),
    "release": lambda queue: queue.release(),
    "offsets": lambda queue: queue.offsets(),
    "reach": lambda queue: queue.reach(0, 5, 5),
    "set_offset": lambda queue: queue.set_offset(0, Epoch(1), 5),
}


@given(
    info=ANSWERS | st.just(bulk(INFO % b"z")), others=ANSWERS | st.just(bulk(b"2")), question=st.sampled_from(sorted(QUESTIONS))
)
def test_any_odd_answer_is_reported_in_a_readable_sentence(info: bytes, others: bytes, question: str) -> None:
    async def ask() -> None:
        def answer(asked: bytes) -> bytes:
            """Return the same answer for every command in the request."""
            return (info if b"INFO\r\n" in asked.replace(b"SETINFO", b"") else others) * asked.count(b"*")

        async with at(OddServer(answer)) as url:
            queue = queue_at(f"{url}?socket_timeout=0.05")
            try:
                await QUESTIONS[question](queue)
            except (QueueUnreachable, QueueConflict) as said:
                assert "unexpected failure" not in str(said), str(said)
                assert str(said).isprintable()
            finally:
                await queue.close()

    asyncio.run(ask())


def test_the_questions_cover_every_method_of_the_adapter() -> None:
    methods = {name for name, _ in inspect.getmembers(SetsOffsets, inspect.isfunction) if not name.startswith("_")}
    assert methods - {"close"} == {question.partition(" ")[0] for question in QUESTIONS}
