"""Pods with a consumer against a real Redis and a ledger in a directory; the test plays the operator."""

import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Unpack
from uuid import uuid4

from baton.consumer import AnnouncedAssignments, Assignments, AssignmentSource, Consumer, Entry, Session
from baton.consumer.callbacks import Callbacks
from baton.consumer.ending import LedgerDeadlines
from baton.consumer.handler import Handler
from baton.consumer.handler_options import Deserializers, HandlerOptions
from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.model.names import LEDGER_GROUP_KEY, TROUBLE_ANNOTATION
from baton.model.ranges import format_grants
from baton.model.session import Release
from baton.queues.entry import Entry as ReadEntry
from baton.queues.redis import RedisAnnouncements, RedisReader
from tests.in_memory_lease import InMemoryLease
from tests.integration.redis.conftest import GROUP, Queue
from tests.waiting import PATIENCE, eventually, until

Grants = Mapping[int, int]
_LAST = Epoch(1_000_000)


SHORT = 5.5
"""A grace period, in seconds, of which half a second is left before a stopping pod releases its partitions."""


class Gate:
    """A handler (or a function to run `before` one) that blocks in the entries that it holds until the gate is opened."""

    def __init__(self, holds: Callable[[ReadEntry], bool] = lambda entry: True) -> None:
        self._holds = holds
        self._entered, self._open = threading.Event(), threading.Event()

    def __call__(self, entry: ReadEntry) -> None:
        if self._holds(entry):
            self._entered.set()
            self._open.wait(PATIENCE)

    def reached(self) -> None:
        """Wait until an entry is held."""
        assert self._entered.wait(PATIENCE)

    def open(self) -> None:
        self._open.set()


class Pod:
    """A pod with a consumer in a thread. What it has handled is in `log`."""

    def __init__(
        self,
        queue: Queue,
        directory: Path,
        uid: str,
        grace: float = 30.0,
        handler: Handler | None = None,
        callbacks: Callbacks | None = None,
        deserializers: Deserializers | None = None,
        program: Callable[[Consumer], None] | None = None,
        **options: Unpack[HandlerOptions],
    ) -> None:
        """`program`: what the container runs instead of a handler."""
        self._program = program
        self.queue, self.uid = queue, Uid(uid)
        self.log: list[tuple[int, bytes, bool]] = []
        self.before: Callable[[Entry], None] = lambda entry: None
        """Called in the handler, before an entry counts as handled."""
        self._callbacks, self._deserializers, self._options = callbacks, deserializers, options
        self.handler = handler
        """Replaces the handler that fills `log`."""
        self.exit: object = None
        """The status that the handler passed to sys.exit."""
        self.lease = InMemoryLease()
        self._directory = directory
        self._directory.mkdir(exist_ok=True)
        self._grace = grace
        self.consumer: Consumer
        self.thread: threading.Thread
        self.started()

    def started(self) -> "Pod":
        """Start the container; again for a restart in place: the same UID, another process."""
        self._deadlines = LedgerDeadlines(self._directory).left
        assignments = self._assignments()
        self.consumer = Consumer(
            lambda queue: RedisReader(self.queue.url, f"shop/{queue}", self.uid),
            assignments,
            self.uid,
            Session(self.lease, holder=self.uid, group="orders"),
            grace=self._grace,
            callbacks=self._callbacks,
            deserializers=self._deserializers,
            deadlines=assignments.left if isinstance(assignments, AnnouncedAssignments) else self._deadlines,
        )
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        return self

    def _assignments(self) -> Assignments:
        return AssignmentSource(self._directory, MemberId("pod"), self.uid)

    def _run(self) -> None:
        try:
            if self._program is not None:
                self._program(self.consumer)
            else:
                self.consumer.run(self.handler or self._handle, **self._options)
        except SystemExit as end:
            self.exit = end.code

    def ledger(self, owned: Grants, revoking: Grants | None = None) -> None:
        write_ledger(self._directory, self.queue, self.uid, owned, revoking)

    def gives_back(self, *grants: tuple[int, int]) -> None:
        """The ledger calls everything back, and the pod releases these partitions."""
        self.ledger({}, revoking=dict(grants))
        until(lambda: self.released() == set(grants))

    def moving(self, grants: Grants, length: float) -> None:
        """The ledger says that hand-offs have just begun, with `length` seconds for each."""
        name = QueueName(self.queue.name.removeprefix("shop/"))
        move = {"deadline": time.time() + length, "length": length, "to": {"other": {name: format_grants(_epochs(grants))}}}
        (self._directory / LEDGER_GROUP_KEY).write_text(json.dumps({"moves": [move]}))

    def values(self, partition: int = 0) -> list[bytes]:
        return [value for number, value, _ in self.log if number == partition]

    def released(self) -> set[tuple[int, int]]:
        if self.lease.lease is None:
            return set()
        assert all(isinstance(release, Release) and release.uid == self.uid for release in self.lease.releases())
        return {(release.partition, release.epoch) for release in self.lease.releases()}

    def trouble(self) -> str:
        """The trouble with its queue, according to its Lease."""
        return str(self.lease.lease["metadata"]["annotations"].get(TROUBLE_ANNOTATION, "")) if self.lease.lease else ""

    def stop(self) -> None:
        self.consumer.stop()

    def gone(self) -> bool:
        return not self.thread.is_alive()

    def _handle(self, entry: Entry) -> None:
        self.before(entry)
        self.log.append((entry.partition, entry.value, entry.redelivered))


