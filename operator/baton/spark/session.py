"""The driver's Lease: there is one live driver per group, and it speaks for its executors."""

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

# -- of the programs in one pod, the one that drives a group

_LOOK = 0.2
"""Seconds."""


class SoleDriver:
    """A name that one program of a pod has at a time: two would share the group's Lease, which names a pod and not a program.
    When the program ends, for whatever reason, the name is free.

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


# -- the Lease


@dataclass(frozen=True, slots=True)
class Word:
    """What the driver says of its fleet."""

    app: str = ""
    executors: tuple[str, ...] = ()
    """Spark's ids of those that are registered."""
    releases: frozenset[Release] = frozenset()
    statistics: str = ""
    trouble: str = ""
    """What keeps it from its queues."""
    query_failure: str = ""
    """Why its query fails again and again."""
    missing_rights: str = ""
    """What its account may not do any more."""

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
    """The driver's word to the operator. This one is heard by no operator, for development without an API server."""

    def __init__(self) -> None:
        self.word = Word()

    def acquire(self, given_up: Callable[[], bool] = lambda: False) -> None:
        """Become the group's one driver; waits as long as another one lives, in this pod or another, unless the wait is
        `given_up`."""

    def say(self, **changes: Any) -> None:
        """Change fields of the `Word`; executors and releases are told at once, statistics with the next renewal."""
        self.word = replace(self.word, **changes)

    def lost(self) -> str | None:
        """The driver that has taken the group over, if any."""
        return None

    def close(self) -> None:
        """Give the group up."""


class DriverSession(FleetSession):
    """A Lease that one driver has at a time, renewed from its own thread: a long batch does not make the driver look dead."""

    def __init__(
        self,
        store: LeaseStore,
        group: str,
        holder: str,
        duration: float = DURATION,
        every: float = RENEW_EVERY,
        gone: Callable[[str], bool] | None = None,
    ) -> None:
        """`holder`: the driver's pod by its UID. `duration`, `every`: seconds. `gone`: another holder has ended."""
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
        except BaseException:  # such as Ctrl-C in a notebook, which keeps what was raised, and tries again
            self._sole_driver.release()
            raise

    def say(self, **changes: Any) -> None:
        with self._lock:
            before = self.word
            super().say(**changes)
            news = replace(self.word, statistics=before.statistics) != before
            self._session.say(self.word.annotations(), at_once=news)

    def lost(self) -> str | None:
        return self._session.lost()

    def close(self) -> None:
        self.say(executors=(), releases=frozenset(), statistics="", trouble="", query_failure="", missing_rights="")
        self._session.close(give_up=True)
        self._sole_driver.release()
