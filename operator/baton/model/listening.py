"""Sockets on which a process is asked: of IPv4 and of IPv6, for a pod may have addresses of either or of both."""

import errno
import socket

EVERYWHERE = ("", "0.0.0.0", "::")
"""Each of these is all addresses, of both kinds."""


def listening(address: str, port: int, backlog: int | None = None) -> socket.socket:
    """Port 0: a free one. Raises OSError."""
    if address not in EVERYWHERE:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return socket.create_server((address, port), family=family, backlog=backlog)
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=backlog)
        except OSError as error:
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                raise  # else IPv6 is switched off here
    return socket.create_server(("", port), family=socket.AF_INET, backlog=backlog)
