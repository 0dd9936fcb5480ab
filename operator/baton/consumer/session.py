"""A consumer's session with the operator: a Lease whose renewals are the heartbeat, and which lists released partitions."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Protocol

from baton.model.lease import Manifest, Vacancy, held, holder_of
from baton.model.names import GROUP_LABEL, RELEASES_ANNOTATION, TROUBLE_ANNOTATION
from baton.model.session import Release, format_releases


class LeaseStore(Protocol):
    """Reads and writes one Lease. Methods may raise any error of their connection; the session then tries again later.

    ```python
    lease = store.read()
    print(lease["spec"]["holderIdentity"] if lease else "no Lease")
    ```
    """

    def read(self) -> Manifest | None:
        """Return the Lease's manifest; None if it does not exist."""

    def write(self, lease: Manifest) -> Manifest | None:
        """Replace the Lease if it still has the manifest's resourceVersion; without a resourceVersion, create it. Return the
        stored manifest; None if the Lease has changed meanwhile."""


def renewed(
    before: Manifest | None,
    holder: str,
    group: str,
    duration: float,
    now: datetime,
    annotations: Mapping[str, str],
    owner: Mapping[str, str] | None = None,
) -> Manifest:
    """Return the Lease as its holder writes it at `now`. Labels and annotations of others stay.

    `holder` empty: the holder gives it up. `owner`: name and uid of a pod, with which the Lease is deleted.
    """
    metadata: Manifest = dict((before or {}).get("metadata") or {})
    metadata["labels"] = (metadata.get("labels") or {}) | {GROUP_LABEL: group}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    if owner is not None:
        metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", **owner}]
    return {"metadata": metadata, "spec": held(before, holder, duration, now)}


log = logging.getLogger(__name__)

DURATION = 15.0
RENEW_EVERY = 3.0
_RETRY_EVERY = 0.5
_ASK_EVERY = 2.0
_LONGEST_TROUBLE = 1000
"""Characters."""
_CLOSE_WITHIN = 3.0
"""Seconds that `close` waits for annotations that are not written yet."""


