"""A plain pod's consumer: reads the partitions that its ledger gives it, hands their entries to a function, acknowledges."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Self

from baton.consumer.announcements import AnnouncedAssignments
from baton.consumer.handler import Handler, HandlerRun
from baton.consumer.loop import ConsumerLoop
from baton.consumer.pod import DEFAULT_GRACE, Pod
from baton.consumer.reader import Reader
from baton.consumer.session import Session
from baton.consumer.signals import ending
from baton.consumer.source import Assignments, AssignmentSource
from baton.consumer.worker import Worker
from baton.model.ids import QueueName, Uid
from baton.model.names import session_lease_name
from baton.queues.protocol import QueueUnreachable


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
        source: Assignments,
        uid: Uid,
        session: Session | None = None,
        grace: float = DEFAULT_GRACE,
    ) -> None:
        """`open_queue` is called for each queue that appears in the ledger; when nothing of it is left there, it is closed.
        `grace`: the pod's terminationGracePeriodSeconds. Without a session the operator learns of hand-offs from the queue alone.
        """
        self._loop = ConsumerLoop(open_queue, source, uid, session, grace)

    @classmethod
    def from_environment(cls, redis_url: str | None = None) -> Self:
        """In a pod with the environment of `Pod.from_environment` and a service account that may keep its Lease.

        `redis_url` (or BATON_REDIS_URL) is the server of all the group's queues. Raises ValueError for what is missing or no URL.
        """
        # Only here: other users of this module need no Redis.
        from baton.consumer.api import KubernetesLease
        from baton.consumer.api_server import ApiConnection
        from baton.queues.redis import RedisAnnouncements, RedisReader
        from baton.queues.redis.url import read

        pod = Pod.from_environment()
        url = redis_url or os.environ.get("BATON_REDIS_URL")
        if not url:
            raise ValueError("set BATON_REDIS_URL in the container's env, from the Secret with the queue's URL")
        try:
            read(url)
        except QueueUnreachable as problem:
            raise ValueError(f"BATON_REDIS_URL cannot be used. {problem}") from None
        group = f"{pod.namespace}/{pod.group}"
        lease = KubernetesLease(ApiConnection.in_pod(), pod.namespace, session_lease_name(pod.name))
        session = Session(lease, holder=pod.uid, group=pod.group, owner={"name": pod.name, "uid": pod.uid})
        return cls(
            lambda queue: RedisReader(url, f"{pod.namespace}/{queue}", pod.uid),
            AnnouncedAssignments(
                AssignmentSource(pod.ledger, pod.name, pod.uid),
                RedisAnnouncements(url, group, pod.uid),
                group,
                pod.name,
                pod.uid,
            ),
            pod.uid,
            session,
            pod.grace,
        )

    def run(self, handler: Handler) -> None:
        """Work until SIGTERM, SIGINT or `stop`; returns when everything is finished or given back. Call it once."""
        call = HandlerRun(handler)
        with closing(call), self._running():
            Worker(self._loop, call).work()

    def stop(self) -> None:
        """As SIGTERM does: from any thread or signal handler."""
        self._loop.stop()

    @property
    def interrupted(self) -> bool:
        """The ledger or the end has called, and a handler is still at an entry that it had begun before: no other is begun."""
        return self._loop.interrupted

    def interrupt(self) -> None:
        """Look at the ledger before another entry is begun. From any thread."""
        self._loop.interrupt()

    @contextmanager
    def _running(self) -> Iterator[None]:
        with ending(self.stop):
            self._loop.start()
            try:
                yield
            except BaseException:
                self._loop.abort()
                raise
            finally:
                self._loop.join()
