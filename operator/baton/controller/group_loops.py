"""A loop for every ConsumerGroup, for as long as this operator leads."""

import asyncio
from typing import TYPE_CHECKING

from baton.controller.cluster_cache import GroupKey, QueueKey
from baton.controller.group_loop import GroupLoop
from baton.controller.mislabelled_pods import PodWarnings
from baton.controller.other_releases import OtherReleases
from baton.controller.relists import Scope
from baton.controller.retrying import AT_ONCE
from baton.controller.supervision import end, heard
from baton.kube.objects import FINALIZER, GroupView
from baton.kube.store import WatchedKind

if TYPE_CHECKING:
    from baton.controller.operator_replica import Replica

LOOK_EVERY = 2.0
REPORTS_EVERY = 60.0
"""Seconds after which the statuses of queues are compared with what was written."""

RESTART_AFTER = 5.0
"""Seconds after which a loop that ended is started again, if its group is still there."""

LEDGERS_WITHIN = 10.0
"""Seconds for which a new leader waits until it knows what is to be kept room for, where lists do not answer."""

STOPPED_FOR = 3.0
"""Seconds. A process that finds this much more time gone than it slept was stopped, and may have missed renewals."""


class GroupLoops:
    """Starts and stops loops as groups come and go and leadership changes. A look costs what has changed since the last one."""

    def __init__(self, replica: "Replica") -> None:
        self._replica = replica
        self._loops: dict[GroupKey, tuple[GroupLoop, asyncio.Task[None]]] = {}
        self._due: set[GroupKey] = set()
        """Groups that came or went, and those whose loop has ended."""
        self._not_before: dict[GroupKey, float] = {}
        self._news = asyncio.Event()
        self.reign: tuple[int, str] | None = None
        """For which groups are served, or wait for the lead (`Elector.reign`); None: this replica serves none."""
        self._held = False
        """This replica does not lead at this moment: the groups wait until it does again, or another does."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leads_since = float("-inf")
        self._reserved = False
        """There is room kept for what groups had when this replica began to lead."""
        self._reports_at = self._room_at = float("-inf")
        cache = replica.cache
        cache.wake = self._wake
        self._warnings = PodWarnings(cache, replica.events, replica.metrics, replica.clock)
        cache.group_came_or_went = self._group_came_or_went
        cache.queue_changed = self._queue_changed
        replica.relists.blind_changed = self._blind_changed
        replica.relists.listed = self._listed
        self.other_releases = OtherReleases(
            replica.elector.release, replica.releases, replica.events, replica.relists.ledger, self._now_due
        )
        self.beat = replica.clock.ticks()
        """When this last went round (monotonic seconds)."""

    def notify(self) -> None:
        """Look again at once: leadership changed. For any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._news.set)

    async def run(self) -> None:
        """Until cancelled; then all loops have stopped."""
        self._loop = asyncio.get_running_loop()
        try:
            slept = self._replica.clock.ticks()
            while True:
                self._news.clear()
                await self._follow()
                slept = self._notice_outages(slept)
                self.beat = slept
                await heard(self._news, LOOK_EVERY)
        finally:
            await self._stop_all()

    async def _follow(self) -> None:
        elector = self._replica.elector
        if (reign := elector.reign) is None:
            if self.reign is not None and not elector.deposed:
                self._hold()
                return
            if self.reign is not None:
                await self._stop_all()
            self._due.clear()  # a replica that begins to lead looks at all groups
            return
        if self.reign not in (None, reign):
            await self._stop_all()
        if self.reign is None:
            self._begin(reign)
        elif self._held:
            self._go_on()
        self._open()  # also where the lead has lapsed and come back between two looks
        now = self._replica.clock.ticks()
        self._replica.relists.tend()
        if now >= self._reports_at + REPORTS_EVERY:
            self._reports_at = now
            self._replica.queue_reports.put_right()
        if not self._reserved and not self._reserve(now):
            return
        if now >= self._room_at + LOOK_EVERY:
            self._room_at = now
            for key in self._replica.capacity.fitting():
                self._wake(key)
        await self._look_at_all_due()
        self._warnings.look()

    def _begin(self, reign: tuple[int, str]) -> None:
        """This replica leads from now on."""
        self.reign, self._reserved = reign, False
        self._leads_since = self._replica.clock.ticks()
        self._replica.cache.sessions.outage(self._leads_since)
        self._due = {(view.namespace, view.name) for view in self._replica.cache.groups}

    def _hold(self) -> None:
        """The lead is lost, as far as this replica knows to no other one: nothing is written, and nothing forgotten."""
        if not self._held:
            self._held = True
            for loop, _ in self._loops.values():
                loop.hold()

    def _go_on(self) -> None:
        """It leads again, and no other has led in between."""
        self._held = False
        self._replica.cache.sessions.outage(self._replica.clock.ticks())
        self._replica.relists.go_on()
        for loop, _ in self._loops.values():
            loop.go_on()

    def _open(self) -> None:
        """What has waited for the lead may begin."""
        self._replica.api.turns.go_on()
        self._replica.pacing.go_on()

    async def _look_at_all_due(self) -> None:
        """A few at a time: a new leader has to look at all groups, and others have their turn in between."""
        due, self._due = self._due, set()
        while due:
            for _ in range(min(AT_ONCE, len(due))):
                self._look_at(due.pop())
            await asyncio.sleep(0)
            if not self._replica.elector.leading:
                self._due |= due
                return

    def _reserve(self, now: float) -> bool:
        """Keep room for what groups have by their ledgers, before any of them begins: a new one is not to take their place."""
        relists = self._replica.relists
        relists.want_all(self._leads_since)
        if not relists.groups_listed(self._leads_since) and now < self._leads_since + LEDGERS_WITHIN:
            return False
        groups = [(view.namespace, view.name) for view in self._replica.cache.groups if not view.deleting]
        ledgers = {key: ledger for key in groups if (ledger := relists.ledger(key)) is not None}
        self._replica.capacity.reserve({key: ledger.partitions for key, ledger in ledgers.items()})
        self._reserved = True
        self._replica.queue_reports.refresh_all()
        return True

    def _look_at(self, key: GroupKey) -> None:
        """One group: whether its loop has ended, or belongs to another by now, and whether it should have one."""
        view = self._replica.cache.group(key)
        now = self._replica.clock.ticks()
        if key in self._loops:
            loop, task = self._loops[key]
            if not task.done():
                loop.wake()  # it sees for itself whether its group is gone
                return
            del self._loops[key]
            if view is not None and view.uid == loop.uid:
                self._not_before[key] = now + RESTART_AFTER
                if loop.served_by is not None:
                    self.other_releases.stand_back(view, loop.served_by)
                    self._replica.capacity.forget(key)
        if view is None or (view.deleting and FINALIZER not in view.finalizers):  # others hold it, and nothing is left to do
            self._not_before.pop(key, None)
            self._replica.capacity.forget(key)
        elif key in self.other_releases:
            return
        elif (left := self._not_before.get(key, now) - now) > 0:
            asyncio.get_running_loop().call_later(left, self._now_due, key)
        else:
            self._not_before.pop(key, None)
            self._start(key, view)

    def _start(self, key: GroupKey, view: GroupView) -> None:
        loop = GroupLoop(view, self._replica, self._leads_since)
        task = self._replica.tasks.start("group", loop.run(), namespace=view.namespace, group=view.name)
        task.add_done_callback(lambda _: self._now_due(key))
        self._loops[key] = (loop, task)

    async def _stop_all(self) -> None:
        await end([task for _, task in self._loops.values()])
        self._loops.clear()
        self._not_before.clear()
        self.other_releases.clear()
        self._replica.capacity.clear()
        await self._replica.relists.stop()
        self._replica.queue_reports.close()
        self._warnings.end()
        self.reign, self._held = None, False
        self._open()  # not before: what has waited until here is not to be written by a replica that does not lead

    def _notice_outages(self, slept_at: float) -> float:
        """After an outage of this operator's own, everybody's session gets a full term."""
        now = self._replica.clock.ticks()
        ended = self._replica.elector.outage_ended_at
        if now - slept_at > LOOK_EVERY + STOPPED_FOR:
            self._replica.cache.sessions.outage(now)
        if ended is not None and ended > slept_at:
            self._replica.cache.sessions.outage(ended)
        return now

    # -- what the cache shows

    def _group_came_or_went(self, key: GroupKey) -> None:
        if self._replica.cache.group(key) is None:
            self.other_releases.forget(key)
        self._now_due(key)

    def _now_due(self, key: GroupKey) -> None:
        self._due.add(key)
        self._news.set()

    def _queue_changed(self, key: QueueKey) -> None:
        """What no group uses is told so."""
        if self.reign is not None:
            self._replica.queue_reports.refresh(key)

    def _blind_changed(self, scope: Scope) -> None:
        for key, (loop, _) in self._loops.items():
            if scope in (None, key[0]):
                loop.wake()

    def _listed(self, of: WatchedKind, scope: Scope) -> None:
        if not self._reserved:
            self._news.set()
        if of is WatchedKind.LEDGERS:
            for key, (loop, _) in self._loops.items():
                if scope in (None, key[0]):
                    loop.ledgers_listed()
            self.other_releases.ledgers_listed(scope)

    def _wake(self, key: GroupKey) -> None:
        if key in self._loops:
            self._loops[key][0].wake()
