"""A consumer's session with the operator: a Lease whose renewals are the heartbeat, and which lists what was let go of."""

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
    """Reads and writes one Lease. A method may raise what its connection raises, which counts as "not now".

    ```python
    lease = store.read()
    print(lease["spec"]["holderIdentity"] if lease else "no Lease")
    ```
    """

    def read(self) -> Manifest | None:
        """Return the Lease's manifest; None if it does not exist."""

    def write(self, lease: Manifest) -> Manifest | None:
        """Replace it if it still is at the manifest's resourceVersion; without one, create it. Return what is stored then; None
        if it has changed meanwhile."""


def renewed(
    before: Manifest | None,
    holder: str,
    group: str,
    duration: float,
    now: datetime,
    annotations: Mapping[str, str],
    owner: Mapping[str, str] | None = None,
) -> Manifest:
    """The Lease as its holder writes it at `now`. What others put on it stays. `holder` empty: given up.

    `owner` is a pod's name and uid: the Lease is deleted with it.
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
_MOST_WORDS = 1000
_LAST_WORD = 3.0
"""Seconds that `close` waits for what has not been said yet."""


class Session:
    """Renews one Lease from a thread, so that a consumer does not look dead while its handler runs.

    ```python
    session = Session(store, holder=pod.uid, group=pod.group)
    session.start()
    session.close()
    ```

    A pod's own Lease belongs to it by name, and is simply taken. An `exclusive` one is taken only when no live process holds it
    (a group has one driver): `acquire` waits. While the API server is away the session tries again and again; on queues that
    fence, the consumer goes on meanwhile.
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
    ) -> None:
        """`holder`: the pod's UID. `duration`, `every`: seconds. `owner`: name and uid of the pod whose Lease it is. `gone`: who
        holds an exclusive Lease has ended, so that its term is not waited for; may raise what the way to the API server
        raises.
        """
        self._store = store
        self._holder = holder
        self._group = group
        self._duration = duration
        self._every = every
        self._exclusive = exclusive
        self._owner = owner
        self._gone = gone
        self._ask_again_at = float("-inf")
        # What an earlier process of the pod has said of itself ends with this one's first word.
        self._annotations: dict[str, str] = {RELEASES_ANNOTATION: format_releases(()), TROUBLE_ANNOTATION: ""}
        self._condition = threading.Condition()
        self._unsaid = False
        self._closing = False
        self._giving_up = False
        self._renewed_at = float("-inf")
        self.gaps = 0
        """How often a renewal came only after the one before had lapsed; the first counts."""
        self._close_by = float("inf")
        self._lease: Manifest | None = None
        """As it was last read or written; None: it does not exist, or has to be read."""
        self._problem = False
        self._taken_by: str | None = None
        self._thread: threading.Thread | None = None

    def acquire(self, timeout: float | None = None, given_up: Callable[[], bool] = lambda: False) -> str | None:
        """Exclusive sessions: wait until the Lease is free, take it and begin to renew it.

        None: taken. Else who has it, after `timeout` seconds, or when the wait is `given_up`.
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
        """Begin to renew. Does not wait: the consumer may begin while the API server is away."""
        self._thread = threading.Thread(target=self._run, name="baton-session", daemon=True)
        self._thread.start()

    def release(self, releases: Iterable[Release], at_once: bool = True) -> None:
        """Say that exactly this has been let go of. What the ledger no longer counts as ours may be left out again, which need
        not be said at once."""
        self.say({RELEASES_ANNOTATION: format_releases(releases)}, at_once)

    def trouble(self, why: str) -> None:
        """Say, at once, what keeps this consumer from its queues; empty: nothing."""
        self.say({TROUBLE_ANNOTATION: why[:_MOST_WORDS]})

    def say(self, annotations: Mapping[str, str], at_once: bool = True) -> None:
        """Put annotations on the Lease: at once (what is said while a write is under way goes together with the next), or with
        the next renewal.
        """
        with self._condition:
            if annotations.items() <= self._annotations.items():
                return
            self._annotations.update(annotations)
            if at_once:
                self._unsaid = True
                self._condition.notify_all()

    def lost(self) -> str | None:
        """Exclusive sessions: the holder that has taken the Lease over, if any."""
        return self._taken_by

    def lapsed(self) -> bool:
        """The operator may have given this consumer up: its last renewal is longer ago than the Lease is long."""
        return time.monotonic() - self._renewed_at >= self._duration

    def renewed_within(self, seconds: float) -> bool:
        """The last renewal was begun no longer ago."""
        return time.monotonic() - self._renewed_at <= seconds

    @property
    def unheard(self) -> bool:
        """The last renewal did not come through."""
        return self._problem

    def close(self, give_up: bool = False, within: float = _LAST_WORD) -> None:
        """Say what has not been said yet, and stop renewing. `give_up`: leave the Lease to the next holder."""
        with self._condition:
            self._closing = True
            self._close_by = time.monotonic() + within
            self._giving_up = give_up
            self._unsaid = self._unsaid or give_up
            self._condition.notify_all()
        if self._thread is not None:
            self._thread.join(within)

    def _holder_is_gone(self) -> bool:
        if time.monotonic() < self._ask_again_at:
            return False
        self._ask_again_at = time.monotonic() + _ASK_EVERY
        try:
            return self._gone is not None and self._gone(holder_of(self._lease))
        except Exception as error:  # whatever the way to the API server raises: then its term is waited for
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
                    self._unsaid = True

    def _wait(self, due: float) -> bool:
        """Until a renewal is due or there is something to say; False: it is over."""
        with self._condition:
            self._condition.wait_for(lambda: self._unsaid or self._closing, timeout=max(0.0, due - time.monotonic()))
            if self._closing and (not self._unsaid or time.monotonic() > self._close_by):
                return False
            self._unsaid = False
            return True

    def _renew(self) -> bool:
        """One request while no other process writes the Lease; else what stands there is read first."""
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
        """False: the API server does not answer."""
        try:
            self._lease = self._store.read()
        except Exception as error:  # whatever the way to the API server raises: the queues' fence decides, not this Lease
            self._missed(error)
            return False
        return True

    def _write(self) -> bool:
        """False: the API server does not answer, or the Lease has changed since it was read."""
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
        self.gaps += begun - self._renewed_at >= self._duration
        self._renewed_at = begun
        if self._problem:
            log.info("the session of %s is renewed again", self._holder)
        self._problem = False
        return True

    def _missed(self, error: Exception) -> None:
        self._lease = None
        if not self._problem:
            log.warning("the session of %s cannot be renewed: %s", self._holder, error)
        self._problem = True
