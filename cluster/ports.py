"""Ports for servers that the cluster, the demo and tests start."""

import random
import socket
from collections.abc import Iterator

_FIRST, _LAST = 20_000, 32_000


def free_ports(address: str = "") -> Iterator[int]:
    """Ports without a listener, from below those that the kernel gives to outgoing connections.

    A client that tries to reach a stopped server on one of the latter is sooner or later given that very port, talks to itself,
    and the server cannot start again.
    """
    begin = random.randrange(_FIRST, _LAST)
    for port in (*range(begin, _LAST), *range(_FIRST, begin)):
        try:
            socket.create_server((address, port)).close()
        except OSError:
            continue
        yield port
    raise RuntimeError(f"there is no free port between {_FIRST} and {_LAST}")
