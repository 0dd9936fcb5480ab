"""A process of the operator: the real replica, between the seed's API server, queues and clocks.

It can be killed and stopped at any await. What it has sent by then arrives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from baton.controller.operator_replica import Options, Replica
from baton.controller.watch import WatchEvents
from baton.kube.clock import ApiServerClock
from baton.kube.elector import Terms
from baton.kube.objects import QueueView
from baton.model.ids import Epoch, Uid
from baton.queues.external.operator_side import ExternalQueue
from baton.queues.kind import ANSWERS_WITHIN
from baton.queues.protocol import Claimant, Ownership, QueueAdapter, QueueCheck, QueueConflict, QueueUnreachable
from tests.simulation.api_server import MemoryApi, WatchFeed
from tests.simulation.seeds.queues import DOWN, FULL, HANGS, Queue

if TYPE_CHECKING:
    from tests.simulation.api_server.faults import Fault
    from tests.simulation.seeds.environment import Environment


# The connection of an operator to a server. A request arrives even if its sender has died meanwhile


T = TypeVar("T")


class Connection:
    """The connection of one operator."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._environment = operator.environment

    async def carry(self, about: float, do: Callable[[], T], lost: Callable[[], bool] = lambda: False) -> T:
        """Call `do` at the server after about that many seconds, and return its result after as many. `lost`: True if no answer
        comes."""
        environment, loop = self._environment, self._environment.loop
        answer: asyncio.Future[T] = loop.create_future()
        back = environment.latency(about)

        def arrive() -> None:
            if lost():
                return
            try:
                result = do()
            except Exception as error:
                loop.later(back, _failed, answer, error)
            else:
                loop.later(back, _answered, answer, result, lost)
            self._operator.boundary()

        self._operator.boundary()
        loop.later(environment.latency(about), arrive)
        return await answer


def _answered(answer: asyncio.Future[T], result: T, lost: Callable[[], bool]) -> None:
    """Set the answer, unless it is lost."""
    if not answer.done() and not lost():
        answer.set_result(result)


