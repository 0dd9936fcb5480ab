"""The queues of one group: a worker each, as long as the group has anything to do with the queue. Nothing waits for one; and how
long the end of a group waits for a queue that is out of reach."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from functools import partial

import structlog

from baton.controller.adapters import OpenQueue
from baton.controller.backlog import Backlog
from baton.controller.cluster_cache import ClusterCache, GroupKey
from baton.controller.group_observation import QueueFacts, QueueSight
from baton.controller.problems import Reason
from baton.controller.queue_effects import NOTHING
from baton.controller.queue_worker import QueueWorker
from baton.controller.supervision import Tasks, end
from baton.engine.observation import Outcome
from baton.engine.results import Effect, Grant, Pause
from baton.engine.state import IN_DOUBT, KnownQueue
from baton.kube.clock import ApiServerClock
from baton.kube.objects import QueueView
from baton.model.ids import Epoch, Partition, QueueName
from baton.queues.protocol import Claimant, Ownership, QueueAdapter, QueueUnreachable

UNRECORDED_WITHIN = 5.0
"""Seconds for which a group that is being deleted waits for a queue that its ledger does not name: it may be put right
just now."""


log = structlog.get_logger("baton.queue")


class QueueWorkers:
    """The queue workers of one group. Calls `changed` when one of them has news."""

    def __init__(
        self,
        key: GroupKey,
        uid: str,
        cache: ClusterCache,
        clock: ApiServerClock,
        tasks: Tasks,
        open_queue: OpenQueue,
        changed: Callable[[], None],
    ) -> None:
        self._supervision = tasks
        self._key = key
        self._uid = uid
        self._clock = clock
        self._open_queue = open_queue
        self._cache = cache
        self._changed = changed
        self._workers: dict[QueueName, QueueWorker] = {}
        self._tasks: dict[QueueName, asyncio.Task[None]] = {}
        self._sources: dict[QueueName, object] = {}
        self._settled: dict[QueueName, str | None] = {}
        """Incarnation of each queue whose records the engine has taken in."""
        self._shown: dict[QueueName, int] = {}
        """Surprises of each queue that `surprising` has told."""
        self._released: set[QueueName] = set()
        """Queues that the ledger may still know, but that are not the group's any more."""
        self._effects: Iterable[Effect] = ()
        self._wanted: Mapping[QueueName, Mapping[Partition, Effect]] = {}
        """The same by queue."""
        self._lost: frozenset[QueueName] = frozenset()
        """Queues to be let go of that another group has, or that do not answer: nothing can be done there, nor is waited for."""
        self._given_up: dict[QueueName, str] = {}
        self._deleting_since: float | None = None
        self._waits: asyncio.TimerHandle | None = None
        self._held = False

    # -- which queues

    def sync(
        self,
        named: Iterable[QueueName],
        recorded: Mapping[QueueName, KnownQueue],
        without_room: Set[QueueName] = frozenset(),
    ) -> None:
        """A worker for each queue of the spec or the ledger that exists; others stay until they were dismissed and have ended.
        One whose PartitionedQueue does not read counts as out of reach. `without_room`: not to be made, nor to grow.
        """
        self._reap()
        of_spec = set(named) - without_room
        self._released -= of_spec
        unread = {name for name in self._workers if self._sources[name] is None}
        for name in sorted(of_spec | (recorded.keys() - self._released) | unread):
            view = self._cache.queues.get(self._key[0], name)
            worker = self._workers.get(name)
            if view is None or view.deleting:
                if worker is not None and self._sources[name] is None:
                    worker.stop()
                    self._forget(name)  # what never could be reached never will be
            elif worker is None:
                self._start(name, view, recorded.get(name), ask=name not in without_room)
            elif view.spec is not None:  # else it stays where it was
                if name not in without_room:
                    worker.ask_for(view.spec.partitions)
                if self._sources[name] != _where(view):
                    self._sources[name] = _where(view)
                    worker.reconnect(partial(self._open, view))

    def dismiss(self, done_with: Iterable[QueueName], recorded: frozenset[QueueName]) -> bool:
        """Release queues that the group does not use any more, each in its own time. True when all of them are released.

        A queue leaves the observation, and so the ledger (`recorded`), only after its release, so an operator that restarts in
        between releases it again. A queue that is not in the ledger may have been claimed just before an operator ended. If the
        group is being deleted, the release is tried for a while; otherwise once.
        """
        ended = True
        for name in done_with:
            waited_for = name in recorded or self._deleting_since is not None
            self._workers[name].leave(patient=waited_for and name not in self._lost)
            ended = ended and self._workers[name].ended
        return ended

    @property
    def names(self) -> frozenset[QueueName]:
        return frozenset(self._workers)

    def hold(self) -> None:
        """Do nothing until `go_on`; then all effects that stand by then."""
        self._held = True
        for task in self._tasks.values():
            task.cancel()

    def go_on(self) -> None:
        """The next `sync` starts the workers again."""
        self._held = False

    async def close(self) -> None:
        """Leave everything as it is."""
        if self._waits is not None:
            self._waits.cancel()
        for worker in self._workers.values():
            worker.stop()
        await end(list(self._tasks.values()))
        for name in list(self._workers):
            self._forget(name)
        self._effects, self._wanted = (), {}

    # -- what is seen of them

    def sights(
        self, named: Iterable[QueueName], recorded: Mapping[QueueName, KnownQueue], patience: float | None = None
    ) -> list[QueueSight]:
        """All queues that the group has to do with: of the spec, of the ledger (`recorded`), and those being let go of.
        `patience`: the group is being deleted, and waits so many seconds for one that does not answer."""
        of_spec, now = frozenset(named), self._clock.ticks()
        if patience is None:
            self._deleting_since = None
        elif self._deleting_since is None:
            self._deleting_since = now
        lost: dict[QueueName, str | None] = {}
        waits = []
        for name, worker in self._workers.items():
            problem, since = worker.facts.problem, worker.troubled_since
            if name in of_spec or problem is None or since is None:
                continue
            if problem.reason is Reason.CONFLICT:
                lost[name] = None
            elif patience is not None and self._deleting_since is not None:
                bound = patience if name in recorded else min(patience, UNRECORDED_WITHIN)
                if (wait := max(since, self._deleting_since) + bound - now) > 0:
                    waits.append(wait)
                else:
                    lost[name] = problem.message
        for name in recorded.keys() - self._workers.keys() - self._released if patience is not None else ():
            known = recorded[name].incarnation is not None  # its server has recorded the group
            lost[name] = f"PartitionedQueue {self._key[0]}/{name} is gone." if known else None
        self._given_up |= {name: why for name, why in lost.items() if why is not None and name not in self._lost}
        self._lost = frozenset(lost)
        if self._waits is not None:
            self._waits.cancel()
        self._waits = asyncio.get_running_loop().call_later(min(waits), self._changed) if waits else None
        return self.known(of_spec, recorded)

    def known(self, named: Iterable[QueueName], recorded: Mapping[QueueName, KnownQueue]) -> list[QueueSight]:
        """The same, as it was known before."""
        of_spec = frozenset(named)
        return [
            self._sight(name, name in of_spec, recorded.get(name))
            for name in sorted(of_spec | recorded.keys() | self._workers.keys())
        ]

    def _sight(self, name: QueueName, named: bool, recorded: KnownQueue | None) -> QueueSight:
        worker = self._workers.get(name)
        # One that is being released is seen afresh if it is the group's again.
        facts = worker.facts if worker is not None and not (named and worker.leaving) else QueueFacts()
        if recorded is None:
            settled: str | None = _NEVER
        else:
            settled = self._settled.get(name, recorded.incarnation or facts.check.incarnation)
        return QueueSight(
            name=name,
            named=named,
            view=self._cache.queues.get(self._key[0], name),
            facts=facts,
            backlog=worker.backlog if worker is not None else Backlog(),
            reachable=worker is not None and name not in self._lost,
            recorded=recorded.partitions if recorded is not None else None,
            owners_wanted=facts.partitions is not None and settled != facts.check.incarnation,
        )

    def settle(self, sights: Iterable[QueueSight]) -> None:
        """The engine has taken in what it was shown of these, and the ledger says so."""
        for sight in sights:
            if sight.facts.partitions is not None:
                self._settled[sight.name] = sight.facts.check.incarnation

    def heard(self, sights: Iterable[QueueSight]) -> None:
        """A step has looked at these, whether or not anything came of it: where the ledger cannot be written, or the spec does
        not read, what the ledger says is done."""
        for sight in sights:
            if (
                worker := self._workers.get(sight.name)
            ) is not None and worker.facts.check.incarnation == sight.facts.check.incarnation:
                worker.effects.go_on()

    def surprising(self) -> Iterator[tuple[QueueName, Mapping[int, Ownership], bool]]:
        """Queues whose owner records were others at the last look than what was known, each once: its records as they are by now,
        and whether this is the first look."""
        for name, worker in self._workers.items():
            surprises = worker.records.surprises
            if surprises != self._shown.get(name, 0):
                self._shown[name] = surprises
                yield name, worker.records.known, surprises == 1

    def distrust(self, queue: QueueName) -> None:
        """The engine is to be shown the queue's own records again."""
        self._settled[queue] = _NEVER

    def given_up(self) -> dict[QueueName, str]:
        """Queues of a group that is being deleted that were not waited for any longer, and what was wrong; each once."""
        told, self._given_up = self._given_up, {}
        return told

    @property
    def busy(self) -> bool:
        """A queue that answers is about to say what came of what it was asked."""
        return any(worker.effects.busy and worker.troubled_since is None for worker in self._workers.values())

    @property
    def facts(self) -> dict[QueueName, QueueFacts]:
        return {name: worker.facts for name, worker in self._workers.items()}

    # -- what is done at them

    def want(self, effects: Iterable[Effect], told: frozenset[Outcome]) -> None:
        """All effects that are wanted now; see `QueueWork.want`."""
        if effects is self._effects and not told:
            return
        self._effects = effects
        by_queue: defaultdict[QueueName, dict[Partition, Effect]] = defaultdict(dict)
        for effect in effects:
            by_queue[effect.partition.queue][effect.partition] = effect
        done: defaultdict[QueueName, list[Outcome]] = defaultdict(list)
        for outcome in told:
            done[outcome.partition.queue].append(outcome)
        before, self._wanted = self._out_of_reach, by_queue
        for name, worker in self._workers.items():
            worker.effects.want(by_queue.get(name, NOTHING), done.get(name, ()))
        if self._out_of_reach - before:
            self._changed()

    @property
    def drained(self) -> frozenset[tuple[Partition, Epoch]]:
        """A queue that does not exist has nothing outstanding."""
        gone = frozenset((one.partition, one.epoch) for one in self._out_of_reach if isinstance(one, Pause))
        return gone.union(*(worker.effects.work.drained for worker in self._workers.values()))

    @property
    def outcomes(self) -> frozenset[Outcome]:
        gone = frozenset(
            Outcome(one.partition, Ownership(one.uid, one.epoch)) for one in self._out_of_reach if isinstance(one, Grant)
        )
        return gone.union(*(worker.effects.work.outcomes for worker in self._workers.values()))

    @property
    def unacknowledged(self) -> dict[Partition, int | None]:
        """What is still to be waited for of the partitions that are paused; None: their queue cannot say."""
        found: dict[Partition, int | None] = {}
        for worker in self._workers.values():
            found |= worker.effects.work.unacknowledged
        return found

    @property
    def _out_of_reach(self) -> frozenset[Effect]:
        """Effects on queues that do not exist any more: there is nothing to carry them out at."""
        gone = [wanted for name, wanted in self._wanted.items() if name not in self._workers]
        return frozenset(effect for wanted in gone for effect in wanted.values())

    # -- one worker

    def _start(self, name: QueueName, view: QueueView, recorded: KnownQueue | None, *, ask: bool) -> None:
        worker = self._workers[name] = QueueWorker(name, partial(self._open, view), self._clock, self._changed)
        if recorded is not None:
            worker.effects.incarnation = recorded.incarnation
            worker.begun_with = recorded.incarnation if recorded.incarnation != IN_DOUBT else None
        self._sources[name] = _where(view)
        worker.ask_for(view.spec.partitions if view.spec is not None and ask else None)
        worker.effects.want(self._wanted.get(name, NOTHING))
        self._run(name)

    async def _open(self, view: QueueView) -> QueueAdapter:
        """Claim the queue. A claim of another group's queue is repeated, so each one looks up which groups may be taken over."""
        if view.spec is None:
            raise QueueUnreachable(f"PartitionedQueue {view.full_name}: {view.problem}")
        group = self._cache.group(self._key)
        takes_over = group.takes_over if group is not None and group.uid == self._uid else frozenset()
        worker = self._workers.get(QueueName(view.name))
        begun_with = worker.begun_with if worker is not None else None
        return await self._open_queue(view, Claimant("/".join(self._key), self._uid, takes_over, begun_with))

    def _run(self, name: QueueName) -> None:
        task = self._supervision.start("queue", self._workers[name].run(), namespace=self._key[0], group=self._key[1], queue=name)
        task.add_done_callback(lambda _: self._changed())
        self._tasks[name] = task
        if self._held:
            task.cancel()

    def _reap(self) -> None:
        """Forget those that have ended, and start those again that should not have."""
        for name, task in list(self._tasks.items()):
            if not task.done() or self._held:
                continue
            if self._workers[name].ended:
                self._forget(name)
                self._released.add(name)
            else:
                if not task.cancelled():
                    log.error("a queue's task ended; it starts again", queue=name)
                self._run(name)

    def _forget(self, name: QueueName) -> None:
        for kept in (self._workers, self._tasks, self._sources, self._settled, self._shown):
            kept.pop(name, None)


_NEVER = "never"
"""No incarnation: the ledger does not know the queue, so whatever it has recorded counts."""


def _where(view: QueueView) -> object | None:
    """What makes a new connection necessary when it changes; None: the spec does not read as one."""
    return view.spec and (view.uid, view.spec.source, view.spec.max_delivered_unacked, view.spec.max_redeliveries)
