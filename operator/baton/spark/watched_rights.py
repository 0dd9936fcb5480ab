"""Whether the driver's account may still do what a fleet needs: a Role may be changed while the fleet runs.

What is refused then only shows in the log of Spark, such as that no executor can be made. So the driver asks, and says it on its
Lease.
"""

import logging
import threading
from typing import Protocol

from baton.consumer.api_server import ApiConnection
from baton.spark.rights import account, missing, needed, sentence

log = logging.getLogger("baton.spark")

_EVERY = 30.0
"""Seconds."""


class Rights(Protocol):
    """Where the driver learns what its account lacks."""

    def missing(self) -> str:
        """A sentence for people; empty: nothing, as far as is known."""

    def close(self) -> None:
        """Look no more."""


class AllRights:
    """Without Kubernetes nothing is refused."""

    def missing(self) -> str:
        return ""

    def close(self) -> None:
        pass


class WatchedRights:
    """At the API server."""

    def __init__(self, api: ApiConnection, namespace: str, group: str, every: float = _EVERY) -> None:
        """`every`: seconds between two looks."""
        self._api, self._namespace, self._group, self._every = api, namespace, group, every
        self._missing = ""
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="baton-rights", daemon=True).start()

    def missing(self) -> str:
        return self._missing

    def close(self) -> None:
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(self._every):
            try:
                self._look()
            except Exception as error:  # an API server that does not answer is no refusal
                log.debug("the rights of the driver's account were not looked at: %s", error)

    def _look(self) -> None:
        lacking = missing(self._api, self._namespace, needed(self._group))
        found = sentence(account(self._api), self._namespace, lacking) if lacking else ""
        if found and found != self._missing:
            log.error("%s", found)
        self._missing = found
