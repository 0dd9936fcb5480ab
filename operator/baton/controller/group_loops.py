"""Runs a loop for every ConsumerGroup while this operator leads."""

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
"""Seconds between comparisons of queues' statuses with what was written."""

RESTART_AFTER = 5.0
"""Seconds after which a loop that ended is restarted, if its group still exists."""

LEDGERS_WITHIN = 10.0
"""Seconds for which a new leader waits for lists of groups and ledgers before it starts loops without reserving capacity."""

STOPPED_FOR = 3.0
"""Seconds by which a sleep may be late. Beyond that, the process was stopped and may have missed renewals."""


class GroupLoops:
    """Starts and stops loops as groups come and go and leadership changes. The cost of a look depends only on what changed."""

    def __init__(self, replica: "Replica") -> None:
        self._replica = replica
        self._loops: dict[GroupKey, tuple[GroupLoop, asyncio.Task[None]]] = {}
        self._due: set[GroupKey] = set()
        """Groups that came or went, or whose loop has ended."""
        self._not_before: dict[GroupKey, float] = {}
        self._news = asyncio.Event()
        self.reign: tuple[int, str] | None = None
        """The reign (`Elector.reign`) in which the groups are served; None: this replica serves no group."""
        self._held = False
        """The lead has lapsed: the loops wait until this replica leads again, or another does."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leads_since = float("-inf")
        self._reserved = False
        """Whether capacity is reserved for the partitions that groups had when this replica began to lead."""
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
        """When `run` last completed a look (monotonic seconds)."""

    def notify(self) -> None:
        """Look again at once, because leadership changed. May be called from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._news.set)

    async def run(self) -> None:
        """Run until cancelled. All loops have stopped when this returns."""
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
        self._open()  # in case the lead lapsed and came back between two looks
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
        """This replica begins to lead."""
        self.reign, self._reserved = reign, False
        self._leads_since = self._replica.clock.ticks()
        self._replica.cache.sessions.outage(self._leads_since)
        self._due = {(view.namespace, view.name) for view in self._replica.cache.groups}

    def _hold(self) -> None:
        """The lead has lapsed, and no other replica is known to lead: write nothing, but keep all loops."""
        if not self._held:
            self._held = True
            for loop, _ in self._loops.values():
                loop.hold()

    def _go_on(self) -> None:
        """This replica leads again, and no other has led in between."""
        self._held = False
        self._replica.cache.sessions.outage(self._replica.clock.ticks())
        self._replica.relists.go_on()
        for loop, _ in self._loops.values():
            loop.go_on()

    def _open(self) -> None:
        """Start rounds and requests that waited for the lead."""
        self._replica.api.turns.go_on()
        self._replica.pacing.go_on()

    async def _look_at_all_due(self) -> None:
        """Look at groups a few at a time: a new leader looks at all, and other tasks need turns in between."""
        due, self._due = self._due, set()
        while due:
            for _ in range(min(AT_ONCE, len(due))):
                self._look_at(due.pop())
            await asyncio.sleep(0)
            if not self._replica.elector.leading:
                self._due |= due
                return

    def _reserve(self, now: float) -> bool:
        """Reserve capacity for the partitions that ledgers have before any loop starts, so that new groups do not take it. False:
        the lists are not there yet."""
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
        """Start, restart or wake the loop of one group, or forget it if the group is gone."""
        view = self._replica.cache.group(key)
        now = self._replica.clock.ticks()
        if key in self._loops:
            loop, task = self._loops[key]
            if not task.done():
                loop.wake()  # the loop notices whether its group is gone
                return
            del self._loops[key]
            if view is not None and view.uid == loop.uid:
                self._not_before[key] = now + RESTART_AFTER
                if loop.served_by is not None:
                    self.other_releases.stand_back(view, loop.served_by)
                    self._replica.capacity.forget(key)
        if view is None or (view.deleting and FINALIZER not in view.finalizers):  # only finalizers of others are left
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
        self._open()  # last: requests still waiting here must not be sent by a replica that does not lead

    def _notice_outages(self, slept_at: float) -> float:
        """Give all sessions a full term after an outage of this operator. Returns the current time."""
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
        """Update the status of a queue, also if no group names it."""
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
