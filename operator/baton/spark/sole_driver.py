"""Of the programs in one pod, the one that drives a group: they would share its Lease, which names a pod and not a program."""

import errno
import hashlib
import logging
import socket
import time
from collections.abc import Callable

log = logging.getLogger("baton.spark")

_LOOK = 0.2
"""Seconds."""


class SoleDriver:
    """A name that one program of a pod has at a time; with its end, whatever ends it, the name is free.

    It is that of an abstract socket (unix(7)): all containers of a pod share these, and no file is left behind.
    """

    def __init__(self, group: str, holder: str) -> None:
        """`holder`: of the Lease that the program takes. Pods that use the node's network are told apart by it."""
        self._group = group
        self._name = "\0baton-driver-" + hashlib.sha256(f"{group} {holder}".encode()).hexdigest()
        self._held: socket.socket | None = None

    def acquire(self, given_up: Callable[[], bool] = lambda: False) -> None:
        """Wait until no other program of the pod has it, or the wait is `given_up`."""
        told = False
        while self._held is None and not given_up():
            held = socket.socket(socket.AF_UNIX)
            try:
                held.bind(self._name)
            except OSError as error:
                held.close()
                if error.errno != errno.EADDRINUSE:
                    log.debug("whether another program of this pod drives %s is not known: %s", self._group, error)
                    return
                if not told:
                    log.warning("another program of this pod drives group %s; waiting until it has ended", self._group)
                told = True
                time.sleep(_LOOK)
            else:
                self._held = held

    def release(self) -> None:
        """It is another's."""
        if self._held is not None:
            self._held.close()
            self._held = None
