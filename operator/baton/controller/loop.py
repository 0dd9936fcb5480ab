"""The loop of one ConsumerGroup: observe -> step -> ledger -> tell -> carry out -> outcomes, and sleep until there is something
to do. It only says in which order: what each of these means stands in a module of its own.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from baton.controller.diagnosis import deletion_problem, not_released, queue_problems
from baton.controller.doubt import contradicted, in_doubt, told_of
from baton.controller.event_reasons import EventReason
from baton.controller.faults import boundary
from baton.controller.group_sight import GroupSight
from baton.controller.keepers import Keepers
from baton.controller.mirror import GroupKey
from baton.controller.observe import QueueSight, observation
from baton.controller.problems import Problem, Reason, worst
from baton.controller.report import Reporter
from baton.controller.runtime import GroupRuntime
from baton.controller.scaling import Scaling
from baton.controller.scribe import Scribe
from baton.controller.services import Services
from baton.controller.tell import Teller
from baton.engine import GroupState, load
from baton.kube.api import ApiError, ConflictError, NotFoundError, UnavailableError
from baton.kube.bump import Bump, bumps
from baton.kube.events import Regarding
from baton.kube.ledger import Deposed, Ledger, Owner, TooLarge
from baton.kube.members import Membership
from baton.kube.objects import FINALIZER, GROUP_VERSION, GroupView, groups_path
from baton.kube.shelf import Manifest
from baton.model.ids import QueueName
from baton.model.ledger import LedgerError
from baton.resources import ConsumerGroupSpec

AFTER_FAILURE = 1.0
UNREADABLE = ConsumerGroupSpec.model_validate({"queues": [{"name": "none"}]})
"""Stands for the spec of a group that is being deleted and does not read as one: its queues are in the ledger."""

SEEN_WITHIN = 5.0
"""Seconds between two looks of a group that cannot begin yet."""

SHORTEST_SLEEP, LONGEST_SLEEP = 0.005, 30.0


class GroupLoop:
    """One group, as long as this operator leads and the group exists."""

    def __init__(self, group: GroupView, services: Services, leads_since: float) -> None:
        """`leads_since`: when this operator began to lead (monotonic seconds)."""
        self.key: GroupKey = (group.namespace, group.name)
        self.uid = group.uid
        self._full_name = group.full_name
        self._services = services
        self._leads_since = leads_since
        self._path = groups_path(group.namespace, group.name)
        about = Regarding(GROUP_VERSION, "ConsumerGroup", group.namespace, group.name, group.uid)
        self._sight = GroupSight(self.key, group.uid, services.mirror)
        self._news = asyncio.Event()
        self._scribe = Scribe(
            Ledger(services.api, Owner(group.namespace, group.name, group.uid), services.elector.term),
            services.elector,
            services.clock,
        )
        self._keepers = Keepers(
            self.key, group.uid, services.mirror, services.clock, services.tasks, services.open_queue, self.wake
        )
        self._teller = Teller(self.key, about, services.events, services.metrics)
        self._scaling = Scaling(group.namespace, services.scaler)
        self._reporter = Reporter(self.key, group.uid, self._path, services)
        self._runtime = GroupRuntime(GroupState.new(self._full_name), services.clock, self._scribe, self._keepers)
        self._resync_at = float("-inf")
        self._background: set[asyncio.Task[None]] = set()
        self.busy_since: float | None = None
        """When the round that is under way was begun (monotonic seconds); None: it sleeps, or waits to try again."""
        self._failing = False
        self._log = structlog.get_logger("baton.group").bind(namespace=group.namespace, group=group.name)

    @property
    def _state(self) -> GroupState:
        """As it stands in the ledger."""
        return self._runtime.state

    def wake(self) -> None:
        """Something changed."""
        self._news.set()

    def ledger_event(self, kind: str | None, manifest: Manifest) -> None:
        """The watch showed the ledger."""
        if self._scribe.event(kind, manifest):
            self.wake()

    async def run(self) -> None:
        """Until the group is gone, or a later leader has taken over."""
        writing = self._services.tasks.keep("status", self._reporter.run, group=self._full_name)
        try:
            working = await self._see() and await self._until_it_works(self._begin)
            while working and await self._until_it_works(self._cycle):
                while not await self._sleep():
                    await self._until_it_works(self._resync)
            self._log.info("the group is gone")
        except Deposed:
            self._log.info("another leader has taken over")
        finally:
            writing.cancel()
            self._teller.flush()
            for task in self._background:
                task.cancel()
            self._services.relists.forget(self.key)
            await self._keepers.close()
            self._reporter.close()

    async def _until_it_works(self, work: Callable[[], Awaitable[bool]]) -> bool:
        """The API server may be away, or see things differently for a while: try again, from the facts."""
        while True:
            self.busy_since = self._services.clock.ticks()
            try:
                done = await work()
                self._failing = False
                return done
            except (UnavailableError, ApiError) as error:
                self._failing = True
                self._log.warning("the API server did not do what was asked; trying again", error=str(error))
            finally:
                self.busy_since = None
            await asyncio.sleep(AFTER_FAILURE)

    async def _see(self) -> bool:
        """Wait until the group's namespace has been listed, and say so where that fails; False: the group is gone."""
        relists = self._services.relists
        while not await relists.seen(self.key[0], self._leads_since, SEEN_WITHIN):
            group = self._sight.group
            if group is None:
                return False
            if problem := worst(relists.problems(self.key[0])):
                self._reporter.halted(group, problem)
        return True

    async def _begin(self) -> bool:
        """Take the ledger over, and carry on from it."""
        group = self._sight.group
        if group is None or (group.deleting and FINALIZER not in group.finalizers):
            return False
        if FINALIZER not in group.finalizers and not group.deleting:
            patch = {"metadata": {"resourceVersion": group.version, "finalizers": [*group.finalizers, FINALIZER]}}
            with boundary("finalizer"):
                await self._services.api.merge(self._path, patch)
        data = await self._scribe.claim()
        if data:
            try:
                self._runtime.state = load(data)
            except LedgerError as error:
                self._teller.warn(
                    EventReason.LEDGER_REBUILT,
                    f"the ledger does not read as one ({error}); it is made anew from what the queues have recorded",
                )
        self._resync_at = self._services.clock.ticks()
        return True

    async def _cycle(self) -> bool:
        """Once around; False when the group is gone and nothing is left to do."""
        await self._scribe.gather()
        self._news.clear()
        self._teller.hear(self._keepers.unacknowledged, self._services.clock.now())
        if await self._scribe.check():
            self._restored()
        group = self._sight.group
        if group is None or (group.deleting and FINALIZER not in group.finalizers):
            return False
        spec = group.spec or (UNREADABLE if group.deleting else None)
        if spec is None:
            self._runtime.wake_at = None
            self._reporter.invalid(group)
            return True
        self._compare_with_queues()
        names = self._names(spec)
        self._keepers.sync(names, self._state.queues)
        sights = self._keepers.sights(() if group.deleting else names, self._state.queues, deleting=group.deleting)
        seen = self._sight.membership(spec, sights, self._services.clock.ticks())
        problems = await self._advance(group, spec, sights, seen)
        self._bump()
        if not group.deleting:
            await self._apply_scale(spec, seen)
        self._tell_given_up()
        done = await self._let_go(group)
        problems += self._problems(group, spec, sights, seen)
        trouble = self._reporter.report(group, self._state, sights, seen, problems, self._scribe, self._keepers.unacknowledged)
        self._teller.trouble(trouble)
        return not done

    async def _advance(
        self, group: GroupView, spec: ConsumerGroupSpec, sights: list[QueueSight], seen: Membership
    ) -> list[Problem]:
        """One step of the engine. Only what stands in the ledger is done and told."""
        now, restored = self._services.clock.now(), self._scribe.tally.restored
        try:
            made = await self._runtime.advance(observation(group, spec, sights, seen))
        except TooLarge as error:
            self._runtime.wake_at = None  # the state stays as it was: trying again at once would lead to the same
            return [
                Problem(
                    Reason.SIZE_LIMIT,
                    f"{error}: the last assignment that fitted stays in force; use fewer partitions or members per group, or an "
                    "assignor that keeps a member's partitions together (range, contiguous)",
                )
            ]
        if self._scribe.tally.restored > restored:
            self._restored()
        self._measure_latency(seen)
        self._teller.tell(made.happenings, now)
        self._keepers.settle(sights)
        return []

    def _compare_with_queues(self) -> None:
        """Whenever a queue has recorded something else than what was known."""
        for queue, records, first in self._keepers.surprising():
            if queue not in self._state.queues or not (numbers := contradicted(self._state, queue, records)):
                continue
            self._runtime.state = in_doubt(self._state, queue)
            self._keepers.distrust(queue)
            self._teller.warn(*told_of(queue, len(numbers), first=first))

    def _tell_given_up(self) -> None:
        for queue, why in self._keepers.given_up().items():
            self._teller.warn(EventReason.NOT_RELEASED, not_released(queue, why, self.uid))

    async def _resync(self) -> bool:
        """Every now and then have the facts listed, in case a notification was lost; what differs wakes the loop."""
        group, now = self._sight.group, self._services.clock.ticks()
        every = group.spec.rebalance.resync_seconds if group is not None and group.spec is not None else 20
        if now >= self._resync_at:
            self._resync_at = now + every
            if self._scaling.recheck():
                self.wake()
        self._services.relists.want(self.key, now - every, self._listed)
        return True

    def _listed(self) -> None:
        """All of the namespace was compared with what is known."""
        self._scribe.listed(self._services.relists.ledger_version(self.key))
        if self._scribe.doubtful:
            self.wake()
        if not self._failing:
            self._reporter.beat()

    def _problems(self, group: GroupView, spec: ConsumerGroupSpec, sights: list[QueueSight], seen: Membership) -> list[Problem]:
        problems = queue_problems(self.key[0], sights) + self._sight.problems(spec, seen, self._services.clock.ticks())
        problems += self._services.relists.problems(self.key[0])
        if self._scaling.problem is not None:
            problems.append(self._scaling.problem)
        if group.deleting:
            problems.append(deletion_problem(len(self._state.slots), problems))
        return problems

    async def _let_go(self, group: GroupView) -> bool:
        """Release queues whose partitions have all been taken back; True when a deleted group has nothing else to do."""
        kept = {partition.queue for partition in self._state.slots}
        named = set() if group.deleting or group.spec is None else set(self._names(group.spec))
        done_with = self._keepers.names - kept - {name for name in named if self._services.mirror.queues.get(self.key[0], name)}
        released = self._keepers.dismiss(done_with, recorded=frozenset(self._state.queues))
        if not group.deleting or kept or not released:
            return False
        patch = {"metadata": {"uid": self.uid, "finalizers": [one for one in group.finalizers if one != FINALIZER] or None}}
        with suppress(NotFoundError, ConflictError), boundary("finalizer"):
            await self._services.api.merge(self._path, patch)
        return True

    async def _apply_scale(self, spec: ConsumerGroupSpec, seen: Membership) -> None:
        owned = Counter(slot.owner for slot in self._state.slots.values() if slot.owner is not None)
        scaled = await self._scaling.apply(spec, seen, self._sight.pods, owned)
        if scaled is not None:
            self._teller.say(EventReason.SCALED, scaled)

    def _bump(self) -> None:
        """Not waited for: the effects need not wait until kubelets have been told."""
        wanted = bumps(self._scribe.written or {}, self._sight.pods)
        if wanted:
            task = self._services.tasks.start("bump", self._tell_pods(wanted), group=self._full_name)
            self._background.add(task)
            task.add_done_callback(self._background.discard)

    async def _tell_pods(self, wanted: list[Bump]) -> None:
        with boundary("bump"):
            await self._services.bumper.carry_out(wanted)

    def _measure_latency(self, seen: Membership) -> None:
        """For everybody who was taken into account for the first time."""
        for member, since in self._sight.newly_eligible(seen):
            took = self._services.clock.ticks() - since
            self._services.metrics.ready_to_ledger.labels(*self.key).observe(took)
            self._log.info("a new member is in the ledger", member=member, ready_to_ledger_ms=round(took * 1000, 1))

    def _restored(self) -> None:
        self._teller.warn(
            EventReason.LEDGER_RESTORED,
            "somebody else had edited or deleted the ledger; it was put right. It is the operator's record: change the "
            "ConsumerGroup instead",
        )

    def _names(self, spec: ConsumerGroupSpec) -> list[QueueName]:
        return [QueueName(queue.name) for queue in spec.queues]

    async def _sleep(self) -> bool:
        """Until news, the engine's next deadline, or the next session that may lapse. False: a resync is due before that."""
        clock = self._services.clock
        ticks = clock.ticks()
        due = [ticks + at - clock.now() for at in (self._runtime.wake_at, self._teller.due_at) if at is not None]
        due += self._sight.due_after(ticks)
        resync_at = min(self._resync_at, ticks + LONGEST_SLEEP)
        until = max(ticks + SHORTEST_SLEEP, min([*due, resync_at]))
        try:
            async with asyncio.timeout(until - ticks):
                await self._news.wait()
            return True
        except TimeoutError:
            return any(at <= until for at in due)
