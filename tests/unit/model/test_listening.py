"""A server is reached at addresses of IPv4 and of IPv6."""

import errno
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from baton.model.listening import EVERYWHERE, listening

LOOPBACKS = ["127.0.0.1", *(["::1"] if socket.has_dualstack_ipv6() else [])]
"""Of this machine."""


def reached(server: socket.socket, address: str) -> bool:
    try:
        socket.create_connection((address, server.getsockname()[1]), 5).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("address", EVERYWHERE)
def test_everywhere_is_both(address: str) -> None:
    with listening(address, 0) as server:
        assert all(reached(server, one) for one in LOOPBACKS)


@pytest.mark.parametrize("address", LOOPBACKS)
def test_an_address_is_that_one_alone(address: str) -> None:
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


def test_where_ipv6_is_switched_off_it_is_the_other(without_ipv6: None) -> None:
    with listening("", 0) as server:
        assert reached(server, "127.0.0.1")


def test_a_port_that_is_taken_is_told() -> None:
    with listening("", 0) as server, pytest.raises(OSError, match="in use"):
        listening("", server.getsockname()[1])