class HearingPod(Pod):
    """A pod that hears announcements of its queue, as with `Consumer.from_environment`."""

    def _assignments(self) -> Assignments:
        announcements = RedisAnnouncements(self.queue.url, GROUP.group, self.uid)
        ledger = super()._assignments()
        return AnnouncedAssignments(ledger, announcements, GROUP.group, MemberId("pod"), self.uid, self._deadlines)


def write_ledger(directory: Path, queue: Queue, uid: Uid, owned: Grants, revoking: Grants | None = None) -> None:
    """Write the ledger as it is mounted into a pod."""
    name = QueueName(queue.name.removeprefix("shop/"))
    entry = MemberEntry("shop/orders", MemberId("pod"), uid, 1, True, {name: _epochs(owned)}, {name: _epochs(revoking or {})})
    fresh = directory / "fresh"
    fresh.write_text(entry.to_json())
    fresh.rename(directory / "pod")


def _epochs(grants: Grants) -> dict[int, Epoch]:
    return {partition: Epoch(epoch) for partition, epoch in grants.items()}


class Operator:
    """Grants at the queue, then writes the ledger."""

    def __init__(self, queue: Queue, directory: Path) -> None:
        self.queue, self._directory = queue, directory
        self.pods: list[Pod] = []

    async def grant(self, pod: Pod, *grants: tuple[int, int]) -> None:
        for partition, epoch in grants:
            assert (await self.queue.operator.grant(partition, pod.uid, Epoch(epoch))).uid == pod.uid
        pod.ledger(dict(grants))

    def pod(self, uid: str, **options: Any) -> Pod:
        """`options`: those of Pod."""
        pod = Pod(self.queue, self._directory / uid, uid, **options)
        self.pods.append(pod)
        return pod

    async def owner(self, *partitions: int, uid: str = "a", before: Callable[[Entry], None] | None = None, **options: Any) -> Pod:
        """A pod that owns these partitions at epoch 1. `before`: see Pod. `options`: those of Pod."""
        pod = self.pod(uid, **options)
        if before is not None:
            pod.before = before
        await self.grant(pod, *((partition, 1) for partition in partitions))
        return pod

    def hearing(self, uid: str | None = None, callbacks: Callbacks | None = None) -> HearingPod:
        """A pod that hears announcements. All tests share a group, so its UID is its own."""
        uid = uid or str(uuid4())
        pod = HearingPod(self.queue, self._directory / uid, uid, callbacks=callbacks)
        self.pods.append(pod)
        return pod


@asynccontextmanager
async def operating(queue: Queue, directory: Path) -> AsyncIterator[Operator]:
    """An operator whose pods are stopped in the end."""
    operator = Operator(queue, directory)
    yield operator
    if any(isinstance(pod, HearingPod) for pod in operator.pods):
        for partition in range(queue.partitions):
            await queue.operator.grant(partition, None, _LAST)
    for pod in operator.pods:
        pod.ledger({})
        pod.stop()
    for pod in operator.pods:
        pod.thread.join(PATIENCE)
        assert pod.gone()


async def lag(queue: Queue) -> int:
    return sum((await queue.operator.check()).lag.values())


async def acknowledged(queue: Queue, but: int = 0) -> None:
    """Wait until all entries but this many are acknowledged at the queue, which is later than they were handled."""

    async def so() -> bool:
        return await lag(queue) == but

    await eventually(so, f"all but {but} are acknowledged", shown=queue.operator.check)
