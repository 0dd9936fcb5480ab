"""A consumer: one process in a pod. It acts on the ledger as it last read it, and may be slow, silent or stopped."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from baton.consumer.session import renewed
from baton.kube.leases import leases_path
from baton.model.ids import Epoch, QueueName, Uid
from baton.model.ledger import LedgerError, MemberEntry
from baton.model.names import RELEASES_ANNOTATION, session_lease_name
from baton.model.session import Release, format_releases
from tests.simulation.api_server.refusals import Refused
from tests.simulation.seeds.operators import EPOCH

if TYPE_CHECKING:
    from tests.simulation.seeds.tenant import Tenant


# A consumer's session: the Lease that it renews through the API server, as `baton.consumer.Session` does from a thread


RETRY = 0.5


class Session:
    """A consumer's session. `duration`: seconds until it lapses; it is renewed after a third of them."""

    def __init__(self, consumer: Consumer, duration: float) -> None:
        self._consumer = consumer
        self._environment = consumer.tenant.environment
        self.duration = duration
        self._collection = leases_path(consumer.tenant.namespace)
        self.path = leases_path(consumer.tenant.namespace, session_lease_name(consumer.name))  # type: ignore[arg-type]
        self._lease: Any = None
        self._renewed_at = float("-inf")
        self._releases: frozenset[Release] = frozenset()
        self._unsent = False
        self._asking = False
        self._late = False
        """A renewal was due while the process was stopped."""

    def start(self) -> None:
        self._renew()

    def release(self, releases: frozenset[Release]) -> None:
        """Report exactly these releases, at once."""
        if releases != self._releases:
            self._releases, self._unsent = releases, True
            if not self._asking:
                self._ask()

    def lapsed(self) -> bool:
        """True if the operator may count the session as lapsed."""
        return self._environment.now >= self._renewed_at + self.duration

    def wake(self) -> None:
        if self._late:
            self._late = False
            self._renew()
        elif self._unsent and not self._asking:
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
        self._asking, self._unsent = True, False
        consumer, begun = self._consumer, self._environment.now
        now = datetime.fromtimestamp(EPOCH + begun, UTC)
        annotations = {RELEASES_ANNOTATION: format_releases(self._releases)}
        owner = {"name": consumer.name, "uid": consumer.uid}
        body = renewed(self._lease, consumer.uid, consumer.tenant.group, self.duration, now, annotations, owner)
        if self._lease is None:
            body["metadata"]["name"] = session_lease_name(consumer.name)  # type: ignore[arg-type]
            self._environment.send("create", self._collection, body, lambda answer: self._answered(answer, begun))
        else:
            self._environment.send("update", self.path, body, lambda answer: self._answered(answer, begun))

    def _answered(self, answer: Any, begun: float) -> None:
        """Handle the answer to a renewal; None: no answer came."""
        if answer is None or (isinstance(answer, Refused) and answer.code != 409):
            if isinstance(answer, Refused) and answer.code == 404:
                self._lease = None
            self._environment.later(RETRY, self._again)
        elif isinstance(answer, Refused):
            self._environment.send("get", self.path, None, self._read)
        else:
            self._lease, self._renewed_at = answer, begun
            self._again(self._unsent)

    def _read(self, answer: Any) -> None:
        self._lease = None if answer is None or isinstance(answer, Refused) else answer
        self._again()

    def _again(self, needed: bool = True) -> None:
        self._asking = False
        if needed:
            self._ask()


Key = tuple[str, int]

MOUNT_LAG = 12.0
"""Seconds after which every pod sees a change of the ledger, even if nothing makes its kubelet refresh the volume early."""


