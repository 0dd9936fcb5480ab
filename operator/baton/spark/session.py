"""The driver's Lease: it ensures one live driver per group, and reports the driver's executors to the operator."""

import errno
import hashlib
import logging
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from baton import consumer
from baton.consumer.session import DURATION, RENEW_EVERY, LeaseStore
from baton.model.names import (
    EXECUTORS_ANNOTATION,
    MISSING_RIGHTS_ANNOTATION,
    QUERY_FAILURE_ANNOTATION,
    RELEASES_ANNOTATION,
    SPARK_APP_ANNOTATION,
    STATISTICS_ANNOTATION,
    TROUBLE_ANNOTATION,
)
from baton.model.session import Release, format_releases

log = logging.getLogger("baton.spark")

# -- the lock between the programs of one pod

_POLL = 0.2
"""Seconds."""


class SoleDriver:
    """A lock that one program of a pod holds at a time. The group's Lease names the pod, so two programs of a pod could both hold
    it.

    The lock is the name of an abstract socket (unix(7)): all containers of a pod share these, they leave no file, and the kernel
    frees the name when the program ends.
    """

    def __init__(self, group: str, holder: str) -> None:
        """`holder`: the holder of the Lease. It distinguishes pods that use the network of their node."""
        self._group = group
        self._name = "\0baton-driver-" + hashlib.sha256(f"{group} {holder}".encode()).hexdigest()
        self._held: socket.socket | None = None

    def acquire(self, given_up: Callable[[], bool] = lambda: False) -> None:
        """Wait until no other program of the pod holds the lock, or until `given_up` returns true."""
        warned = False
        while self._held is None and not given_up():
            held = socket.socket(socket.AF_UNIX)
            try:
                held.bind(self._name)
            except OSError as error:
                held.close()
                if error.errno != errno.EADDRINUSE:
                    log.debug("cannot check for another program of this pod that drives %s: %s", self._group, error)
                    return
                if not warned:
                    log.warning("another program of this pod drives group %s; waiting until it has ended", self._group)
                warned = True
                time.sleep(_POLL)
            else:
                self._held = held

    def release(self) -> None:
        """Free the lock for other programs."""
        if self._held is not None:
            self._held.close()
            self._held = None


# -- the Lease


@dataclass(frozen=True, slots=True)
class DriverStatus:
    """The driver's report on its fleet, written as annotations of its Lease."""

    app: str = ""
    executors: tuple[str, ...] = ()
    """Spark's ids of the registered executors."""
    releases: frozenset[Release] = frozenset()
    statistics: str = ""
    trouble: str = ""
    """Why the driver cannot read its queues."""
    query_failure: str = ""
    """Why the query keeps failing."""
    missing_rights: str = ""
    """Rights that the driver's account has lost."""

    def annotations(self) -> dict[str, str]:
        return {
            SPARK_APP_ANNOTATION: self.app,
            EXECUTORS_ANNOTATION: ",".join(self.executors),
            RELEASES_ANNOTATION: format_releases(self.releases),
            STATISTICS_ANNOTATION: self.statistics,
            TROUBLE_ANNOTATION: self.trouble,
            QUERY_FAILURE_ANNOTATION: self.query_failure,
            MISSING_RIGHTS_ANNOTATION: self.missing_rights,
        }


class FleetSession:
    """The driver's reports to the operator. This base class keeps them to itself, for development without an API server."""

    def __init__(self) -> None:
        self.status = DriverStatus()

    def acquire(self, given_up: Callable[[], bool] = lambda: False) -> None:
        """Become the group's only driver. Waits while another driver lives, in this pod or another, until `given_up` returns
        true."""

    def update(self, **changes: Any) -> None:
        """Change fields of the `DriverStatus`. Only a change of nothing but statistics waits for the Lease's next renewal."""
        self.status = replace(self.status, **changes)

    def lost(self) -> str | None:
        """Return the driver that has taken over the group, if any."""
        return None

    def lapsed(self) -> bool:
        """Return whether the Lease has lapsed, so that another driver may have the group."""
        return False

    def close(self) -> None:
        """Give up the group."""


class DriverSession(FleetSession):
    """A Lease that one driver holds at a time. Its own thread renews it, so that a long batch does not make the driver look
    dead."""

    def __init__(
        self,
        store: LeaseStore,
        group: str,
        holder: str,
        duration: float = DURATION,
        every: float = RENEW_EVERY,
        gone: Callable[[str], bool] | None = None,
    ) -> None:
        """`holder`: the UID of the driver's pod. `duration`, `every`: seconds. `gone`: whether another holder has ended."""
        super().__init__()
        self._session = consumer.Session(
            store, holder=holder, group=group, duration=duration, every=every, exclusive=True, gone=gone
        )
        self._sole_driver = SoleDriver(group, holder)
        self._lock = threading.Lock()

    def acquire(self, given_up: Callable[[], bool] = lambda: False) -> None:
        self._sole_driver.acquire(given_up)
        try:
            if not given_up():
                self._session.acquire(given_up=given_up)
        except BaseException:  # such as Ctrl-C in a notebook, where the user may try again
            self._sole_driver.release()
            raise

    def update(self, **changes: Any) -> None:
        with self._lock:
            before = self.status
            super().update(**changes)
            urgent = replace(self.status, statistics=before.statistics) != before
            self._session.say(self.status.annotations(), at_once=urgent)

    def lost(self) -> str | None:
        return self._session.lost()

    def lapsed(self) -> bool:
        return self._session.lapsed()

    def close(self) -> None:
        self.update(executors=(), releases=frozenset(), statistics="", trouble="", query_failure="", missing_rights="")
        self._session.close(give_up=True)
        self._sole_driver.release()
