"""The driver's Lease: there is one live driver per group, and it speaks for its executors."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from kubernetes import client

from baton.model.names import (
    API_GROUP,
    EXECUTORS_ANNOTATION,
    GROUP_LABEL,
    RELEASES_ANNOTATION,
    SPARK_APP_ANNOTATION,
    driver_lease_name,
)
from baton.model.session import Release, format_releases

log = logging.getLogger("baton.spark")

STATISTICS_ANNOTATION = f"{API_GROUP}/statistics"
"""On the driver's Lease: what it has counted, as JSON."""


@dataclass(frozen=True, slots=True)
class Word:
    """What the driver says of its fleet."""

    app: str = ""
    executors: tuple[str, ...] = ()
    """Spark's ids of those that are registered."""
    releases: frozenset[Release] = frozenset()
    statistics: str = ""

    def annotations(self) -> dict[str, str]:
        return {
            SPARK_APP_ANNOTATION: self.app,
            EXECUTORS_ANNOTATION: ",".join(self.executors),
            RELEASES_ANNOTATION: format_releases(self.releases),
            STATISTICS_ANNOTATION: self.statistics,
        }


class Session(Protocol):
    """The driver's word to the operator."""

    def acquire(self) -> None:
        """Become the group's one driver; waits as long as another one lives."""

    def say(self, **changes: Any) -> None:
        """Change fields of the `Word`; executors and releases are told at once, statistics with the next renewal."""

    def lost(self) -> str | None:
        """Who has taken the group over; None: nobody."""

    def close(self) -> None:
        """Give the group up."""


@dataclass(frozen=True, slots=True)
class Held:
    """A Lease in somebody's hands, as this process first saw it in this state."""

    holder: str
    renewed: str
    duration: float
    seen: float
    """By this process's clock: the holder's may be another."""

    def lapsed(self, now: float) -> bool:
        """Nobody holds it, or its holder has been silent for its whole length."""
        return not self.holder or now - self.seen >= self.duration


class LeaseSession:
    """A Lease at the API server, renewed from its own thread: a long batch does not make the driver look dead."""

    def __init__(
        self, api: client.ApiClient, namespace: str, group: str, holder: str, duration: float = 15.0, every: float = 3.0
    ) -> None:
        self._leases = client.CoordinationV1Api(api)
        self._namespace, self._group, self._holder = namespace, group, holder
        self._name = driver_lease_name(group)
        self._duration, self._every = duration, every
        self._word: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closed = False
        self._taken_by: str | None = None
        self._thread: threading.Thread | None = None

    def acquire(self) -> None:
        seen: Held | None = None
        told = False
        while True:
            lease = self._get()
            held = _held(lease, time.monotonic()) if lease else None
            if seen is None or held is None or (held.holder, held.renewed) != (seen.holder, seen.renewed):
                seen = held
            if held is None or seen is None or held.holder == self._holder or seen.lapsed(time.monotonic()):
                if self._write(lease):
                    break
            elif not told:
                told = True
                log.warning(
                    "another driver (%s) has the group %s/%s: waiting until its Lease %s is free",
                    held.holder, self._namespace, self._group, self._name,
                )  # fmt: skip
            time.sleep(0.5)
        log.info("this driver (%s) has the group %s/%s", self._holder, self._namespace, self._group)
        self._thread = threading.Thread(target=self._run, name="baton-session", daemon=True)
        self._thread.start()

    def say(self, **changes: Any) -> None:
        with self._lock:
            if all(self._word.get(name) == value for name, value in changes.items()):
                return
            self._word.update(changes)
        if changes.keys() != {"statistics"}:
            self._wake.set()

    def lost(self) -> str | None:
        return self._taken_by

    def close(self) -> None:
        self._closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(10)

    def _run(self) -> None:
        """Renew until closed, then leave the Lease to whoever comes next."""
        problem = False
        while self._taken_by is None:
            self._wake.wait(0.2 if problem else self._every)
            self._wake.clear()
            closing = self._closed
            try:
                lease = self._get()
                holder = lease["spec"].get("holderIdentity") if lease else None
                if holder and holder != self._holder:
                    self._taken_by = holder
                    log.error("driver %s has taken over the group %s/%s", holder, self._namespace, self._group)
                    return
                done = self._write(lease, leave=closing)
                if problem and done:
                    log.info("the Lease %s is renewed again", self._name)
                problem = not done
            except Exception as error:  # whatever the API server or the network does: the queues' fence decides, not this Lease
                if not problem:
                    log.warning("the Lease %s cannot be renewed: %s", self._name, error)
                problem = True
                time.sleep(0.5)
            if closing:
                return

    def _get(self) -> dict[str, Any] | None:
        try:
            lease = self._leases.read_namespaced_lease(self._name, self._namespace, _request_timeout=5)
        except client.ApiException as error:
            if error.status == 404:
                return None
            raise
        found: dict[str, Any] = self._leases.api_client.sanitize_for_serialization(lease)
        return found

    def _write(self, lease: dict[str, Any] | None, leave: bool = False) -> bool:
        """Create or replace what was read; False: somebody was faster."""
        with self._lock:
            word = Word(**self._word)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        before = lease["spec"] if lease else {}
        mine = before.get("holderIdentity") == self._holder
        metadata: dict[str, Any] = lease["metadata"] if lease else {"name": self._name, "namespace": self._namespace}
        body: Any = {
            "metadata": metadata
            | {
                "labels": metadata.get("labels", {}) | {GROUP_LABEL: self._group},
                "annotations": metadata.get("annotations", {}) | (Word(word.app) if leave else word).annotations(),
            },
            "spec": {
                "holderIdentity": "" if leave else self._holder,
                "leaseDurationSeconds": round(self._duration),
                "acquireTime": before.get("acquireTime", now) if mine else now,
                "renewTime": now,
                "leaseTransitions": before.get("leaseTransitions", 0) + (not mine),
            },
        }
        try:
            if lease is None:
                self._leases.create_namespaced_lease(self._namespace, body, _request_timeout=5)
            else:
                self._leases.replace_namespaced_lease(self._name, self._namespace, body, _request_timeout=5)
        except client.ApiException as error:
            if error.status in (404, 409):
                return False
            raise
        return True


def _held(lease: dict[str, Any], now: float) -> Held:
    spec = lease["spec"]
    return Held(spec.get("holderIdentity") or "", spec.get("renewTime") or "", spec.get("leaseDurationSeconds") or 15, now)


class SilentSession:
    """A session that nobody listens to, for development without an API server; keeps the last word for whoever asks."""

    def __init__(self, heard: Callable[[Word], None] = lambda word: None) -> None:
        self.word = Word()
        self._said: dict[str, Any] = {}
        self._heard = heard

    def acquire(self) -> None:
        pass

    def say(self, **changes: Any) -> None:
        self._said.update(changes)
        self.word = Word(**self._said)
        self._heard(self.word)

    def lost(self) -> str | None:
        return None

    def close(self) -> None:
        pass
