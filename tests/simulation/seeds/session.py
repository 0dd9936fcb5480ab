"""A consumer's session: the Lease that it renews through the API server, as `baton.consumer.Session` does from a thread."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from baton.consumer.session import renewed
from baton.kube.leases import leases_path
from baton.model.names import RELEASES_ANNOTATION, session_lease_name
from baton.model.session import Release, format_releases
from tests.simulation.api_server.refusals import Refused
from tests.simulation.seeds.operators import EPOCH

if TYPE_CHECKING:
    from tests.simulation.seeds.consumers import Consumer

RETRY = 0.5


class Session:
    """See above. `duration`: seconds, of which a third passes between two renewals."""

    def __init__(self, consumer: Consumer, duration: float) -> None:
        self._consumer = consumer
        self._environment = consumer.tenant.environment
        self.duration = duration
        self._collection = leases_path(consumer.tenant.namespace)
        self.path = leases_path(consumer.tenant.namespace, session_lease_name(consumer.name))  # type: ignore[arg-type]
        self._lease: Any = None
        self._renewed_at = float("-inf")
        self._said: frozenset[Release] = frozenset()
        self._unsaid = False
        self._asking = False
        self._late = False
        """A renewal was due while the process was stopped."""

    def start(self) -> None:
        self._renew()

    def release(self, releases: frozenset[Release]) -> None:
        """Say at once that exactly this has been let go of."""
        if releases != self._said:
            self._said, self._unsaid = releases, True
            if not self._asking:
                self._ask()

    def lapsed(self) -> bool:
        """The operator may have given this consumer up."""
        return self._environment.now >= self._renewed_at + self.duration

    def wake(self) -> None:
        if self._late:
            self._late = False
            self._renew()
        elif self._unsaid and not self._asking:
            self._ask()

    def _renew(self) -> None:
        if self._consumer.dead:
            return
        if self._consumer.stopped:
            self._late = True
            return
        self._environment.later(self.duration / 3, self._renew)
        if not self._asking:
            self._ask()

    def _ask(self) -> None:
        if self._consumer.stopped or self._consumer.dead:
            return
        self._asking, self._unsaid = True, False
        consumer, begun = self._consumer, self._environment.now
        now = datetime.fromtimestamp(EPOCH + begun, UTC)
        said = {RELEASES_ANNOTATION: format_releases(self._said)}
        owner = {"name": consumer.name, "uid": consumer.uid}
        body = renewed(self._lease, consumer.uid, consumer.tenant.group, self.duration, now, said, owner)
        if self._lease is None:
            body["metadata"]["name"] = session_lease_name(consumer.name)  # type: ignore[arg-type]
            self._environment.send("create", self._collection, body, lambda answer: self._answered(answer, begun))
        else:
            self._environment.send("update", self.path, body, lambda answer: self._answered(answer, begun))

    def _answered(self, answer: Any, begun: float) -> None:
        """None: there was no answer."""
        if answer is None or (isinstance(answer, Refused) and answer.code != 409):
            if isinstance(answer, Refused) and answer.code == 404:
                self._lease = None
            self._environment.later(RETRY, self._again)
        elif isinstance(answer, Refused):
            self._environment.send("get", self.path, None, self._read)
        else:
            self._lease, self._renewed_at = answer, begun
            self._again(self._unsaid)

    def _read(self, answer: Any) -> None:
        self._lease = None if answer is None or isinstance(answer, Refused) else answer
        self._again()

    def _again(self, unsaid: bool = True) -> None:
        self._asking = False
        if unsaid:
            self._ask()
