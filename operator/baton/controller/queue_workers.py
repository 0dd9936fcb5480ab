"""The queue workers of one group: one for each queue that the group uses or still has to release. No code waits for a worker.

Also how long the deletion of a group waits for a queue that cannot be reached.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from functools import partial
from typing import TYPE_CHECKING

import structlog

from baton.controller.backlog import Backlog
from baton.controller.cluster_cache import GroupKey
from baton.controller.group_observation import QueueFacts, QueueSight
from baton.controller.problems import Reason
from baton.controller.queue_effects import NOTHING
from baton.controller.queue_worker import QueueWorker
from baton.controller.supervision import end
from baton.engine.observation import Outcome
from baton.engine.results import Effect, Grant, Pause
from baton.engine.state import IN_DOUBT, KnownQueue
from baton.kube.objects import QueueView
from baton.model.ids import Epoch, Partition, QueueName
from baton.queues.protocol import Claimant, Ownership, QueueAdapter, QueueUnreachable

if TYPE_CHECKING:
    from baton.controller.operator_replica import Replica

UNRECORDED_WITHIN = 5.0
"""Seconds for which the deletion of a group waits for an unreachable queue that is not in its ledger. The queue may recover."""

log = structlog.get_logger("baton.queue")


class QueueWorkers:
    """The queue workers of one group. Calls `changed` when one of them has news."""

    def __init__(self, key: GroupKey, uid: str, replica: "Replica", changed: Callable[[], None]) -> None:
        self._key, self._uid = key, uid
        self._replica, self._cache, self._clock = replica, replica.cache, replica.clock
        self._changed = changed
        self._workers: dict[QueueName, QueueWorker] = {}
        self._tasks: dict[QueueName, asyncio.Task[None]] = {}
        self._views: dict[QueueName, QueueView] = {}
        """The workers' queues as last seen with a valid spec."""
        self._settled: dict[QueueName, str | None] = {}
        """For each queue whose owner records the engine has taken in: the incarnation."""
        self._shown: dict[QueueName, int] = {}
        """For each queue: the number of surprises that `surprising` has returned."""
        self._released: set[QueueName] = set()
        """Queues that were released, and that the ledger may still have."""
        self._effects: Iterable[Effect] = ()
        self._wanted: Mapping[QueueName, Mapping[Partition, Effect]] = {}
        """The effects by queue."""
        self._lost: frozenset[QueueName] = frozenset()
        """Queues to be released that belong to another group or do not answer. They are not waited for."""
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
        """Have a worker for each existing queue of the spec or the ledger. Other workers stay until they were dismissed and
        ended.

        A queue with an invalid PartitionedQueue counts as unreachable. `without_room`: queues not to be created, nor to grow.
        """
        self._reap()
        of_spec = set(named) - without_room
        self._released -= of_spec
        unread = self._workers.keys() - self._views.keys()
        for name in sorted(of_spec | (recorded.keys() - self._released) | unread):
            view = self._cache.queues.get(self._key[0], name)
            worker = self._workers.get(name)
            if view is None or view.deleting:
                if worker is not None and name in unread:
                    worker.stop()
                    self._forget(name)  # a queue that could never be reached never will be
            elif worker is None:
                self._start(name, view, recorded.get(name), ask=name not in without_room)
            elif view.spec is not None:  # else the worker keeps its connection
                if name not in without_room:
                    worker.ask_for(view.spec.partitions)
                if name in unread or _where(self._views[name]) != _where(view):
                    worker.reconnect(partial(self._open, view))
                self._views[name] = view

    def dismiss(self, done_with: Iterable[QueueName], recorded: frozenset[QueueName]) -> bool:
        """Release queues that the group no longer uses, independently of each other. Returns True when all are released.

        A queue leaves the observation, and so the ledger (`recorded`), only after its release, so an operator that restarts in
        between releases it again. A queue that is not in the ledger may have been claimed just before an operator ended. Its
        release is tried once, or for a while if the group is being deleted.
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
        """Stop all workers until `go_on`."""
        self._held = True
        for task in self._tasks.values():
            task.cancel()

    def go_on(self) -> None:
        """Let the next `sync` start the workers again."""
        self._held = False

    async def close(self) -> None:
        """End all workers, and leave the queues as they are."""
        if self._waits is not None:
            self._waits.cancel()
        for worker in self._workers.values():
            worker.stop()
        await end(list(self._tasks.values()))
        for name in list(self._workers):
            self._forget(name)
        self._effects, self._wanted = (), {}

    # -- what was seen of them

    def sights(
        self, named: Iterable[QueueName], recorded: Mapping[QueueName, KnownQueue], patience: float | None = None
    ) -> list[QueueSight]:
        """Return the queues of the spec, those of the ledger (`recorded`), and those that are being released.

        `patience`: seconds for which a group that is being deleted waits for a queue that does not answer; None: it stays.
        """
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
            known = recorded[name].incarnation is not None  # the queue's server has recorded the group
            lost[name] = f"PartitionedQueue {self._key[0]}/{name} is gone." if known else None
        self._given_up |= {name: why for name, why in lost.items() if why is not None and name not in self._lost}
        self._lost = frozenset(lost)
        if self._waits is not None:
            self._waits.cancel()
        self._waits = asyncio.get_running_loop().call_later(min(waits), self._changed) if waits else None
        return self.known(of_spec, recorded)

    def known(self, named: Iterable[QueueName], recorded: Mapping[QueueName, KnownQueue]) -> list[QueueSight]:
        """Return the same queues, without deciding again which of them are lost."""
        of_spec = frozenset(named)
        return [
            self._sight(name, name in of_spec, recorded.get(name))
            for name in sorted(of_spec | recorded.keys() | self._workers.keys())
        ]

    def _sight(self, name: QueueName, named: bool, recorded: KnownQueue | None) -> QueueSight:
        worker, view, last = self._workers.get(name), self._cache.queues.get(self._key[0], name), self._views.get(name)
        # A queue that is being released and is in the spec again counts as not seen yet.
        facts = worker.facts if worker is not None and not (named and worker.leaving) else QueueFacts()
        if recorded is None:
            settled: str | None = _NEVER
        else:
            settled = self._settled.get(name, recorded.incarnation or facts.check.incarnation)
        return QueueSight(
            name=name,
            named=named,
            view=view,
            facts=facts,
            backlog=worker.backlog if worker is not None else Backlog(),
            reachable=worker is not None and name not in self._lost,
            known=recorded,
            last_spec=last.spec if view is not None and last is not None and last.uid == view.uid else None,
            owners_wanted=facts.partitions is not None and settled != facts.check.incarnation,
        )

    def settle(self, sights: Iterable[QueueSight]) -> None:
        """Record that the engine has taken in the owner records of these queues, and that the ledger was written."""
        for sight in sights:
            if sight.facts.partitions is not None:
                self._settled[sight.name] = sight.facts.check.incarnation

    def stepped(self, sights: Iterable[QueueSight]) -> None:
        """Record that a step has taken in the incarnations of these queues, so that their effects may be carried out.

        Also after a failed step: if the ledger cannot be written, or the spec is invalid, the effects of the ledger count.
        """
        for sight in sights:
            worker, incarnation = self._workers.get(sight.name), sight.facts.check.incarnation
            if worker is not None and worker.facts.check.incarnation == incarnation:
                worker.effects.go_on()

    def surprising(self) -> Iterator[tuple[QueueName, Mapping[int, Ownership], bool]]:
        """Yield each queue whose last look found other owner records than the known ones, once: its present records, and whether
        that was the first look."""
        for name, worker in self._workers.items():
            surprises = worker.records.surprises
            if surprises != self._shown.get(name, 0):
                self._shown[name] = surprises
                yield name, worker.records.known, surprises == 1

    def distrust(self, queue: QueueName) -> None:
        """Show the engine the queue's owner records again."""
        self._settled[queue] = _NEVER

    def given_up(self) -> dict[QueueName, str]:
        """Return queues that the deletion of the group no longer waits for, and why they could not be released; each once."""
        given_up, self._given_up = self._given_up, {}
        return given_up

    @property
    def busy(self) -> bool:
        """True if effects are being carried out at a queue that answers."""
        return any(worker.effects.busy and worker.troubled_since is None for worker in self._workers.values())

    @property
    def facts(self) -> dict[QueueName, QueueFacts]:
        return {name: worker.facts for name, worker in self._workers.items()}

    # -- what is done to them

    def want(self, effects: Iterable[Effect], told: frozenset[Outcome]) -> None:
        """Replace the wanted effects; see `QueueWork.want`."""
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
        """The paused partitions with nothing outstanding; a queue that does not exist has nothing outstanding."""
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
        """The outstanding messages of paused partitions; None: the queue gives no number."""
        found: dict[Partition, int | None] = {}
        for worker in self._workers.values():
            found |= worker.effects.work.unacknowledged
        return found

    @property
    def _out_of_reach(self) -> frozenset[Effect]:
        """Effects at queues that no longer exist, so there is nothing to carry out."""
        gone = [wanted for name, wanted in self._wanted.items() if name not in self._workers]
        return frozenset(effect for wanted in gone for effect in wanted.values())

    # -- one worker

    def _start(self, name: QueueName, view: QueueView, recorded: KnownQueue | None, *, ask: bool) -> None:
        worker = self._workers[name] = QueueWorker(name, partial(self._open, view), self._clock, self._changed)
        if recorded is not None:
            worker.effects.incarnation = recorded.incarnation
            worker.begun_with = recorded.incarnation if recorded.incarnation != IN_DOUBT else None
        if view.spec is not None:
            self._views[name] = view
            worker.ask_for(view.spec.partitions if ask else None)
        worker.effects.want(self._wanted.get(name, NOTHING))
        self._run(name)

    async def _open(self, view: QueueView) -> QueueAdapter:
        """Claim the queue. Looks up each time which groups may be taken over, because claims of another group's queue are
        retried."""
        if view.spec is None:
            raise QueueUnreachable(f"PartitionedQueue {view.full_name}: {view.problem}")
        group = self._cache.group(self._key)
        takes_over = group.takes_over if group is not None and group.uid == self._uid else frozenset()
        worker = self._workers.get(QueueName(view.name))
        begun_with = worker.begun_with if worker is not None else None
        return await self._replica.open_queue(view, Claimant("/".join(self._key), self._uid, takes_over, begun_with))

    def _run(self, name: QueueName) -> None:
        work, (namespace, group) = self._workers[name].run(), self._key
        task = self._replica.tasks.start("queue", work, namespace=namespace, group=group, queue=name)
        task.add_done_callback(lambda _: self._changed())
        self._tasks[name] = task
        if self._held:
            task.cancel()

    def _reap(self) -> None:
        """Forget workers that have ended, and start those again whose task ended without that."""
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
        for kept in (self._workers, self._tasks, self._views, self._settled, self._shown):
            kept.pop(name, None)


_NEVER = "never"
"""Stands for an incarnation if the ledger does not have the queue, so any owner records count."""


def _where(view: QueueView) -> object:
    """Return what needs a new connection when it changes."""
    assert view.spec is not None
    return view.uid, view.spec.source, view.spec.max_delivered_unacked, view.spec.max_redeliveries
