"""Queues at servers that are no Redis, or a hostile one: the operator says so, with the cure, and goes on with the others."""

import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.integration.operator.world import Operator, World

MEBIBYTES = 60
"""More than before, for all of these queues."""
INFO = b"run_id:%s\r\nredis_version:%s\r\nrole:master\r\naof_enabled:%s\r\n"


def bulk(text: bytes) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(text), text)


ENDLESS = {
    "bulk": (b"$9000000000\r\n", b"x" * 65536),
    "array": (b"*1000000000\r\n", b":1\r\n" * 10_000),
    "arrays": (b"*1000000000\r\n", b"*0\r\n" * 10_000),
    "line": (b"+", b"x" * 65536),
    "nested": (b"", b"*1\r\n" * 10_000),
}
ODD = {
    "no-info": bulk(b"hello:1\r\n"),
    "no-version": bulk(INFO % (b"abc", b"9" * 5000 + b".1", b"1")),
    "no-number": bulk(INFO % (b"abc", b"7.2.0", b"abc")),
    "no-text": b"*3\r\n$1\r\na\r\n*1\r\n:5\r\n$-1\r\n",
    "number": b":1\r\n",
    "http": b"HTTP/1.1 400 Bad Request\r\n\r\n",
}


@contextmanager
def answering(begins: bytes, then: bytes = b"") -> Iterator[str]:
    """The URL of a server that answers each command so; or with `then` for ever."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            try:
                while asked := self.request.recv(1 << 20):
                    self.request.sendall(begins * asked.count(b"*"))
                    while then:
                        self.request.sendall(then)
            except OSError:
                pass  # it was left

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"redis://127.0.0.1:{server.server_address[1]}/0"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[str, str]]:
    with ExitStack() as stack:
        made = {name: stack.enter_context(answering(*what)) for name, what in ENDLESS.items()}
        yield made | {name: stack.enter_context(answering(what)) for name, what in ODD.items()}


async def test_queues_at_odd_servers_are_named_and_cost_the_others_nothing(
    empty: World, start: Callable[..., Operator], urls: dict[str, str]
) -> None:
    operator = await start(empty).leads()
    before = operator.peak_memory
    for name, url in urls.items():
        await empty.redis(name, url)
        await empty.group(name)
    for name in urls:
        said = await empty.told(name, "QueueUnreachable", seconds=30)
        assert "answers as no Redis does (" in said and f"Correct the URL of {empty.namespace}/{name}" in said, (name, said)
    await empty.external("good")
    await empty.group("good")
    await empty.pod("good-a", "good")
    await empty.spread("good", 6)
    log = operator.log.read_text()
    assert "Traceback" not in log and "unexpected failure" not in log
    assert operator.peak_memory < before + MEBIBYTES, (before, operator.peak_memory)
