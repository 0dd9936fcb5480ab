"""A server on a real socket: addresses, and clients that are slow, silent or wrong."""

import errno
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http import HTTPStatus
from typing import Any

import pytest

from baton.http_server import (
    EVERYWHERE,
    LONGEST_REQUEST,
    MOST_CONNECTIONS,
    REQUEST_WITHIN,
    HttpServer,
    WebPage,
    listening,
)
from tests.waiting import HOUR, PATIENCE

LOOPBACKS = ["127.0.0.1", *(["::1"] if socket.has_dualstack_ipv6() else [])]
"""Of this machine."""


def reached(server: socket.socket, address: str) -> bool:
    try:
        socket.create_connection((address, server.getsockname()[1]), 5).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("address", EVERYWHERE)
def test_everywhere_is_ipv4_and_ipv6(address: str) -> None:
    with listening(address, 0) as server:
        assert all(reached(server, one) for one in LOOPBACKS)


@pytest.mark.parametrize("address", LOOPBACKS)
def test_an_address_is_only_that_one(address: str) -> None:
    with listening(address, 0) as server:
        assert [one for one in LOOPBACKS if reached(server, one)] == [address]


@pytest.fixture
def without_ipv6(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The kernel has it, and this network has not."""
    create = socket.create_server

    def refusing(address: tuple[str, int], *, family: socket.AddressFamily, **how: Any) -> socket.socket:
        if family is socket.AF_INET6:
            raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
        return create(address, family=family, **how)

    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: True)
    monkeypatch.setattr(socket, "create_server", refusing)
    yield


def test_without_ipv6_the_server_listens_on_ipv4(without_ipv6: None) -> None:
    with listening("", 0) as server:
        assert reached(server, "127.0.0.1")


def test_a_taken_port_is_reported() -> None:
    with listening("", 0) as server, pytest.raises(OSError, match="in use"):
        listening("", server.getsockname()[1])


@contextmanager
def served(request_within: float = REQUEST_WITHIN) -> Iterator[HttpServer]:
    """A server whose pages are their paths."""

    async def page(path: str) -> WebPage:
        return WebPage(HTTPStatus.OK, path.encode())

    server = HttpServer("127.0.0.1", 0, page, "a test", request_within=request_within)
    server.start()
    with closing(server):
        yield server


def connected(stack: ExitStack, server: HttpServer) -> socket.socket:
    return stack.enter_context(socket.create_connection(("127.0.0.1", server.port), PATIENCE))


def answer(connection: socket.socket) -> bytes:
    """All that the server sends until it closes the connection."""
    try:
        return b"".join(iter(lambda: connection.recv(4096), b""))
    except ConnectionResetError:
        return b""


def test_idle_connections_cost_no_thread_and_delay_no_request() -> None:
    with served(request_within=HOUR) as server, ExitStack() as stack:
        threads = threading.active_count()
        idle = [connected(stack, server) for _ in range(3 * MOST_CONNECTIONS)]
        for one in idle:
            one.sendall(b"GET /page HTTP/1.1\r\nX-A")
        other = connected(stack, server)
        other.sendall(b"GET /page HTTP/1.1\r\n\r\n")
        assert answer(other).endswith(b"\r\n\r\n/page")
        assert threading.active_count() <= threads
        assert not any(answer(one) for one in idle[:-MOST_CONNECTIONS]), "the oldest make room"
        idle[-1].sendall(b"\r\n\r\n")
        assert answer(idle[-1]).startswith(b"HTTP/1.0 200 OK\r\n"), "the youngest is still heard"


@pytest.mark.parametrize("said", [b"", b"GET /page HTTP/1.1\r\nHost: a\r\n", b"GET /" + b"x" * 2 * LONGEST_REQUEST])
def test_an_unfinished_request_is_closed(said: bytes) -> None:
    with served(request_within=0.1) as server, ExitStack() as stack:
        one = connected(stack, server)
        one.sendall(said)
        assert answer(one) == b""


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /page?verbose HTTP/1.1\r\n\r\n", b"200 OK"),
        (b"POST /page HTTP/1.1\r\n\r\n", b"405 Method Not Allowed"),
        (b"nonsense\r\n\r\n", b"405 Method Not Allowed"),
        (b"\xff\xfe\r\n\r\n", b"405 Method Not Allowed"),
        (b"GET /\xff HTTP/1.1\r\n\r\n", b"200 OK"),
    ],
)
def test_each_request_is_answered_once_and_closed(request_: bytes, status: bytes) -> None:
    with served() as server, ExitStack() as stack:
        one = connected(stack, server)
        one.sendall(request_)
        assert answer(one).startswith(b"HTTP/1.0 " + status + b"\r\n")
