"""The queues of one group: a keeper each, for as long as the group has anything to do with the queue."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import structlog

from baton.controller.adapters import OpenQueue, UnsupportedSource
from baton.controller.keeper import Keeper, QueueFacts
from baton.controller.mirror import GroupKey, Mirror
from baton.controller.observe import QueueSight
from baton.controller.supervision import Tasks
from baton.engine.effects import Effect, Grant, Pause
from baton.engine.observation import Outcome, OwnerRecord
from baton.engine.state import KnownQueue
from baton.kube.api import ApiError, UnavailableError
from baton.kube.clock import Clock
from baton.kube.objects import QueueView
from baton.model.ids import Epoch, Partition, QueueName
from baton.queues.protocol import Claimant, QueueAdapter, QueueConflict, QueueUnreachable
from baton.resources import PartitionedQueueSpec

log = structlog.get_logger("baton.queue")


class Keepers:
    """See above. `changed` is called when one has news."""

    def __init__(
        self,
        key: GroupKey,
        uid: str,
        mirror: Mirror,
        clock: Clock,
        tasks: Tasks,
        open_queue: OpenQueue,
        changed: Callable[[], None],
    ) -> None:
        self._supervision = tasks
        self._key = key
        self._uid = uid
        self._clock = clock
        self._open_queue = open_queue
        self._mirror = mirror
        self._changed = changed
        self._keepers: dict[QueueName, Keeper] = {}
        self._tasks: dict[QueueName, asyncio.Task[None]] = {}
        self._sources: dict[QueueName, object] = {}
        self._settled: dict[QueueName, str | None] = {}
        """Incarnation of each queue whose records the engine has taken in."""
        self._released: set[QueueName] = set()
        """Queues that the ledger may still know, but that are not the group's any more."""
        self._gone: frozenset[Effect] = frozenset()
        """Effects on queues that do not exist any more: there is nothing to carry them out at."""

    def sync(self, named: Iterable[QueueName], recorded: Iterable[QueueName]) -> None:
        """A keeper for each queue of the spec or the ledger that exists; others stay until `dismiss`."""
        of_spec = set(named)
        self._released -= of_spec
        for name in of_spec | (set(recorded) - self._released):
            view = self._mirror.queues.get(self._key[0], name)
            if view is None or view.spec is None or view.deleting:
                continue
            if name not in self._keepers:
                self._start(name, view)
            elif self._sources[name] != _where(view.spec, view.uid):
                self._sources[name] = _where(view.spec, view.uid)
                self._keepers[name].reconnect(partial(self._open, view))

    def sights(self, named: Iterable[QueueName], recorded: Mapping[QueueName, KnownQueue]) -> list[QueueSight]:
        """All queues that the group has to do with: of the spec, of the ledger (`recorded`), and those being let go of."""
        of_spec = frozenset(named)
        return [
            self._sight(name, name in of_spec, recorded.get(name))
            for name in sorted(of_spec | recorded.keys() | self._keepers.keys())
        ]

    def _sight(self, name: QueueName, named: bool, recorded: KnownQueue | None) -> QueueSight:
        keeper = self._keepers.get(name)
        facts = keeper.facts if keeper is not None else QueueFacts()
        if recorded is None:
            settled: str | None = _NEVER
        else:
            settled = self._settled.get(name, recorded.incarnation or facts.incarnation)
        return QueueSight(
            name=name,
            named=named,
            view=self._mirror.queues.get(self._key[0], name),
            facts=facts,
            reachable=keeper is not None,
            recorded=recorded.partitions if recorded is not None else None,
            owners_wanted=facts.partitions is not None and settled != facts.incarnation,
        )

    def settle(self, sights: Iterable[QueueSight]) -> None:
        """The engine has taken in what it was shown of these, and the ledger says so."""
        for sight in sights:
            if sight.facts.partitions is not None:
                self._settled[sight.name] = sight.facts.incarnation

    def want(self, effects: Iterable[Effect], told: frozenset[Outcome]) -> None:
        """All effects that are wanted now; see `Keeper.want`."""
        by_queue: dict[QueueName, list[Effect]] = {name: [] for name in self._keepers}
        gone = set()
        for effect in effects:
            if effect.partition.queue in by_queue:
                by_queue[effect.partition.queue].append(effect)
            else:
                gone.add(effect)
        for name, keeper in self._keepers.items():
            view = self._mirror.queues.get(self._key[0], name)
            asked_for = view.spec.partitions if view is not None and view.spec is not None else None
            keeper.want(asked_for, by_queue[name], frozenset(one for one in told if one.partition.queue == name))
        if gone - self._gone:
            self._changed()
        self._gone = frozenset(gone)

    @property
    def drained(self) -> frozenset[tuple[Partition, Epoch]]:
        """A queue that does not exist has nothing outstanding."""
        of_gone = frozenset((effect.partition, effect.epoch) for effect in self._gone if isinstance(effect, Pause))
        return of_gone.union(*(keeper.drained for keeper in self._keepers.values()))

    @property
    def outcomes(self) -> frozenset[Outcome]:
        of_gone = frozenset(
            Outcome(effect.partition, OwnerRecord(effect.uid, effect.epoch)) for effect in self._gone if isinstance(effect, Grant)
        )
        return of_gone.union(*(keeper.outcomes for keeper in self._keepers.values()))

    @property
    def unacknowledged(self) -> dict[Partition, int | None]:
        """What is still to be waited for of the partitions that are paused; None: their queue cannot say."""
        return {partition: left for keeper in self._keepers.values() for partition, left in keeper.unacknowledged.items()}

    @property
    def facts(self) -> dict[QueueName, QueueFacts]:
        return {name: keeper.facts for name, keeper in self._keepers.items()}

    async def dismiss(self, done_with: Iterable[QueueName], recorded: frozenset[QueueName]) -> bool:
        """Release queues that the group has nothing more to do with; False if one could not be, and should be tried again.

        Only when a queue was released is it taken out of the observation, and so out of the ledger (`recorded`): whoever
        restarts in between releases it again. One that is not in the ledger has never been the group's, so nobody waits for
        it.
        """
        released = True
        for name in sorted(done_with):
            task = self._tasks[name]
            task.cancel()  # first, for it would claim the queue again
            await asyncio.gather(task, return_exceptions=True)
            try:
                await self._keepers[name].release()
            except (QueueUnreachable, QueueConflict, UnsupportedSource, ApiError, UnavailableError) as error:
                if name in recorded:
                    log.warning("a queue could not be released yet", queue=name, why=str(error))
                    self._tasks[name] = self._run(name)
                    released = False
                    continue
            await self._stop(name)
            self._released.add(name)
            self._changed()
        return released

    @property
    def names(self) -> frozenset[QueueName]:
        return frozenset(self._keepers)

    async def close(self) -> None:
        """Leave everything as it is."""
        for name in list(self._keepers):
            await self._stop(name)

    def _start(self, name: QueueName, view: QueueView) -> None:
        assert view.spec is not None
        keeper = Keeper(name, partial(self._open, view), self._clock, self._supervision, self._changed)
        self._keepers[name] = keeper
        self._sources[name] = _where(view.spec, view.uid)
        keeper.want(view.spec.partitions, (), frozenset())
        self._tasks[name] = self._run(name)

    async def _open(self, view: QueueView) -> QueueAdapter:
        """From whom it may be taken over is looked up each time: a queue that is another's is asked for again and again."""
        group = self._mirror.group(self._key)
        takes_over = group.takes_over if group is not None and group.uid == self._uid else frozenset()
        return await self._open_queue(view, Claimant("/".join(self._key), self._uid, takes_over))

    def _run(self, name: QueueName) -> asyncio.Task[None]:
        return self._supervision.keep("queue", self._keepers[name].run, group="/".join(self._key), queue=name)

    async def _stop(self, name: QueueName) -> None:
        keeper = self._keepers.pop(name)
        self._settled.pop(name, None)
        task = self._tasks.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await keeper.close()


_NEVER = "never"
"""No incarnation: the ledger does not know the queue, so whatever it has recorded counts."""


def _where(spec: PartitionedQueueSpec, uid: str) -> object:
    """What makes a new connection necessary when it changes."""
    return (uid, spec.source, spec.max_delivered_unacked, spec.max_redeliveries)
