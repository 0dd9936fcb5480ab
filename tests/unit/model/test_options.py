"""What a program sets is looked at where it is set."""

import errno
import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from baton.model.lines import Lines
from baton.model.listening import EVERYWHERE, listening
from baton.model.options import function


def one(entry: object) -> None: ...
def none() -> None: ...
def named(entry: object, *, database: object) -> None: ...
def many(*entries: object, **more: object) -> None: ...
def optional(entry: object, more: int = 5) -> None: ...


class Program:
    def handle(self, entry: object) -> None: ...
    def __call__(self, entry: object) -> None: ...


WITHOUT_SIGNATURE = (int, str, dict.fromkeys, b"".join)


@pytest.mark.parametrize(
    "given",
    [one, many, optional, partial(named, database=1), print, Program().handle, Program(), bytes.decode, *WITHOUT_SIGNATURE],
)
def test_a_function_with_a_fitting_signature_is_accepted(given: Callable[..., object]) -> None:
    function("on_lost", given, "partitions")


@pytest.mark.parametrize("given", [none, named, Program.handle, Program, partial(one, 5), lambda first, second: None])
def test_a_function_with_another_signature_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match=r"on_lost is .*, which takes \(.*\); it is called with \(partitions\): pass a function"):
        function("on_lost", given, "partitions")


def test_the_number_of_arguments_is_checked() -> None:
    function("token", none)
    with pytest.raises(TypeError, match=r"token is .*, which takes \(entry\); it is called with \(\)"):
        function("token", one)
    with pytest.raises(TypeError, match=r"on_revoked is .*; it is called with \(partitions, time_left\)"):
        function("on_revoked", one, "partitions", "time_left")


# -- A server is reached at addresses of IPv4 and of IPv6.


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


# -- Lines of a stream, wherever it is cut into pieces.


STREAM = b"one\n\ntwo\nthr"


@pytest.mark.parametrize("size", range(1, len(STREAM) + 1))
def test_a_line_is_whole_wherever_the_stream_is_cut(size: int) -> None:
    lines = Lines()
    found = [line for at in range(0, len(STREAM), size) for line in lines.ended_by(STREAM[at : at + size])]
    assert found == [b"one", b"", b"two"]
    assert lines.rest == b"thr", "it has no end yet"
    assert lines.ended_by(b"ee\n") == [b"three"]
    assert not lines.rest
