"""The loop of one ConsumerGroup: observe, step, write the ledger, record events, carry effects out, and sleep until there is
something to do. The loop only has the order. Each of these has a module of its own.
"""

import asyncio
from collections import Counter
from dataclasses import replace
from functools import partial

import structlog

from baton.api import ConsumerGroupSpec
from baton.controller.cluster_cache import GroupKey
from baton.controller.deletion_wait import patience
from baton.controller.diagnosis import deletion_problem, queue_problems
from baton.controller.event_recorder import EventRecorder
from baton.controller.finalizer import Finalizer
from baton.controller.group_capacity import GroupCapacity, holds
from baton.controller.group_objects import GroupObjects
from baton.controller.group_observation import QueueSight, held_back, in_steps
from baton.controller.group_steps import GroupSteps
from baton.controller.ledger_trust import contradicted, told_of
from baton.controller.ledger_writer import LedgerWriter
from baton.controller.mount_refreshes import MountRefreshes
from baton.controller.problems import Problem, Reason, worst
from baton.controller.queue_releases import QueueReleases
from baton.controller.queue_workers import QueueWorkers
from baton.controller.report import Reporter
from baton.controller.resizing import Resizings
from baton.controller.retrying import Retrying
from baton.controller.runtime import GroupRuntime
from baton.controller.scaling import Scaling
from baton.controller.services import Services
from baton.controller.takeover import Takeover
from baton.engine import GroupState
from baton.kube.events import Regarding
from baton.kube.group_replicas import GroupReplicas
from baton.kube.ledger_configmap import Deposed, Ledger, LedgerOwner, ServedElsewhere
from baton.kube.members import GroupMembers
from baton.kube.objects import FINALIZER, GROUP_VERSION, GroupView, groups_path
from baton.model.ids import QueueName

UNREADABLE = ConsumerGroupSpec.model_validate({"queues": [{"name": "none"}]})
"""Stands for the spec of a group that is being deleted and does not read as one: its queues are in the ledger."""

SHORTEST_SLEEP, LONGEST_SLEEP = 0.005, 30.0


