"""A loop for every ConsumerGroup, for as long as this operator leads."""

import asyncio
from collections.abc import Mapping

import structlog

from baton.controller.lister import Scope
from baton.controller.loop import GroupLoop
from baton.controller.mirror import GroupKey
from baton.controller.services import Services
from baton.controller.strays import PodWarnings
from baton.kube.objects import GroupView
from baton.kube.shelf import Manifest

LOOK_EVERY = 2.0
LIST_EVERY = 60.0
"""Seconds after which all scopes are listed, also where no group asks for it."""

RESTART_AFTER = 5.0
STOPPED_FOR = 3.0
"""Seconds. A process that finds this much more time gone than it slept was stopped, and may have missed renewals."""

log = structlog.get_logger("baton.fleet")


class Fleet:
    """Starts and stops loops as groups come and go and leadership changes."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._loops: dict[GroupKey, tuple[GroupLoop, asyncio.Task[None]]] = {}
        self._not_before: dict[GroupKey, float] = {}
        self._news = asyncio.Event()
        self._leads = False
        self._leads_since = float("-inf")
        mirror = services.mirror
        mirror.wake = self._wake
        mirror.ledger_changed = self._ledger_changed
        mirror.groups_changed = self.notify
        self._warnings = PodWarnings(mirror, services.events, services.metrics, services.clock)
        mirror.pod_changed = self._warnings.pod_changed
        mirror.group_came_or_went = self._warnings.group_changed
        services.relists.blind_changed = self._blind_changed
        self.beat = services.clock.ticks()
        """When this last went round (monotonic seconds)."""

    def notify(self) -> None:
        """Groups came or went, or leadership changed."""
        self._news.set()

    async def run(self) -> None:
        """Until cancelled; then all loops have stopped."""
        try:
            slept = self._services.clock.ticks()
            while True:
                self._news.clear()
                await self._follow()
                slept = self._notice_outages(slept)
                self.beat = slept
                try:
                    async with asyncio.timeout(LOOK_EVERY):
                        await self._news.wait()
                except TimeoutError:
                    pass
        finally:
            await self._stop_all()

    async def _follow(self) -> None:
        leads = self._services.elector.leading
        self._services.metrics.leading(leads)
        if not leads:
            if self._leads:
                await self._stop_all()
            self._leads = False
            return
        if not self._leads:
            self._leads = True
            self._leads_since = self._services.clock.ticks()
            self._warnings.begin()
            self._services.mirror.sessions.outage(self._services.clock.ticks())
        wanted = {
            (view.namespace, view.name): view
            for held in list(self._services.mirror.groups.buckets().values())
            for view in held.values()
        }
        await self._reap(wanted)
        for key, view in wanted.items():
            if key not in self._loops and self._services.clock.ticks() >= self._not_before.get(key, 0.0):
                self._start(key, view)
        self._services.relists.want_all(self._services.clock.ticks() - LIST_EVERY)
        mirror = self._services.mirror
        mirror.sessions.keep_only(lease for held in mirror.leases.buckets().values() for lease in held.values())
        self._services.board.refresh_all()
        self._warnings.look()

    async def _reap(self, wanted: Mapping[GroupKey, GroupView]) -> None:
        """Loops that have ended, and those whose group is another by now."""
        for key, (loop, task) in list(self._loops.items()):
            if task.done():
                del self._loops[key]
                self._not_before[key] = self._services.clock.ticks() + RESTART_AFTER
                if not task.cancelled() and (error := task.exception()) is not None:
                    log.error("a group's loop failed; it starts again", namespace=key[0], group=key[1], exc_info=error)
                elif key in wanted and wanted[key].uid != loop.uid:
                    self._not_before.pop(key)
            elif key not in wanted or wanted[key].uid != loop.uid:
                loop.wake()
        self._not_before = {key: at for key, at in self._not_before.items() if key in wanted}

    def _start(self, key: GroupKey, view: GroupView) -> None:
        loop = GroupLoop(view, self._services, self._leads_since)
        task = self._services.tasks.start("group", loop.run(), group=view.full_name)
        task.add_done_callback(lambda _: self.notify())
        self._loops[key] = (loop, task)

    async def _stop_all(self) -> None:
        tasks = [task for _, task in self._loops.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._loops.clear()
        await self._services.relists.stop()
        self._services.board.close()
        self._warnings.end()

    def _notice_outages(self, slept_at: float) -> float:
        """After an outage of this operator's own, everybody's session gets a full term."""
        now = self._services.clock.ticks()
        ended = self._services.elector.outage_ended_at
        if now - slept_at > LOOK_EVERY + STOPPED_FOR:
            self._services.mirror.sessions.outage(now)
        if ended is not None and ended > slept_at:
            self._services.mirror.sessions.outage(ended)
        return now

    def stuck(self, seconds: float) -> list[GroupKey]:
        """Groups whose loop has been at one round for so long. For another thread."""
        before = self._services.clock.ticks() - seconds
        return [key for key, (loop, _) in self._loops.copy().items() if (since := loop.busy_since) is not None and since < before]

    def _blind_changed(self, scope: Scope) -> None:
        for key, (loop, _) in self._loops.items():
            if scope in (None, key[0]):
                loop.wake()

    def _wake(self, key: GroupKey) -> None:
        if key in self._loops:
            self._loops[key][0].wake()
        elif self._services.mirror.group(key) is not None:
            self._news.set()

    def _ledger_changed(self, key: GroupKey, kind: str | None, manifest: Manifest) -> None:
        if key in self._loops:
            self._loops[key][0].ledger_event(kind, manifest)
