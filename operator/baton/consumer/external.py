"""A consumer of External queues, whose partitions are plain numbers to Baton: it works on those of the pod and releases them.

```python
from baton.consumer import ExternalConsumer

ExternalConsumer.from_environment().run(lambda partition: work_on(partition.number))
```
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import NamedTuple, Self

from baton.consumer.api_server import ApiConnection, session_of
from baton.consumer.assignments import Assignments, AssignmentSource
from baton.consumer.ending import ending
from baton.consumer.pod import Pod
from baton.consumer.probes import ProbeServer
from baton.consumer.session import Session
from baton.model.ids import Epoch, Partition, QueueName, Uid
from baton.model.ledger import flat
from baton.model.options import function
from baton.model.session import Release

log = logging.getLogger(__name__)

_LOOK_EVERY = 0.2
"""Seconds to wait after a turn without work."""
_STUCK_AFTER = 60.0
"""Seconds."""
_BEGIN_WITHIN = 6.0
"""Seconds after a renewal of the Lease in which work may begin: the rest of the Lease's duration is for finishing it."""


class OwnedPartition(NamedTuple):
    """A partition of an External queue that this pod owns.

    ```python
    def work(partition: OwnedPartition) -> bool:
        return copy_next(f"shard-{partition.number}", fence=partition.epoch)
    ```
    """

    queue: QueueName
    number: int
    epoch: Epoch
    """Epoch of the grant. It grows with every grant, so a store can reject writes with a lower epoch than the highest it has
    seen."""


OwnedPartitions = Sequence[OwnedPartition]
Callback = Callable[[OwnedPartitions], object]