class GroupLoop:
    """One group, as long as this operator leads and the group exists."""

    def __init__(self, group: GroupView, services: Services, leads_since: float) -> None:
        """`leads_since`: when this operator began to lead (monotonic seconds)."""
        self.key: GroupKey = (group.namespace, group.name)
        self.uid = group.uid
        self._services = services
        self._leads_since = leads_since
        self._owner = LedgerOwner(group.namespace, group.name, group.uid)
        about = Regarding(GROUP_VERSION, "ConsumerGroup", group.namespace, group.name, group.uid)
        self._sight = GroupObjects(self.key, group.uid, services.cache)
        self._news = asyncio.Event()
        self._finalizer = Finalizer(services.api, *self.key)
        self._group_capacity = GroupCapacity(self.key, services.capacity)
        elector, booked = services.elector, partial(services.capacity.booked, self.key)
        ledger = Ledger(services.api, self._owner, elector.term, elector.release, services.releases, booked)
        self._ledger_writer = LedgerWriter(ledger, services.elector, services.clock)
        self._workers = QueueWorkers(
            self.key, group.uid, services.cache, services.clock, services.tasks, services.open_queue, self.wake
        )
        self._ends = False
        """It has been seen that the group is being deleted."""
        self._refreshes = MountRefreshes(services.refresher, services.tasks, self.key)
        self._recorder = EventRecorder(self.key, about, services.events, services.metrics)
        replicas = GroupReplicas(services.api, services.scaler, *self.key, group.uid)
        self._scaling = Scaling(self.key, services.scaler, replicas, services.tasks, self.wake)
        self._releases = QueueReleases(
            self.key, group.uid, services.cache, self._workers, self._recorder, self._scaling, self._finalizer, self.wake
        )
        self._reporter = Reporter(self.key, group.uid, groups_path(*self.key), services)
        state = GroupState.new(group.full_name)
        self._log = structlog.get_logger("baton.group").bind(namespace=group.namespace, group=group.name)
        self._retrying = Retrying(services.clock, self._stuck, self._log)
        work = services.large_work.of(group.namespace)
        self._runtime = GroupRuntime(state, services.clock, self._ledger_writer, self._workers, work)
        self._steps = GroupSteps(
            self._owner,
            self._runtime,
            self._ledger_writer,
            self._workers,
            self._sight,
            self._recorder,
            self._reporter,
            services.clock,
            services.ledger_limit,
        )
        self.served_by: str | None = None
        """Another release of the operator has the group, and this loop has ended for it."""
        self._looked_at = self._resync_at = float("-inf")
        self._saw: tuple[object, ...] = ()
        """The facts of the last round."""
        self._takeover = Takeover(
            self._owner,
            self._sight,
            self._finalizer,
            self._ledger_writer,
            self._recorder,
            self._group_capacity,
            services,
            work,
            self._stuck,
        )
        self._resizings = Resizings()

    @property
    def _state(self) -> GroupState:
        """As it stands in the ledger."""
        return self._runtime.state

    def wake(self) -> None:
        """Go round again: something changed."""
        self._news.set()

    def hold(self) -> None:
        """Do nothing at queues until `go_on`."""
        self._workers.hold()

    def go_on(self) -> None:
        self._workers.go_on()
        self.wake()

    def ledgers_listed(self) -> None:
        """The version of the ledger was compared with what was written."""
        self._ledger_writer.listed(self._services.relists.ledger(self.key).version)
        if self._ledger_writer.doubtful:
            self.wake()

    async def run(self) -> None:
        """Until the group is gone, or another leader has taken over."""
        writing = self._services.tasks.keep("status", self._reporter.run, namespace=self.key[0], group=self.key[1])
        try:
            working = await self._takeover.see(self._leads_since) and await self._takeover.room()
            working = working and await self._retrying.until_it_works(self._begin)
            while working and await self._retrying.until_it_works(self._cycle):
                while not await self._sleep():
                    await self._retrying.until_it_works(self._resync)
            self._log.info("the group is gone, or held by others' finalizers alone")
        except ServedElsewhere as found:
            self.served_by = found.release
        except Deposed:
            self._log.info("another leader has taken over")
        finally:
            writing.cancel()
            self._recorder.flush()
            self._refreshes.close()
            self._scaling.close()
            self._reporter.close()
            self._runtime.forget()
            await self._workers.close()  # last of all: it may be cancelled once more

    def _stuck(self, problem: Problem) -> None:
        """It cannot go on before that is over."""
        self._steps.trouble_told = True
        self._recorder.trouble(problem, self._services.clock.now())
        if (group := self._sight.group) is not None:
            self._reporter.halted(group, problem, self._ledger_writer)

    async def _begin(self) -> bool:
        await self._services.pacing.turn()
        state = await self._takeover.state()
        if state is None:
            return False
        self._runtime.state = state
        self._resync_at = self._services.clock.ticks()
        return True

    async def _cycle(self) -> bool:
        """Once around; False when the group is gone and nothing is left to do."""
        await self._ledger_writer.gather()
        await self._services.pacing.turn()
        self._news.clear()
        self._looked_at, self._saw = self._services.clock.ticks(), self._sight.facts()
        await self._recorder.hear(self._workers.unacknowledged, self._services.clock.now())
        group = self._sight.group
        if group is None or (group.deleting and FINALIZER not in group.finalizers):
            return False
        spec = group.spec or (UNREADABLE if group.deleting else None)
        if spec is None:
            return await self._stay_as_it_is(group)
        self._compare_with_queues()
        names = self._names(spec)
        held = holds(self._state)
        known = self._workers.known(() if group.deleting else names, self._state.queues)
        seen = self._sight.membership(spec, known, self._services.clock.ticks())
        without = self._group_capacity.take(self._state, known, members=bool(seen.members))
        self._workers.sync(() if self._ends else names, self._state.queues, without)
        self._ends = group.deleting
        wait = patience(self._ledger_writer.forsaken) if group.deleting else None
        sights = self._workers.sights(() if group.deleting else names, self._state.queues, wait)
        sights = [replace(one, without_room=True) if one.name in without else one for one in sights]
        why, spec = held_back(spec, sights), in_steps(spec, sights)
        if group.deleting:
            self._releases.release(self._state, set())  # before any is claimed: nothing that was released is claimed again
        if (since := self._sight.in_doubt_since(self._services.clock.ticks())) is not None:
            self._services.relists.want_sessions(self.key, since)
        if await self._steps.take(group, spec, sights, seen) or holds(self._state) != held:
            self.wake()
        for reason, note in self._resizings.news(self._workers.facts, partial(self._services.cache.queues.get, self.key[0])):
            self._recorder.say(reason, note)
        self._refreshes.follow(self._ledger_writer.written or {}, self._sight.pods)
        self._apply_scale(group, spec, seen, why)
        done = await self._releases.follow(group, self._state)
        problems = self._problems(group, spec, sights, seen)
        left, asked_for = self._workers.unacknowledged, self._scaling.asked_for(spec)
        await self._reporter.look_at(self._state)
        trouble = self._reporter.report(group, self._state, sights, seen, problems, self._ledger_writer, left, asked_for)
        self._recorder.trouble(trouble, self._services.clock.now())
        return not done

    async def _stay_as_it_is(self, group: GroupView) -> bool:
        """The spec does not read as one."""
        if await self._steps.rest(group):
            self.wake()
        invalid = Problem(Reason.INVALID_SPEC, group.problem or "the spec does not read as one")
        self._stuck(worst([invalid, *self._steps.problems()]) or invalid)
        return True

    def _compare_with_queues(self) -> None:
        """Whenever a queue has recorded something else than what was known."""
        for queue, records, first in self._workers.surprising():
            if queue not in self._state.queues or not (numbers := contradicted(self._state, queue, records)):
                continue
            self._steps.doubt(queue)
            self._recorder.warn(*told_of(self._state, queue, records, numbers, first=first))

    async def _resync(self) -> bool:
        """Every now and then compare the facts with those of the last round, in case a notification was lost; what differs wakes
        the loop."""
        await self._services.pacing.turn()
        group, now = self._sight.group, self._services.clock.ticks()
        if now < self._resync_at:
            return True
        self._resync_at = now + (group.spec.rebalance.resync_seconds if group is not None and group.spec is not None else 20)
        self._ledger_writer.resync(group is not None and group.deleting)
        if self._scaling.recheck() or self._ledger_writer.doubtful or self._sight.facts() != self._saw:
            self.wake()
        self._refreshes.follow(self._ledger_writer.written or {}, self._sight.pods)  # what failed or was undone, again
        if not self._retrying.failing and not self._services.relists.problems(self.key[0]):
            self._reporter.beat(self._sight.group)
        return True

    def _problems(self, group: GroupView, spec: ConsumerGroupSpec, sights: list[QueueSight], seen: GroupMembers) -> list[Problem]:
        problems = queue_problems(self.key[0], sights)
        asked_for, view = self._scaling.asked_for(spec), self._state.view
        unowned = 0 if view is None else view.numbers.unowned
        problems += self._sight.problems(spec, seen, self._services.clock.ticks(), asked_for, unowned)
        problems += self._services.relists.problems(self.key[0]) + self._steps.problems()
        if self._group_capacity.problem is not None:
            problems.append(self._group_capacity.problem)
        if self._scaling.problem is not None:
            problems.append(self._scaling.problem)
        if group.deleting:
            problems.append(deletion_problem(len(self._state.records), problems))
        return problems

    def _apply_scale(self, group: GroupView, spec: ConsumerGroupSpec, seen: GroupMembers, why: str) -> None:
        if group.deleting:
            self._scaling.spare(spec, self._sight.pods)
            return
        owned = Counter(record.owner for record in self._state.records.values() if record.owner is not None)
        done = self._scaling.apply(spec, seen, self._sight.pods, owned, why)
        if done is not None:
            self._recorder.say(*done)

    def _names(self, spec: ConsumerGroupSpec) -> list[QueueName]:
        return [QueueName(queue.name) for queue in spec.queues]

    async def _sleep(self) -> bool:
        """Until news, the engine's next deadline, or the next session that may lapse. False: a resync is due before that."""
        clock = self._services.clock
        ticks = clock.ticks()
        if ticks >= self._resync_at:
            return False  # else what is always due, or always news, would put it off for good
        retry_at = self._ledger_writer.attempts.retry_at
        # A ledger that cannot be written: before the next attempt nothing that is due for the engine can be done.
        wake_at = self._runtime.wake_at if retry_at is None else None
        due = [ticks + at - clock.now() for at in (wake_at, self._recorder.due_at) if at is not None]
        due += self._sight.due_after(self._looked_at)  # also what has become due since, as during a resync
        if retry_at is not None:
            due.append(retry_at)
        resync_at = min(self._resync_at, ticks + LONGEST_SLEEP)
        until = max(ticks + SHORTEST_SLEEP, min([*due, resync_at]))
        try:
            async with asyncio.timeout(until - ticks):
                await self._news.wait()
            return True
        except TimeoutError:
            return any(at <= until for at in due)
