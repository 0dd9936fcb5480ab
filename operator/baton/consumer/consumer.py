"""A plain pod's consumer: reads the partitions that its ledger gives it, hands their entries to a function, acknowledges."""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, Self

from baton.consumer.handler import Handler, HandlerRun
from baton.consumer.holding import Holding, Phase
from baton.consumer.pod import DEFAULT_GRACE, Pod
from baton.consumer.reader import Reader
from baton.consumer.session import Session
from baton.consumer.source import AssignmentSource
from baton.consumer.waiter import Waiter
from baton.consumer.work import Work
from baton.model.ids import Partition, QueueName, Uid
from baton.model.ledger import MemberEntry, flat
from baton.model.names import session_lease_name
from baton.model.session import Release
from baton.queues.protocol import QueueUnreachable

log = logging.getLogger(__name__)

_IDLE = 5.0
"""Seconds after which an idle consumer looks around even if nobody has called it."""
_WATCH_EVERY = 0.05
"""Seconds after which a busy consumer sees to it that the partitions at rest are waited for."""
_LAST_SECONDS = 5.0
"""Of the grace period, kept for the entry in hand and the last word to the operator."""


class Consumer:
    """Hands the entries of the pod's partitions to a handler: one at a time, in order per partition, at least once.

    - An entry is acknowledged after the handler returned. If the handler raises, the entry is tried again, and its partition
      waits for it; the other partitions go on.
    - A partition that is to be let go is read no further; what is in hand is finished, acknowledged, and reported released. The
      handler should take well under the queue's maxHandoffSeconds per entry, or the partition is taken with the entry undone.
    - A partition that was lost (a missed deadline) is dropped with what is in hand; its next owner gets that as redelivered.
    - On SIGTERM the consumer goes on until its partitions were taken, or the grace period is nearly over; then it lets them go.
    """

    def __init__(
        self,
        open_queue: Callable[[QueueName], Reader],
        source: AssignmentSource,
        uid: Uid,
        session: Session | None = None,
        grace: float = DEFAULT_GRACE,
    ) -> None:
        """`open_queue` is called for each queue that appears in the ledger; when nothing of it is left there, it is closed.
        `grace`: the pod's terminationGracePeriodSeconds. Without a session the operator learns of hand-offs from the queue alone.
        """
        self._open_queue = open_queue
        self._source = source
        self._uid = uid
        self._session = session
        self._serve_for = max(0.0, grace - _LAST_SECONDS)
        self._wake = threading.Event()
        self._interruption = threading.Event()
        self._stop_at: float | None = None
        self._watched_at = 0.0
        self._entry: MemberEntry | None = None
        self._holdings: dict[Partition, Holding] = {}
        self._readers: dict[QueueName, Reader] = {}
        self._waiters: dict[QueueName, Waiter] = {}

    @classmethod
    def from_environment(cls, redis_url: str | None = None) -> Self:
        """In a pod with the environment of `Pod.from_environment` and a service account that may keep its Lease.

        `redis_url` (or BATON_REDIS_URL) is the server of all the group's queues. Raises ValueError for what is missing or no URL.
        """
        # Only here: other users of this module need neither a Redis nor a Kubernetes client.
        import kubernetes

        from baton.consumer.api import KubernetesLease
        from baton.queues.redis import RedisReader
        from baton.queues.redis.url import read

        pod = Pod.from_environment()
        url = redis_url or os.environ.get("BATON_REDIS_URL")
        if not url:
            raise ValueError("set BATON_REDIS_URL in the container's env, from the Secret with the queue's URL")
        try:
            read(url)
        except QueueUnreachable as problem:
            raise ValueError(f"BATON_REDIS_URL cannot be used. {problem}") from None
        load: Any = kubernetes.config.load_incluster_config  # not typed by the library
        load()
        lease = KubernetesLease(kubernetes.client.ApiClient(), pod.namespace, session_lease_name(pod.name))
        session = Session(lease, holder=pod.uid, group=pod.group, owner={"name": pod.name, "uid": pod.uid})
        return cls(
            lambda queue: RedisReader(url, f"{pod.namespace}/{queue}", pod.uid),
            AssignmentSource(pod.ledger, pod.name, pod.uid),
            pod.uid,
            session,
            pod.grace,
        )

    def run(self, handler: Handler) -> None:
        """Work until SIGTERM, SIGINT or `stop`; returns when everything is finished or given back. Call it once."""
        call = HandlerRun(handler)
        work = Work(call, self._interruption.is_set)
        with closing(call), self._surroundings():
            while not self._finished():
                self._wake.clear()
                self._interruption.clear()
                self._follow_ledger()
                worked = self._serve(work)
                self._report()
                if worked:
                    self._watch_beside(work)
                else:
                    self._idle(work)
            for holding in self._holdings.values():
                if not holding.over:
                    work.finish(holding, self._reader(holding.partition.queue))
            self._report()

    def stop(self) -> None:
        """As SIGTERM does: from any thread or signal handler."""
        if self._stop_at is None:
            self._stop_at = time.monotonic() + self._serve_for
        self.interrupt()

    @property
    def interrupted(self) -> bool:
        """The ledger or the end calls, and was not heard yet: no other entry is begun before it is."""
        return self._interruption.is_set()

    def interrupt(self) -> None:
        """Look at the ledger before another entry is begun. From any thread."""
        self._interruption.set()
        self._wake.set()

    def _serve(self, work: Work) -> bool:
        """A turn for each partition, until the ledger or the end calls: those to be let go of first, then the latest grants (they
        have just been paused), then whichever has waited longest. False: there was nothing to do."""
        worked = False
        waiting = [holding for holding in self._holdings.values() if not holding.over]
        for holding in sorted(waiting, key=lambda one: (one.phase is not Phase.LETTING_GO, one.served_at, -one.since)):
            worked |= work.serve(holding, self._reader(holding.partition.queue))
            if self._interruption.is_set():
                return True
        return worked

    def _finished(self) -> bool:
        """Asked to stop, and either nothing is ours any more or time is up."""
        if self._stop_at is None:
            return False
        return time.monotonic() >= self._stop_at or all(holding.over for holding in self._holdings.values())

    def _follow_ledger(self) -> None:
        entry = self._source.current()
        if entry is self._entry:
            return
        self._entry = entry
        owned, revoking = (dict(flat(entry.owned)), dict(flat(entry.revoking))) if entry else ({}, {})
        told = owned | revoking
        for partition, holding in self._holdings.items():
            reader = self._readers.get(partition.queue)
            if reader is not None and told.get(partition) != holding.epoch:
                holding.end(Phase.FENCED, reader)
        # A grant back has a new epoch, so what was let go of at one epoch stays let go of.
        self._holdings = {
            partition: before
            if (before := self._holdings.get(partition)) is not None and before.epoch == epoch
            else Holding(partition, epoch)
            for partition, epoch in told.items()
        }
        for partition in revoking:
            self._holdings[partition].let_go()
        for queue in self._readers.keys() - {partition.queue for partition in told}:
            # Not in this thread: a server that hangs must not hold the other queues up.
            ended = (self._waiters.pop(queue), self._readers.pop(queue))
            threading.Thread(target=_close, args=ended, name="baton-close", daemon=True).start()

    def _report(self) -> None:
        """Exactly what the ledger still counts as ours and we have let go of."""
        if self._session is not None:
            self._session.release(
                Release(self._uid, holding.partition.queue, holding.partition.number, holding.epoch)
                for holding in self._holdings.values()
                if holding.phase is Phase.RELEASED
            )

    def _idle(self, work: Work) -> None:
        """Until a queue, the ledger or the end calls, or something that failed is to be tried again."""
        now = time.monotonic()
        until = now + _IDLE if self._stop_at is None else min(now + _IDLE, self._stop_at)
        self._watch(work, now)
        for holding in self._holdings.values():
            if not holding.over and (again := work.not_before(holding)) > now:
                until = min(until, again)
        self._wake.wait(max(0.0, until - now))

    def _watch_beside(self, work: Work) -> None:
        """Partitions at rest are waited for while others have much to do."""
        now = time.monotonic()
        if now - self._watched_at > _WATCH_EVERY:
            self._watch(work, now)

    def _watch(self, work: Work, now: float) -> None:
        self._watched_at = now
        for queue, waiter in self._waiters.items():
            serving = [h for h in self._holdings.values() if h.partition.queue == queue and h.phase is Phase.SERVING]
            waiter.watch(frozenset(h.partition.number for h in serving if work.at_rest(h, self._readers[queue], now)))

    def _reader(self, queue: QueueName) -> Reader:
        if queue not in self._readers:
            self._readers[queue] = self._open_queue(queue)
            self._waiters[queue] = Waiter(self._readers[queue], self._wake.set)
        return self._readers[queue]

    @contextmanager
    def _surroundings(self) -> Iterator[None]:
        """Signals, the session and the ledger's watch; closed in an order that lets the last word out."""
        with _signals(self.stop):
            self._source.watch(self.interrupt)
            if self._session is not None:
                self._session.start()
            try:
                yield
            finally:
                for queue, waiter in self._waiters.items():
                    _close(waiter, self._readers[queue])
                self._source.close()
                if self._session is not None:
                    self._session.close()


def _close(waiter: Waiter, reader: Reader) -> None:
    waiter.close()
    reader.close()


@contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """SIGTERM and SIGINT ask to stop; elsewhere than in the main thread they are the program's own business."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[int, Any] = {number: signal.signal(number, lambda *_: stop()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
