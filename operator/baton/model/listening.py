"""Listening sockets for IPv4 and IPv6: a pod may have addresses of either or both."""

import errno
import socket

EVERYWHERE = ("", "0.0.0.0", "::")
"""Addresses that stand for all addresses, of IPv4 and IPv6."""


def listening(address: str, port: int, backlog: int | None = None) -> socket.socket:
    """Return a listening socket. Port 0: any free port. Raises OSError."""
    if address not in EVERYWHERE:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return socket.create_server((address, port), family=family, backlog=backlog)
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=backlog)
        except OSError as error:
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                raise  # with these two errors, IPv6 is disabled on this machine
    return socket.create_server(("", port), family=socket.AF_INET, backlog=backlog)
