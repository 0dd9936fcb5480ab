"""The network of the tests fails as it is told to: an echo on one side, a plain socket on the other."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.listener import Listener
from tests.network import Link, Network, Way
from tests.waiting import PATIENCE, until

NOTHING_COMES = 0.1
"""Seconds."""


class Echo:
    """Answers with what it is sent."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.closed = 0
        self._listener = Listener(
            lambda connection: threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
        )
        self.port = int(self._listener.url.rpartition(":")[2].partition("/")[0])
        self.close = self._listener.close

    def _taken(self, connection: socket.socket) -> None:
        threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(1000):
                    self.heard.append(data)
                    connection.sendall(data)
            except OSError:
                pass
        self.closed += 1


@pytest.fixture
def echo() -> Iterator[Echo]:
    made = Echo()
    yield made
    made.close()


@pytest.fixture
def link(echo: Echo) -> Iterator[Link]:
    with Network() as network:
        yield network.link("127.0.0.1", echo.port)


def connected(link: Link) -> socket.socket:
    """A connection that works."""
    made = socket.create_connection(("127.0.0.1", link.port), PATIENCE)
    assert said(made, b"hello") == b"hello"
    return made


def said(connection: socket.socket, words: bytes, seconds: float = PATIENCE) -> bytes:
    connection.settimeout(seconds)
    connection.sendall(words)
    return connection.recv(1000)


def test_a_link_passes_all_on_and_closes_as_its_ends_do(link: Link, echo: Echo) -> None:
    with connected(link) as connection:
        assert said(connection, b"more") == b"more"
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
    until(lambda: echo.closed == 1)
    until(lambda: link.connections == 0)


def test_refused_connections_leave_others_alone(link: Link) -> None:
    with connected(link) as connection:
        link.refuse()
        with pytest.raises(ConnectionRefusedError):
            connected(link)
        assert said(connection, b"still") == b"still"
        link.heal()
        connected(link).close()


def test_a_cut_ends_both_sides_by_rst(link: Link, echo: Echo) -> None:
    with connected(link) as connection:
        link.cut()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    until(lambda: echo.closed == 1)
    connected(link).close()


@pytest.mark.parametrize(("way", "heard", "answered"), [(Way.REQUESTS, b"1234", b""), (Way.ANSWERS, b"12345678", b"1234")])
def test_a_cut_in_the_midst_of_what_is_said(link: Link, echo: Echo, way: Way, heard: bytes, answered: bytes) -> None:
    with connected(link) as connection:
        link.cut_in(way)
        got = b""
        with pytest.raises(ConnectionResetError):  # noqa: PT012 - by the first of both, or by the second
            got = said(connection, b"12345678")
            connection.recv(1)
    assert got == answered
    until(lambda: echo.heard[1:] == [heard])
    connected(link).close()


def test_what_silence_has_swallowed_is_lost_and_its_connection_with_it(link: Link, echo: Echo) -> None:
    with connected(link) as spoken, connected(link) as idle:
        link.silence()
        with pytest.raises(TimeoutError):
            said(spoken, b"lost", NOTHING_COMES)
        link.heal()
        with pytest.raises(TimeoutError):
            said(spoken, b"lost too", NOTHING_COMES)
        assert said(idle, b"nothing was lost on it") == b"nothing was lost on it"
    assert echo.heard == [b"hello", b"hello", b"nothing was lost on it"]
    until(lambda: echo.closed == 1)
    until(lambda: link.connections == 1)
    assert echo.closed == 1, "nobody told the server that the other is closed"


def test_connections_that_are_forgotten_are_lost_and_new_ones_work(link: Link, echo: Echo) -> None:
    with connected(link) as before:
        link.forget()
        with pytest.raises(TimeoutError):
            said(before, b"lost", NOTHING_COMES)
        with connected(link) as after:
            assert said(after, b"heard") == b"heard"
    assert b"lost" not in echo.heard


def test_answers_alone_can_be_lost(link: Link, echo: Echo) -> None:
    with connected(link) as connection:
        link.silence(frozenset({Way.ANSWERS}))
        with pytest.raises(TimeoutError):
            said(connection, b"done", NOTHING_COMES)
        until(lambda: echo.heard == [b"hello", b"done"])
        link.heal()
        with pytest.raises(TimeoutError):
            said(connection, b"done again", NOTHING_COMES)


def test_what_is_delayed_arrives(link: Link) -> None:
    with connected(link) as connection:
        link.delay(0.05)
        begun = time.monotonic()
        assert said(connection, b"slow") == b"slow"
        assert time.monotonic() - begun >= 0.1, "there and back"