@dataclass(eq=False, slots=True)
class Consumer:
    tenant: Tenant
    name: str
    uid: str
    instance: str | None = None
    subscribed: frozenset[str] | None = None
    pace: float = 0.7
    """Seconds between looks for work."""
    work: float = 0.3
    """Seconds for a batch, which a revoke does not interrupt."""
    silent: bool = False
    """After a revoke it neither finishes nor releases, but renews its session."""
    lease: float | None = None
    """Seconds until the session lapses; None: no session."""
    terminating: bool = False
    draining: bool = False
    stopped: bool = False
    dead: bool = False
    owned: dict[Key, int] = field(default_factory=dict)
    revoking: dict[Key, int] = field(default_factory=dict)
    read_to: dict[Key, int] = field(default_factory=dict)
    busy: dict[Key, tuple[int, int, int]] = field(default_factory=dict)
    """Batches in work: epoch, start, end."""
    released: set[tuple[str, int, int]] = field(default_factory=set)
    """Queue, partition and epoch of releases."""
    early: dict[Key, int] = field(default_factory=dict)
    """Partitions that another consumer handed over, and that the consumer's key does not have yet."""
    idle: bool = True
    """The consumer's key has no partitions."""
    session: Session | None = None
    _lapse_seen: bool = False
    _sees_all_at: float = 0.0

    @property
    def alive(self) -> bool:
        return not self.dead and not self.stopped

    def start(self) -> None:
        environment = self.tenant.environment
        environment.later(environment.rng.random() * self.pace, self._tick)
        if self.lease is not None:
            self.session = Session(self, self.lease)
            self.session.start()

    def told(self, text: str | None) -> None:
        """Read the consumer's key of the ledger. A key with another UID was written for an earlier pod."""
        if not self.alive:
            return
        try:
            entry = None if text is None else MemberEntry.from_json(text)
        except (LedgerError, RecursionError):
            return  # another client spoilt the ledger; the operator restores it
        if entry is not None and entry.uid != self.uid:
            entry = None
        owned = {} if entry is None else _flat(entry.owned)
        revoking = {} if entry is None else _flat(entry.revoking)
        for key, epoch in owned.items():
            if self.owned.get(key) != epoch:
                self.tenant.told(self, key, epoch)
                if self.owned.get(key, self.revoking.get(key)) is not None and key in self.busy:
                    del self.busy[key]  # a new grant ends the batch under the old epoch
                self.read_to.pop(key, None)
        told = owned | revoking
        self.early = {key: epoch for key, epoch in self.early.items() if epoch > told.get(key, 0)}
        self.released = {one for one in self.released if told.get((one[0], one[1])) == one[2]}
        # A grant back has a new epoch, so a partition that was released at one epoch stays released at it.
        self.owned = {key: epoch for key, epoch in owned.items() if (*key, epoch) not in self.released} | self.early
        self.revoking = {key: epoch for key, epoch in revoking.items() if key not in self.early}
        for key in [key for key in self.busy if key not in told | self.early]:
            del self.busy[key]
        self.idle = not told | self.early
        if not self.silent:
            for key, epoch in self.revoking.items():
                if key not in self.busy:
                    self._release(key, epoch)
        self._report()

    def handed_over(self, key: Key, epoch: int) -> None:
        """Begin with a partition that the previous owner has handed over. The consumer's key has it later."""
        if self.alive and epoch > max(self.owned.get(key, 0), self.revoking.get(key, 0)):
            self.tenant.told(self, key, epoch)
            self.busy.pop(key, None)
            self.read_to.pop(key, None)
            self.owned[key] = self.early[key] = epoch
            self.idle = False

    def may_act(self, key: Key) -> bool:
        """True if the consumer may work on a partition. If the queue cannot fence, its session must not have lapsed; after a
        lapse it waits until its mounted ledger shows everything that was decided meanwhile."""
        if self.session is None or self.tenant.server(key[0]).fenced:
            return True
        if self.session.lapsed():
            self._lapse_seen = True
            return False
        now = self.tenant.environment.now
        if self._lapse_seen:
            self._lapse_seen, self._sees_all_at = False, now + MOUNT_LAG
        return now >= self._sees_all_at

    def restart_in_place(self) -> None:
        """Restart the container in the same pod: it forgets how far it had read."""
        self.busy.clear()
        self.read_to.clear()
        self.released.clear()

    def speak(self) -> None:
        """End the silence."""
        self.silent = False
        for key in list(self.busy):
            self._finish(key)
        self.told(self.tenant.ledger.get(self.name))

    def stop(self) -> None:
        self.stopped = True

    def wake(self) -> None:
        """SIGCONT: continue the work before reading anything. If the queue cannot fence, check the session first."""
        self.stopped = False
        for key in list(self.busy):
            self._finish(key)
        self._look_for_work()
        if self.session is not None:
            self.session.wake()

    def _drop(self, key: Key) -> None:
        self.owned.pop(key, None)
        self.early.pop(key, None)
        self.busy.pop(key, None)
        self.read_to.pop(key, None)

    def _tick(self) -> None:
        if self.dead:
            return
        if not self.stopped:
            self._look_for_work()
        self.tenant.environment.later(self.pace, self._tick)

    def _look_for_work(self) -> None:
        for key, epoch in list(self.owned.items()):
            if key in self.busy or not self.may_act(key):
                continue
            answer = self.tenant.read(self, key, epoch, self.read_to.get(key))
            if answer == "stale":
                self._drop(key)
            elif answer == "paused":
                if self.terminating and not self.silent:  # its volume is no longer refreshed: it learns from the queue
                    self._release(key, epoch)
                    self._report()
            elif isinstance(answer, tuple) and answer[1] > answer[0]:
                self.busy[key] = (epoch, *answer)
                self.read_to[key] = answer[1]
                self.tenant.environment.later(self.work, self._finish, key)

    def _finish(self, key: Key) -> None:
        if self.stopped or self.dead or key not in self.busy or (self.silent and key in self.revoking):
            return
        epoch, start, end = self.busy.pop(key)
        if not self.may_act(key):
            self.read_to.pop(key, None)
            taken: bool | None = True  # it stops; the present owner does that work again
        else:
            taken = self.tenant.acknowledge(self, key, epoch, start, end)
        if taken is None:  # no answer: again, until there is one
            self.busy[key] = (epoch, start, end)
            self.tenant.environment.later(1.0, self._finish, key)
            return
        if not taken:
            self._drop(key)
        if key in self.revoking and not self.silent:
            self._release(key, self.revoking[key])
            self._report()

    def _release(self, key: Key, epoch: int) -> None:
        self.read_to.pop(key, None)
        self.owned.pop(key, None)
        self.early.pop(key, None)
        self.released.add((*key, epoch))
        self.tenant.release_partition(self, key, epoch)

    def _report(self) -> None:
        if self.session is not None:
            self.session.release(
                frozenset(
                    Release(Uid(self.uid), QueueName(queue), number, Epoch(epoch)) for queue, number, epoch in self.released
                )
            )


def _flat(queues: object) -> dict[Key, int]:
    return {(queue, number): epoch for queue, grants in queues.items() for number, epoch in grants.items()}  # type: ignore[attr-defined]