class Session:
    """Renews one Lease from a thread, so that a consumer stays alive to the operator while its handler runs.

    ```python
    session = Session(store, holder=pod.uid, group=pod.group)
    session.start()
    session.close()
    ```

    A pod's Lease has its name, and the session takes it at once. It takes an `exclusive` one (a group has one driver) only when
    no live process holds it: `acquire` waits for that. While the API server is unreachable the session keeps trying. On queues
    that fence, the consumer keeps working meanwhile.
    """

    def __init__(
        self,
        store: LeaseStore,
        *,
        holder: str,
        group: str,
        duration: float = DURATION,
        every: float = RENEW_EVERY,
        exclusive: bool = False,
        owner: Mapping[str, str] | None = None,
        gone: Callable[[str], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a session.

        Args:
            holder: The pod's UID.
            duration: Seconds that the Lease lasts without a renewal.
            every: Seconds between renewals.
            owner: Name and uid of the pod whose Lease it is.
            gone: Returns whether the holder of an exclusive Lease has ended, so that `acquire` need not wait for the Lease to
                expire. It may raise errors of the API server.
            clock: Returns the API server's time in seconds, by which gaps are measured too: the monotonic clock stands still
                while the node is suspended.
        """
        self._store = store
        self._holder = holder
        self._group = group
        self._duration = duration
        self._every = every
        self._exclusive = exclusive
        self._owner = owner
        self._gone = gone
        self._clock = clock
        self._ask_again_at = float("-inf")
        # The first write clears the annotations of an earlier process of the pod.
        self._annotations: dict[str, str] = {RELEASES_ANNOTATION: format_releases(()), TROUBLE_ANNOTATION: ""}
        self._condition = threading.Condition()
        self._unwritten = False
        self._closing = False
        self._giving_up = False
        self._renewed_at = float("-inf")
        self._renewed_at_server = float("-inf")
        """The same by `clock`."""
        self.gaps = 0
        """Number of renewals that came after the Lease had lapsed, including the first one. Counted before `renewed_within` is
        true again."""
        self._close_by = float("inf")
        self._lease: Manifest | None = None
        """The Lease as last read or written; None: it does not exist, or must be read."""
        self.failing = False
        """Whether the last renewal failed."""
        self._taken_by: str | None = None
        self._thread: threading.Thread | None = None

    def acquire(self, timeout: float | None = None, given_up: Callable[[], bool] = lambda: False) -> str | None:
        """Exclusive sessions: wait until the Lease is free, take it and start to renew it.

        Return None when it is taken; its holder after `timeout` seconds or when `given_up` returns True.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        vacancy = Vacancy()
        told = False
        while True:
            answers = self._read()
            free = answers and (vacancy.free(self._lease, self._holder, time.monotonic()) or self._holder_is_gone())
            if free and self._write():
                self.start()
                return None
            if answers and not free and not told:
                told = True
                log.warning("%s has the group %s; waiting until its Lease is free", holder_of(self._lease), self._group)
            if given_up() or (deadline is not None and time.monotonic() >= deadline):
                return holder_of(self._lease) or "an unknown holder (the API server does not answer)"
            time.sleep(_RETRY_EVERY)

    def start(self) -> None:
        """Start to renew. Does not wait: the consumer may start while the API server is unreachable."""
        self._thread = threading.Thread(target=self._run, name="baton-session", daemon=True)
        self._thread.start()

    def release(self, releases: Iterable[Release], at_once: bool = True) -> None:
        """Report exactly these releases. `at_once` False: write them with the next renewal, such as when releases that the ledger
        no longer needs are left out."""
        self.say({RELEASES_ANNOTATION: format_releases(releases)}, at_once)

    def trouble(self, why: str) -> None:
        """Report at once why this consumer cannot use its queues; empty: it can."""
        self.say({TROUBLE_ANNOTATION: why[:_LONGEST_TROUBLE]})

    def say(self, annotations: Mapping[str, str], at_once: bool = True) -> None:
        """Put annotations on the Lease: at once (after a write that is in progress), or with the next renewal."""
        with self._condition:
            if annotations.items() <= self._annotations.items():
                return
            self._annotations.update(annotations)
            if at_once:
                self._unwritten = True
                self._condition.notify_all()

    def lost(self) -> str | None:
        """Exclusive sessions: return the holder that has taken the Lease over, if any."""
        return self._taken_by

    def lapsed(self) -> bool:
        """Return whether the Lease has expired since the last renewal, so that the operator may have given up on this
        consumer."""
        return time.monotonic() - self._renewed_at >= self._duration

    def renewed_within(self, seconds: float) -> bool:
        """Return whether the last successful renewal began within this time."""
        return time.monotonic() - self._renewed_at <= seconds

    def close(self, give_up: bool = False, within: float = _CLOSE_WITHIN) -> None:
        """Write pending annotations, and stop renewing. `give_up`: leave the Lease to the next holder."""
        with self._condition:
            self._closing = True
            self._close_by = time.monotonic() + within
            self._giving_up = give_up
            self._unwritten = self._unwritten or give_up
            self._condition.notify_all()
        if self._thread is not None:
            self._thread.join(within)

    def _holder_is_gone(self) -> bool:
        if time.monotonic() < self._ask_again_at:
            return False
        self._ask_again_at = time.monotonic() + _ASK_EVERY
        try:
            return self._gone is not None and self._gone(holder_of(self._lease))
        except Exception as error:  # any error of the API server: wait until the Lease expires
            log.debug("whether %s has ended is not known: %s", holder_of(self._lease), error)
            return False

    def _run(self) -> None:
        due = time.monotonic()
        while self._wait(due):
            if self._renew():
                due = time.monotonic() + self._every
            elif self._taken_by is not None:
                return
            else:
                time.sleep(_RETRY_EVERY)
                with self._condition:
                    self._unwritten = True

    def _wait(self, due: float) -> bool:
        """Wait until a renewal is due or annotations are pending. Returns False when the session is closed."""
        with self._condition:
            self._condition.wait_for(lambda: self._unwritten or self._closing, timeout=max(0.0, due - time.monotonic()))
            if self._closing and (not self._unwritten or time.monotonic() > self._close_by):
                return False
            self._unwritten = False
            return True

    def _renew(self) -> bool:
        """Renew with one request, or read the Lease first if another process has written it."""
        for _ in range(2):
            if self._lease is None and not self._read():
                return False
            holder = holder_of(self._lease)
            if self._exclusive and holder not in ("", self._holder):
                self._taken_by = holder
                log.error("%s has taken the group %s over", holder, self._group)
                return False
            if self._write():
                return True
        return False

    def _read(self) -> bool:
        """Return False if the API server does not answer."""
        try:
            self._lease = self._store.read()
        except Exception as error:  # any error of the API server: the queues' fencing decides, not this Lease
            self._missed(error)
            return False
        return True

    def _write(self) -> bool:
        """Return False if the API server does not answer, or the Lease has changed since it was read."""
        with self._condition:
            annotations = dict(self._annotations)
        holder = "" if self._giving_up else self._holder
        now = datetime.now(UTC)
        begun = time.monotonic()
        try:
            lease = renewed(self._lease, holder, self._group, self._duration, now, annotations, self._owner)
            self._lease = self._store.write(lease)
        except Exception as error:  # likewise
            self._missed(error)
            return False
        if self._lease is None:
            return False
        at_server = self._clock() - (time.monotonic() - begun)  # now, as the answer has set the clock
        self.gaps += max(begun - self._renewed_at, at_server - self._renewed_at_server) >= self._duration
        self._renewed_at, self._renewed_at_server = begun, at_server
        if self.failing:
            log.info("the session of %s is renewed again", self._holder)
        self.failing = False
        return True

    def _missed(self, error: Exception) -> None:
        self._lease = None
        if not self.failing:
            log.warning("the session of %s cannot be renewed: %s", self._holder, error)
        self.failing = True