class ExternalConsumer:
    """Works on the partitions assigned to this pod, one after the other, in the thread that calls `run`.

    ```python
    ExternalConsumer.from_environment().run(lambda partition: copy_next(partition.number))
    ```

    External queues are not fenced, so the consumer works only while its session is renewed. After a gap in the session, another
    pod may own the partitions, even if a delayed ledger still names them. The consumer releases them, and works on them when they
    are granted again. The gap of a suspended node shows at its next renewal, within three seconds. The consumer releases revoked
    partitions between two calls of `work`.
    """

    def __init__(
        self,
        source: Assignments,
        session: Session,
        uid: Uid,
        *,
        on_assigned: Callback | None = None,
        on_revoked: Callback | None = None,
        on_lost: Callback | None = None,
        health_port: int | None = None,
    ) -> None:
        """Create a consumer from its parts; see `from_environment`. Raises TypeError for a callback that cannot be called with a
        list."""
        for name, callback in (("on_assigned", on_assigned), ("on_revoked", on_revoked), ("on_lost", on_lost)):
            function(name, callback, "partitions")
        self._source, self._session, self._uid = source, session, uid
        self._on_assigned, self._on_revoked, self._on_lost = on_assigned, on_revoked, on_lost
        self._held: dict[Partition, Epoch] = {}
        self._gaps = 0
        self._doubtful: dict[Partition, Epoch] = {}
        """Partitions that the ledger named before the last gap of the session."""
        self._stop = threading.Event()
        self._seen_at = time.monotonic()
        checks = {"/healthz": self.hangs, "/readyz": self.unheard}
        self._health = nullcontext() if health_port is None else ProbeServer(health_port, checks)

    @classmethod
    def from_environment(
        cls, *, on_assigned: Callback | None = None, on_revoked: Callback | None = None, on_lost: Callback | None = None
    ) -> Self:
        """Return the consumer of this pod. It needs the environment of `Pod.from_environment` and a service account that may
        write the pod's Lease.

        Args:
            on_assigned: Called with a list of partitions before the first work on them.
            on_revoked: Called with revoked partitions. They are released when it returns, so it must end all work on them.
            on_lost: Called with partitions that another pod may own already.

        Raises:
            ValueError: If an environment variable is missing.
            TypeError: If a callback cannot be called with a list.
        """
        pod = Pod.from_environment()
        session = session_of(pod, ApiConnection.from_environment())
        source = AssignmentSource(pod.ledger, pod.name, pod.uid)
        port = pod.health_port
        return cls(source, session, pod.uid, on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost, health_port=port)

    def run(self, work: Callable[[OwnedPartition], object] = lambda partition: False) -> None:
        """Call `work` with each partition in turn until SIGTERM, Ctrl-C or `stop`. A call must take less than five seconds, and
        well under the queue's maxHandoffSeconds. It returns False if there was nothing to do. Without `work`, use the callbacks
        to start and stop your own workers.

        An exception of `work` or a callback ends the consumer without another callback: end the process then.
        """
        function("work", work, "partition")
        with self._health, ending(self.stop, self.stop):
            self._session.start()
            try:
                while not self._stop.is_set():
                    if not self._turn(work):
                        self._stop.wait(_LOOK_EVERY)
                self._tell(self._on_revoked, self._held)
            finally:
                self._source.close()
                self._session.close()  # the pod ends now, which releases its partitions

    def stop(self) -> None:
        """End as SIGTERM does. Call it from any thread or signal handler; it returns at once."""
        self._stop.set()

    def hangs(self) -> str:
        """Return the answer of `/healthz`: a problem if a call has taken more than 60 s, else an empty string."""
        silent = time.monotonic() - self._seen_at
        return f"one call has taken {silent:.0f} s" if silent > _STUCK_AFTER else ""

    def unheard(self) -> str:
        """Return the answer of `/readyz`: a problem if the session is not renewed, else an empty string."""
        return "the session is not renewed: see the log" if self._session.lapsed() else ""

    def _turn(self, work: Callable[[OwnedPartition], object]) -> bool:
        """Follow the ledger, and call `work` with each partition. Returns False if there was nothing to do."""
        self._seen_at = time.monotonic()
        entry, may_begin, gaps = self._source.current(), self._may_begin, self._session.gaps  # a renewal counts its gap first
        owned, revoking = (dict(flat(entry.owned)), dict(flat(entry.revoking))) if entry is not None else ({}, {})
        if gaps != self._gaps:
            self._gaps, self._doubtful = gaps, dict(owned)
        self._doubtful = {one: epoch for one, epoch in self._doubtful.items() if owned.get(one) == epoch}
        mine = {one: epoch for one, epoch in owned.items() if one not in self._doubtful} if may_begin else {}
        known = mine | revoking if may_begin else {}
        self._drop(self._on_lost, {one: epoch for one, epoch in self._held.items() if known.get(one) != epoch})
        self._drop(self._on_revoked, {one: epoch for one, epoch in self._held.items() if one in revoking})
        released = revoking | self._doubtful
        self._session.release(Release(self._uid, one.queue, one.number, epoch) for one, epoch in released.items())
        new = {one: epoch for one, epoch in mine.items() if one not in self._held}
        self._held |= new
        self._tell(self._on_assigned, new)
        worked = False
        for one, epoch in mine.items():
            if self._stop.is_set() or not self._may_begin or self._session.gaps != gaps or self._source.current() is not entry:
                return True
            self._seen_at = time.monotonic()
            worked |= work(OwnedPartition(*one, epoch)) is not False
        return worked

    @property
    def _may_begin(self) -> bool:
        """Whether work may begin: the session was renewed a moment ago."""
        return self._session.renewed_within(_BEGIN_WITHIN)

    def _drop(self, callback: Callback | None, gone: Mapping[Partition, Epoch]) -> None:
        for one in gone:
            del self._held[one]
        self._tell(callback, gone)

    def _tell(self, callback: Callback | None, partitions: Mapping[Partition, Epoch]) -> None:
        if partitions and callback is not None:
            callback([OwnedPartition(*one, epoch) for one, epoch in partitions.items()])
