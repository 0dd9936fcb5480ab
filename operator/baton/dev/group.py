"""The group of `baton dev`: processes, executors and Leases go to the engine, its effects to the queue, its ledger to disk."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from uuid import NAMESPACE_URL, uuid5

from baton.controller.large_work import LargeWork
from baton.controller.ledger import contradicted
from baton.controller.problems import Reason
from baton.controller.queue_worker import QueueWorker
from baton.controller.runtime import GroupRuntime
from baton.dev.folder import DevFolder
from baton.dev.queues import NAMESPACE, DevQueue
from baton.dev.server import DevServer, Process
from baton.engine import Effect, GroupState
from baton.engine.observation import GroupSpec, Observation, ObservedQueue, Outcome
from baton.engine.state import in_doubt
from baton.kube.clock import ApiServerClock
from baton.kube.leases import LeaseView, SessionClock, view
from baton.kube.members import DRIVER, EXECUTOR, membership
from baton.kube.pods import PodView
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.model.names import driver_lease_name
from baton.model.ranges import format_numbers
from baton.queues.protocol import Claimant, QueueAdapter, QueueUnreachable


def executors(driver: LeaseView, ready_since: Callable[[Uid], float]) -> Iterator[PodView]:
    """The driver's executors as pods; none once the driver has released its Lease. Without a kubelet, an executor is Ready once
    the driver has registered it.

    Their names are those that `baton.spark` gives to executors of a local cluster, which have no pods. `ready_since`: in Unix
    seconds.
    """
    if driver.holder is None or driver.spark_app is None:
        return
    for number in sorted(driver.executors):
        name = f"{driver.spark_app}-exec-{number}"
        uid = Uid(str(uuid5(NAMESPACE_URL, f"{driver.holder}/{name}")))
        yield PodView(
            driver.namespace,
            MemberId(name),
            uid,
            driver.group,
            ready_since=ready_since(uid),
            running=True,
            spark_role=EXECUTOR,
            spark_app=driver.spark_app,
            executor_id=number,
        )


_LOOK_EVERY = 1.0
"""The most seconds between steps, to notice expired sessions."""
_RELEASE_WITHIN = 3.0
"""The most seconds for releasing the queue at the end."""


class DevGroup:
    """A group with one queue. `told` is called with each change of owners, and with problems."""

    def __init__(
        self,
        queue: DevQueue,
        delay: float,
        max_handoff: float,
        folder: DevFolder,
        told: Callable[[str], None],
        begun: Callable[[int], None],
    ) -> None:
        """`begun` is called with the number of partitions once the queue has answered for the first time."""
        self._dev_queue, self._name, self._queue = queue, queue.name, QueueName(queue.name)
        self._spec, self._max_handoff = GroupSpec(delay=delay), max_handoff
        self._folder = folder
        self._told = told
        self._begun: Callable[[int], None] | None = begun
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._clock = ApiServerClock()
        self._sessions = SessionClock()
        self._since: dict[Uid, float] = {}
        self._settled: str | None = ""
        """The server's incarnation whose owner records the engine has seen."""
        self._surprises = 0
        """The count of surprising owner records at their last comparison with the ledger."""
        self._last = ""
        self._other_since: float | None = None
        """Since when the current text differs from the last one told."""
        self.server = DevServer(NAMESPACE, queue.name, self._changed, self._clock.now)
        claimant = Claimant(queue.full_name, folder.uid)

        async def connect() -> QueueAdapter:
            return queue.open(claimant)

        self._connect = connect
        self._worker = QueueWorker(self._queue, connect, self._clock, self._news.set)
        self._worker.ask_for(queue.partitions)
        state = GroupState(queue.full_name)
        self._runtime = GroupRuntime(state, self._clock, self, self, LargeWork().of(NAMESPACE))

    async def run(self) -> None:
        """Run until cancelled."""
        self.server.start()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._worker.run())
                await self._work()
        finally:
            self.server.close()
            await self._release()

    async def _release(self) -> None:
        """Release the queue for the next user, without waiting for a server that does not answer."""
        adapter = await self._connect()
        with suppress(TimeoutError, QueueUnreachable):
            try:
                async with asyncio.timeout(_RELEASE_WITHIN):
                    while not await adapter.release():
                        continue
            finally:
                await adapter.close()

    async def _work(self) -> None:
        while True:
            self._news.clear()
            self._compare()
            facts = self._observed()
            if facts is not None:
                before = self._runtime.state
                await self._runtime.advance(facts)
                self._settled = self._worker.facts.check.incarnation
                if self._runtime.state != before:
                    self._news.set()
            self._tell()
            wake_at = self._runtime.wake_at
            until = _LOOK_EVERY if wake_at is None else min(_LOOK_EVERY, max(0.005, wake_at - self._clock.now()))
            try:
                async with asyncio.timeout(until):
                    await self._news.wait()
            except TimeoutError:
                continue

    def _compare(self) -> None:
        """If owner records contradict the ledger, grant the whole queue again, as the operator does."""
        records, state = self._worker.records, self._runtime.state
        if records.surprises == self._surprises:
            return
        self._surprises = records.surprises
        if self._queue in state.queues and contradicted(state, self._queue, records.known):
            self._runtime.state = in_doubt(state, self._queue)
            self._settled = None

    def _observed(self) -> Observation | None:
        """What the engine sees; None: the queue has not answered yet."""
        facts = self._worker.facts
        if facts.partitions is None:
            return None
        afresh = self._settled != facts.check.incarnation
        now = self._clock.ticks()
        leases = [lease for lease in map(view, self.server.leases()) if lease is not None]
        for lease in leases:
            self._sessions.renewed(lease, now)
        self._sessions.listed(None, now)
        driver = next((lease for lease in leases if lease.name == driver_lease_name(self._name)), None)
        pods = [self._pod(process, driver) for process in self.server.processes()]
        if driver is not None:
            pods += executors(driver, self._ready_since)
        seen = membership(self._name, pods, leases, lambda lease: self._sessions.lapsed(lease, now), sessions_required=True)
        return Observation(
            spec=self._spec,
            queues={
                self._queue: ObservedQueue(
                    partitions=facts.partitions,
                    max_handoff=self._max_handoff,
                    incarnation=facts.check.incarnation,
                    owners=facts.owners if afresh else {},
                )
            },
            members=seen.members,
            away=seen.away,
            releases=seen.releases,
        )

    def _pod(self, process: Process, driver: LeaseView | None) -> PodView:
        return PodView(
            NAMESPACE,
            process.name,
            process.uid,
            self._name,
            ready_since=self._ready_since(process.uid),
            terminating=process.ending,
            running=True,
            spark_role=DRIVER if driver is not None and driver.holder == process.uid else None,
        )

    def _ready_since(self, uid: Uid) -> float:
        return self._since.setdefault(uid, self._clock.now())

    def _tell(self) -> None:
        problem = self._worker.facts.problem
        if problem is None:
            text = _owners(self._runtime.state)
            if self._begun is not None and self._worker.facts.partitions is not None:
                self._begun(self._worker.facts.partitions)
                self._begun = None
        elif problem.reason is Reason.CONFLICT:
            text = self._dev_queue.taken
        else:
            text = problem.message
        if text == self._last:
            self._other_since = None
            return
        now = self._clock.ticks()
        self._other_since = now if self._other_since is None else self._other_since
        if problem is None and self._runtime.state.moves and now - self._other_since < _LOOK_EVERY:
            return  # print partitions that are granted together on one line
        self._last, self._other_since = text, None
        self._told(text)

    def _changed(self) -> None:
        """Wake the loop, from any thread."""
        self._loop.call_soon_threadsafe(self._news.set)

    # -- the ledger and the queues of the runtime

    async def write(self, data: Mapping[str, str]) -> None:
        self._folder.write(data)
        self.server.ledger = data

    @property
    def drained(self) -> frozenset[tuple[Partition, Epoch]]:
        return frozenset(self._worker.effects.work.drained)

    @property
    def outcomes(self) -> frozenset[Outcome]:
        return frozenset(self._worker.effects.work.outcomes)

    def want(self, effects: Iterable[Effect], told: frozenset[Outcome]) -> None:
        self._worker.effects.want({one.partition: one for one in effects}, told)


def _owners(state: GroupState) -> str:
    """The owners in a line: `orders-1: 0-2 | orders-2: 3-5`"""
    owned: dict[MemberId, list[int]] = {}
    for partition, record in state.records.items():
        if record.owner is not None:
            owned.setdefault(record.owner, []).append(partition.number)
    free = [partition.number for partition, record in state.records.items() if record.owner is None]
    parts = [f"{member}: {format_numbers(numbers)}" for member, numbers in sorted(owned.items())]
    return " | ".join([*parts, f"unowned: {format_numbers(free)}"] if free else parts)