def _failed(answer: asyncio.Future[T], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


# The adapter through which an operator reaches a queue's server, with its latencies and faults


class SeedQueue:
    """A QueueAdapter of a queue whose server rejects former owners."""

    fenced = True
    answers_within = ANSWERS_WITHIN

    def __init__(self, queue: Queue, operator: Operator, claimant: Claimant) -> None:
        self._queue = queue
        self._operator = operator
        self._claimant = claimant
        self._paused: dict[int, Epoch] = {}
        self._told: dict[int, Epoch] = {}
        """The last epoch of each partition that this process has read."""

    async def check(self) -> QueueCheck:
        return await self._ask(self._seen)

    def _seen(self) -> QueueCheck:
        queue = self._queue
        owners = {number: _owner(log.uid, log.epoch) for number, log in sorted(queue.logs.items()) if log.epoch}
        return QueueCheck(f"run-{queue.restarts}" if queue.group is not None else None, queue.partitions, owners)

    async def ensure(self, count: int | None) -> None:
        if count is None and (count := await self._ask(lambda: self._queue.partitions)) is None:
            return
        us, wanted = self._claimant, count
        group, uid = await self._ask(lambda: self._queue.claim(us.group, us.uid, us.takes_over, wanted), write=True)
        if uid != us.uid:
            raise QueueConflict(f"the queue {self._queue.name} belongs to {group} ({uid})")

    async def pause(
        self, partition: int, epoch: Epoch, within: float | None = None, then: Ownership | None = None
    ) -> int | Ownership | None:
        self._paused[partition] = epoch
        receiver = None if then is None or then.uid is None else (then.uid, then.epoch)
        return await self._left(partition, lambda: self._queue.pause(partition, epoch, receiver), write=True)

    async def outstanding(self, partition: int) -> int | Ownership | None:
        return await self._left(partition, lambda: self._queue.outstanding(partition))

    async def grant(self, partition: int, uid: Uid | None, epoch: Epoch) -> Ownership:
        def granted() -> Ownership:
            return self._handed_over(partition) or _owner(*self._queue.grant(partition, uid, epoch))

        owner = await self._ask(granted, write=True)
        if self._queue.grants_answered_after:
            await asyncio.sleep(self._queue.grants_answered_after)
        self._told[partition] = owner.epoch
        return owner

    async def release(self) -> bool:
        await self._ask(lambda: self._queue.release(self._claimant.uid), write=True)
        return True

    async def close(self) -> None:
        pass

    async def _left(self, partition: int, ask: Callable[[], int], write: bool = False) -> int | Ownership:
        def answered() -> int | Ownership:
            left = ask()
            return self._handed_over(partition) or left

        answer = await self._ask(answered, write)
        if isinstance(answer, Ownership):
            self._told[partition] = answer.epoch
        return answer

    def _handed_over(self, partition: int) -> Ownership | None:
        """Return the owner by a direct hand-off that the operator has not read yet, as `Pauses` in
        baton/queues/kafka/adapter.py."""
        log = self._queue.log(partition)
        paused = self._paused.get(partition)
        handed_over = log.handed_over if paused is None else log.epoch > paused
        news = self._queue.direct and log.uid is not None and handed_over and self._told.get(partition) != log.epoch
        return _owner(log.uid, log.epoch) if news else None

    async def _ask(self, do: Callable[[], T], write: bool = False) -> T:
        """Make a request. `write`: a full server refuses it."""

        def carried_out() -> T:
            queue = self._queue
            if queue.state == DOWN or (queue.state == FULL and write):
                raise QueueUnreachable(f"the server of {queue.name} is {queue.state}; start it, or make room")
            return do()

        return await self._operator.connection.carry(0.002, carried_out, lambda: self._queue.state == HANGS)


def _owner(uid: str | None, epoch: int) -> Ownership:
    return Ownership(None if uid is None else Uid(uid), Epoch(epoch))


LEASE = ("baton-system", "baton-operator")
TERMS = Terms(duration=8.0, renew_deadline=5.0, retry=2.0)
EPOCH = 1_800_000_000.0
"""Unix seconds at the start of every seed."""


class Operator:
    """A process of the operator. `skew`: seconds by which its wall clock is ahead of the environment's."""

    def __init__(self, environment: Environment, identity: str, skew: float = 0.0) -> None:
        self.environment = environment
        self.identity = identity
        self.dead = False
        self.stopped = False
        self.connection = Connection(self)
        self._skew = skew
        self._context = environment.loop.context_of(self)
        self._apis: list[MemoryApi] = []
        self.replica: Replica | None = None

    def __str__(self) -> str:
        return self.identity

    def start(self) -> None:
        if not self.environment.ending:
            self._context.run(self._make)

    def _make(self) -> None:
        environment = self.environment
        api, of_elector, of_watches = self._api(), self._api(), self._api(lambda: environment.troubles.late)
        clock = ApiServerClock(lambda: EPOCH + environment.loop.time() + self._skew, environment.loop.time)
        self.replica = Replica(
            api,
            of_elector,
            clock,
            self._open,
            Options(
                identity=self.identity, lease_namespace=LEASE[0], lease_name=LEASE[1], terms=TERMS, namespaces=environment.watched
            ),
        )
        relists = self.replica.relists
        feed = WatchEvents(environment.loop, self.replica.cache.event, relists.watch_broke, relists.watch_listed)
        watches = WatchFeed(of_watches, feed.put, environment.watched, environment.repeats, feed.broke, feed.listed)
        self._task("watch", watches.run())
        self._task("replica", self.replica.run())

    def _api(self, late: Callable[[], float] = lambda: 0.0) -> MemoryApi:
        made = MemoryApi(self, self._trouble, lambda: self.environment.latency(0.005) + late())  # type: ignore[arg-type]
        self._apis.append(made)
        return made

    def _task(self, name: str, work: Any) -> None:
        task = self.environment.loop.create_task(work, name=f"{self} {name}")
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if self.environment.ending or self.dead:
            return
        why = "was cancelled" if task.cancelled() else f"ended: {task.exception()!r}"
        self.environment.violated(f"the task {task.get_name()} {why}", None if task.cancelled() else task.exception())

    @property
    def leading(self) -> bool:
        return not self.dead and self.replica is not None and self.replica.elector.leading

    @property
    def leads_since(self) -> tuple[Operator, float]:
        """The operator and the start of its leadership, which differs after it has lost the lead and won it again."""
        assert self.replica is not None
        return self, self.replica.group_loops._leads_since

    # -- faults

    def kill(self) -> None:
        """SIGKILL: its tasks end, and its connections break."""
        if self.dead:
            return
        self.dead = True
        self.environment.say(f"{self} is killed")
        self.environment.loop.hold(self)
        self.drop_watches()

    def stop(self) -> None:
        """SIGSTOP."""
        if not self.dead:
            self.stopped = True
            self.environment.loop.hold(self)

    def wake(self) -> None:
        """SIGCONT."""
        if not self.dead and self.stopped:
            self.stopped = False
            self.environment.loop.resume(self)

    def drop_watches(self) -> None:
        for api in self._apis:
            api.drop_watches()

    def boundary(self) -> bool:
        """Maybe crash between two requests. Returns True if the process has just died."""
        if not self.dead and self.environment.crashes(self):
            self.kill()
            return True
        return False

    # -- requests

    def request(self, *arguments: Any) -> Any:
        """Make a request to the API server, with latency and faults."""
        try:
            return self.environment.server.request(*arguments)
        finally:
            self.boundary()

    @property
    def date(self) -> str:
        return self.environment.server.date

    def watch(self, *arguments: Any) -> Any:
        return self.environment.server.watch(*arguments)

    def _trouble(self, verb: str, path: str) -> Fault | None:
        return self.environment.troubles.of_request(self, verb, path)

    async def _open(self, queue: QueueView, claimant: Claimant) -> QueueAdapter:
        spec = queue.spec
        assert spec is not None
        if not spec.source.kind.fenced:
            return ExternalQueue()
        return SeedQueue(self.environment.queue(queue.namespace, queue.name), self, claimant)
