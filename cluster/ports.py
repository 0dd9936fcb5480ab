"""Ports for servers that the cluster, the demo and tests start."""

import random
import socket
from collections.abc import Iterator

_FIRST, _LAST = 20_000, 32_000


def free_ports(address: str = "") -> Iterator[int]:
    """Free ports below the kernel's ephemeral ports.

    With an ephemeral port, a client that tries to reach a stopped server would sooner or later get that very port, connect to
    itself, and keep the server from starting again.
    """
    begin = random.randrange(_FIRST, _LAST)
    for port in (*range(begin, _LAST), *range(_FIRST, begin)):
        try:
            socket.create_server((address, port)).close()
        except OSError:
            continue
        yield port
    raise RuntimeError(f"there is no free port between {_FIRST} and {_LAST}")
