"""A watch whose connection died silently."""

import socket
from collections.abc import Iterator

import pytest
import urllib3

from baton.consumer.api_server import WATCH_FOR, ApiConnection
from tests.listener import Listener

EVENT = b'{"type":"MODIFIED","object":{}}\n'
ANSWER = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(EVENT), EVENT)


@pytest.fixture
def silent() -> Iterator[Listener]:
    """A server that sends one event and then stays silent."""
    kept: list[socket.socket] = []

    def taken(connection: socket.socket) -> None:
        kept.append(connection)
        connection.sendall(ANSWER)

    listener = Listener(taken)
    yield listener
    listener.close()
    for connection in kept:
        connection.close()


def test_a_watch_that_says_nothing_for_longer_than_it_lasts_has_failed(silent: Listener) -> None:
    url = silent.url.replace("redis", "http").removesuffix("/0")
    api = ApiConnection(url, urllib3.PoolManager(), lambda: None)
    heard: list[object] = []
    with api.watch("/api/v1/configmaps", seconds=0.2) as watch, pytest.raises(urllib3.exceptions.ReadTimeoutError):
        heard.extend(watch)
    assert heard == [{"type": "MODIFIED", "object": {}}]
    assert WATCH_FOR <= 30, "what a driver does not hear of for so long, its executors do not work on"
