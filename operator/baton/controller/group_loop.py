"""The loop of one ConsumerGroup: take it over, then repeatedly observe, step, write the ledger, record events, start effects, and
sleep until there is something to do. A group that is being deleted waits only for a limited time for what is out of reach.

While the ledger cannot be written, nothing changes.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Set
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import ceil, inf
from typing import TYPE_CHECKING

import structlog

from baton.api import ConsumerGroupSpec
from baton.controller.capacity import GroupCapacity, holds
from baton.controller.cluster_cache import GroupKey
from baton.controller.events import EventRecorder
from baton.controller.group_observation import GroupObjects, QueueSight, held_back, in_steps, observation
from baton.controller.large_work import aside
from baton.controller.ledger import REFUSALS, LedgerWriter, ServedElsewhere, contradicted, contradiction_event
from baton.controller.problems import (
    EventReason,
    Problem,
    Reason,
    Stuck,
    is_gone,
    ledger_problems,
    ledger_refused,
    request_refused,
    worst,
)
from baton.controller.queue_reports import Resizings
from baton.controller.queue_workers import QueueWorkers
from baton.controller.report import Reporter
from baton.controller.retrying import Deposed, Retrying
from baton.controller.runtime import GroupRuntime
from baton.controller.scaling import Scaling
from baton.controller.status import deletion_problem, not_released, object_problems, queue_problems
from baton.controller.supervision import heard
from baton.engine import GroupState, load
from baton.engine.ledger import partitions_named
from baton.engine.state import in_doubt
from baton.engine.step import TooLarge
from baton.kube.api import Api
from baton.kube.errors import ApiError, ConflictError, NotFoundError, UnavailableError
from baton.kube.events import Regarding
from baton.kube.ledger_configmap import LedgerOwner
from baton.kube.members import GroupMembers
from baton.kube.mount_refresh import due_refreshes
from baton.kube.objects import FINALIZER, GROUP_VERSION, GroupView, groups_path
from baton.model.ids import QueueName
from baton.model.ledger import LedgerError
from baton.model.wording import one_line

if TYPE_CHECKING:
    from baton.controller.operator_replica import Replica

UNREADABLE = ConsumerGroupSpec.model_validate({"queues": [{"name": "none"}]})
"""Replaces an invalid spec of a group that is being deleted: its queues are in the ledger."""

SHORTEST_SLEEP, LONGEST_SLEEP = 0.005, 30.0

SEEN_WITHIN = 5.0
"""Seconds between two checks of a group that cannot begin yet."""

FITS_AFTER = 10.0
"""Seconds after which a plan that did not fit in the ledger is tried again, even if nothing was observed."""

LISTS_WITHIN = 10.0
"""Seconds for which a group that is being deleted waits for lists that are refused and never succeeded: deleting a namespace also
deletes the operator's permissions in it."""

LEDGER_WITHIN = 10.0
"""Seconds for which a group that is being deleted waits for its ledger to be writable; none if its namespace is being deleted."""

QUEUES_WITHIN, QUEUES_WITHIN_WITHOUT_LEDGER = 60.0, 10.0
"""Seconds for which a group that is being deleted waits for a queue that does not answer: with a ledger that can be written, and
without."""

ANSWERS_WITHIN = 1.0
"""Seconds for which the first step waits for the first answers of queues, so that the first plan includes them."""

TOGETHER = 0.05
"""Seconds for which a step waits for effects under way at queues, so that their answers go into one write."""

AGAIN_AFTER = 1.0
"""Seconds until the next attempt to take the finalizer off, if the group changed meanwhile or still has something to release."""

LONGEST_REASON = 300
"""Most characters of a message about an unreadable ledger."""

log = structlog.get_logger("baton.group")


class GroupLoop:
    """Runs one group while this operator leads and the group exists."""

    def __init__(self, group: GroupView, replica: "Replica", leads_since: float) -> None:
        """`leads_since`: when this operator began to lead, in monotonic seconds."""
        self.key: GroupKey = (group.namespace, group.name)
        self.uid = group.uid
        self.served_by: str | None = None
        """Release of the operator that serves the group instead, for which this loop ended; None: none."""
        self._replica, self._clock, self._leads_since = replica, replica.clock, leads_since
        self._owner = LedgerOwner(group.namespace, group.name, group.uid)
        about = Regarding(GROUP_VERSION, "ConsumerGroup", group.namespace, group.name, group.uid)
        self._recorder = EventRecorder(about, replica.events, replica.metrics)
        self._sight = GroupObjects(self.key, group.uid, replica.cache)
        self._finalizer = Finalizer(replica.api, *self.key)
        self._group_capacity = GroupCapacity(self.key, replica.capacity)
        booked = partial(replica.capacity.booked, self.key)
        self._ledger_writer = LedgerWriter(replica.api, self._owner, replica.elector, replica.releases, self._clock, booked)
        self._reporter = Reporter(self.key, group.uid, replica, self._ledger_writer)
        self._workers = QueueWorkers(self.key, group.uid, replica, self.wake)
        self._scaling = Scaling(self.key, group.uid, replica.scaler, replica.tasks, self.wake)
        self._resizings = Resizings()
        self._work = replica.large_work.of(group.namespace)
        state = GroupState(group.full_name)
        self._runtime = GroupRuntime(state, self._clock, self._ledger_writer, self._workers, self._work)
        self._retrying = Retrying(self._clock, self._stuck)
        self._refreshes: set[asyncio.Task[None]] = set()
        """Tasks that annotate pods."""
        self._news = asyncio.Event()
        self._ends = False
        """The last round saw that the group is being deleted."""
        self._trouble_told = False
        """A problem that stops the group was reported, and no step was written since. So a failure that may pass does not make it
        look healthy in between."""
        self._looked_at = self._resync_at = self._answers_until = float("-inf")
        self._saw: tuple[object, ...] = ()
        """The facts that the last round saw."""

    @property
    def _state(self) -> GroupState:
        return self._runtime.state

    def wake(self) -> None:
        """Run another round: something changed."""
        self._news.set()

    def hold(self) -> None:
        """Do nothing at queues until `go_on`."""
        self._workers.hold()

    def go_on(self) -> None:
        self._workers.go_on()
        self.wake()

    def ledgers_listed(self) -> None:
        """Compare the ledger's version in a new list with the last one known."""
        ledger = self._replica.relists.ledger(self.key)
        self._ledger_writer.listed(None if ledger is None else ledger.version)
        if self._ledger_writer.doubtful:
            self.wake()

    async def run(self) -> None:
        """Run until the group is gone, or another leader or release has taken over."""
        try:
            working = await self._seen() and await self._has_room()
            working = working and await self._retrying.until_it_works(self._take_over)
            while working and await self._retrying.until_it_works(self._cycle):
                while not await self._sleep():
                    await self._retrying.until_it_works(self._resync)
            log.info("the group is gone, or only has finalizers of others left")
        except ServedElsewhere as found:
            self.served_by = found.release
        except Deposed:
            log.info("another leader has taken over")
        finally:
            for task in self._refreshes:
                task.cancel()
            self._recorder.flush()
            self._scaling.close()
            self._reporter.close()
            self._runtime.forget()
            await self._workers.close()  # last, because this may be cancelled again while waiting

    def _stuck(self, problem: Problem) -> None:
        """Report a problem that stops the group."""
        self._trouble_told = True
        self._recorder.record_problem(problem, self._clock.now())
        if (group := self._sight.group) is not None:
            self._reporter.halted(group, problem)

    # -- taking it over

    async def _seen(self) -> bool:
        """Wait until the group's namespace was listed since this operator leads; False: the group is gone. A group that is being
        deleted goes on without kinds that the server refuses to list."""
        relists, namespace = self._replica.relists, self.key[0]
        while not await relists.seen(namespace, self._leads_since, SEEN_WITHIN):
            if (group := self._sight.group) is None:
                return False
            if group.deleting and relists.refused_for(namespace) >= LISTS_WITHIN:
                log.warning("deleting the group without its pods, sessions and queues: they cannot be listed")
                return True
            if problem := worst(relists.problems(namespace)):
                self._stuck(problem)
        return True

    async def _has_room(self) -> bool:
        """Wait for capacity for the partitions that the ledger's metadata names; False: the group is gone."""
        while (group := self._sight.group) is not None:
            ledger = self._replica.relists.ledger(self.key)
            partitions = 0 if ledger is None else ledger.partitions
            if (problem := self._group_capacity.begin(partitions, at_all_events=group.deleting)) is None:
                return True
            self._stuck(problem)
            await asyncio.sleep(SEEN_WITHIN)
        return False

    async def _take_over(self) -> bool:
        """Add the finalizer, claim the ledger, and load the state from it; False: the group is gone. Raises Stuck and Deposed."""
        await self._replica.pacing.turn()
        group = self._sight.group
        if group is None or (group.deleting and FINALIZER not in group.finalizers):
            return False
        if not group.deleting:
            await self._finalizer.put_on(group)
        try:
            absent = not group.deleting and self._replica.relists.ledger_absent(self.key, self._leads_since)
            data = await self._ledger_writer.claim(absent=absent)
        except REFUSALS as error:
            if not self._can_end_without_ledger(group, error):
                raise Stuck(ledger_refused(self._owner, error)) from error
            data = self._ledger_writer.forsake()
        partitions = 0 if data is None else await aside(sum(map(len, data.values())), partitions_named, data)
        if (problem := self._group_capacity.begin(partitions, at_all_events=group.deleting)) is not None:
            raise Stuck(problem)  # the ledger has more partitions than its metadata said
        self._runtime.state, unread = await self._work.do(partitions, _read, group.full_name, data)
        if unread is not None:
            self._recorder.warn(EventReason.LEDGER_REBUILT, unread)
        self._resync_at = self._clock.ticks()
        self._answers_until = inf
        return True

    def _can_end_without_ledger(self, group: GroupView, refusal: Exception) -> bool:
        return group.deleting and (is_gone(refusal) or self._ledger_writer.attempts.lasted >= LEDGER_WITHIN)

    # -- one round

    async def _cycle(self) -> bool:
        """Run one round; False: the group is gone and nothing is left to do."""
        await self._gather()
        await self._replica.pacing.turn()
        self._news.clear()
        self._looked_at, self._saw = self._clock.ticks(), self._sight.facts()
        await self._recorder.post_due(self._workers.unacknowledged, self._clock.now())
        group = self._sight.group
        if group is None or (group.deleting and FINALIZER not in group.finalizers):
            return False
        spec = group.spec or (UNREADABLE if group.deleting else None)
        if spec is None:
            return await self._stay_as_it_is(group)
        self._compare_with_queues()
        named = spec.queue_names
        names = [] if group.deleting else named
        held = holds(self._state)
        known = self._workers.known(names, self._state.queues)
        seen = self._sight.membership(spec, known, self._clock.ticks())
        without = self._group_capacity.take(self._state, known, members=bool(seen.members))
        self._workers.sync(() if self._ends else named, self._state.queues, without)
        self._ends = group.deleting
        self._answers_until = min(self._answers_until, self._clock.ticks() + ANSWERS_WITHIN)  # set by the first round
        patience = QUEUES_WITHIN_WITHOUT_LEDGER if self._ledger_writer.forsaken else QUEUES_WITHIN
        sights = self._workers.sights(names, self._state.queues, patience if group.deleting else None)
        sights = [replace(one, without_room=True) if one.name in without else one for one in sights]
        if self._looked_at < self._answers_until and any(one.unanswered for one in sights) and not group.deleting:
            return True
        why, spec = held_back(spec, sights), in_steps(spec, sights)
        if group.deleting:
            self._release(frozenset())  # before queues are claimed, so that a released queue is not claimed again
        if (since := self._sight.in_doubt_since(self._clock.ticks())) is not None:
            self._replica.relists.want_sessions(self.key, since)
        step = partial(self._advance, group, spec, sights, seen)
        if await self._write(group, sights, step) or holds(self._state) != held:
            self.wake()
        for reason, note in self._resizings.news(self._workers.facts, partial(self._replica.cache.queues.get, self.key[0])):
            self._recorder.record_message(reason, note)
        self._refresh_mounts()
        self._apply_scale(group, spec, seen, why)
        done = await self._give_up(group)
        problems = self._problems(group, spec, sights, seen)
        left, asked_for = self._workers.unacknowledged, self._scaling.asked_for(spec)
        trouble = await self._reporter.report(group, self._state, sights, seen, problems, left, asked_for)
        self._recorder.record_problem(trouble, self._clock.now())
        return not done

    async def _stay_as_it_is(self, group: GroupView) -> bool:
        """A round with an invalid spec: take no step, but restore the ledger if it was edited."""
        self._runtime.wake_at = None
        if await self._write(group, self._workers.known((), self._state.queues)):
            self.wake()
        invalid = Problem(Reason.INVALID_SPEC, group.problem or "the spec is invalid")
        self._stuck(worst([invalid, *self._ledger_problems()]) or invalid)
        return True

    async def _gather(self) -> None:
        """Wait for changes that come together, so that they go into one write of the ledger."""
        await self._ledger_writer.gather()
        with suppress(TimeoutError):
            async with asyncio.timeout(TOGETHER):
                while self._workers.busy:
                    self._news.clear()
                    await self._news.wait()

    def _compare_with_queues(self) -> None:
        """Doubt the queues whose owner records contradict the ledger."""
        for queue, records, first in self._workers.surprising():
            if queue not in self._state.queues or not (numbers := contradicted(self._state, queue, records)):
                continue
            self._doubt(queue)
            self._recorder.warn(*contradiction_event(self._state, queue, records, numbers, first=first))

    @property
    def _mounts_are_read(self) -> bool:
        """Whether some queue does not announce grants and pauses to its consumers, so that they learn them only from the mounted
        ledger."""
        views = (self._replica.cache.queues.get(self.key[0], name) for name in self._state.queues)
        return any(view is None or view.spec is None or not view.spec.source.kind.announces for view in views)

    def _refresh_mounts(self) -> None:
        """Annotate pods whose ledger entry changed, in the background, so that kubelets refresh their mounts."""
        if self._mounts_are_read and (wanted := due_refreshes(self._ledger_writer.written or {}, self._sight.pods)):
            work = self._replica.refresher.carry_out(wanted)
            task = self._replica.tasks.start("mount-refresh", work, namespace=self.key[0], group=self.key[1])
            self._refreshes.add(task)
            task.add_done_callback(self._refreshes.discard)

    async def _resync(self) -> bool:
        """Every `resyncSeconds`, compare the facts with those of the last round in case a notification was lost, and run a round
        if they differ."""
        await self._replica.pacing.turn()
        group, now = self._sight.group, self._clock.ticks()
        if now < self._resync_at:
            return True
        every = group.spec.rebalance.resync_seconds if group is not None and group.spec is not None else 20
        self._resync_at = ceil(now + every)  # whole seconds, so that a thousand groups wake the process once a second
        self._ledger_writer.resync(group is not None and group.deleting)
        if self._scaling.recheck() or self._ledger_writer.doubtful or self._sight.facts() != self._saw:
            self.wake()
        self._refresh_mounts()  # repeat those that failed or were undone
        if not self._retrying.failing and not self._replica.relists.problems(self.key[0]):
            self._reporter.beat(self._sight.group)
        return True

    def _problems(self, group: GroupView, spec: ConsumerGroupSpec, sights: list[QueueSight], seen: GroupMembers) -> list[Problem]:
        problems = queue_problems(self.key[0], sights)
        asked_for, view = self._scaling.asked_for(spec), self._state.view
        unowned = 0 if view is None else view.numbers.unowned
        problems += object_problems(self._sight, spec, seen, self._clock.ticks(), asked_for, unowned)
        problems += self._replica.relists.problems(self.key[0]) + self._ledger_problems()
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
            self._recorder.record_message(*done)

    async def _sleep(self) -> bool:
        """Sleep until something changes, the engine's next deadline, or the next session that may lapse. False: a resync is due
        first."""
        clock, ticks = self._clock, self._clock.ticks()
        if ticks >= self._resync_at:
            return False  # otherwise a deadline that is always due, or constant changes, would postpone it for ever
        retry_at = self._ledger_writer.attempts.retry_at
        # While the ledger cannot be written, the engine's deadlines wait for the next attempt to write.
        wake_at = self._runtime.wake_at if retry_at is None else None
        due = [ticks + at - clock.now() for at in (wake_at, self._recorder.due_at) if at is not None]
        due += self._sight.due_after(self._looked_at)  # including what became due since, for example during a resync
        if retry_at is not None:
            due.append(retry_at)
        if self._looked_at < self._answers_until:
            due.append(self._answers_until)
        resync_at = min(self._resync_at, ticks + LONGEST_SLEEP)
        until = max(ticks + SHORTEST_SLEEP, min([*due, resync_at]))
        return await heard(self._news, until - ticks) or any(at <= until for at in due)

    # -- the ledger

    async def _write(self, group: GroupView, sights: list[QueueSight], step: Callable[[], Awaitable[None]] | None = None) -> bool:
        """Restore the ledger if it was edited, and take a step, unless the ledger cannot be written. True: another round should
        follow at once."""
        try:
            if not self._ledger_writer.attempts.due:
                return False
            if await self._ledger_writer.check() and not group.deleting:
                self._tell_restored()
            if (unanswered := self._runtime.settle(self._ledger_writer.written)) is not None:
                await self._recorder.record(unanswered.events, self._clock.now())
                self._ledger_writer.settled()
                return True
            if step is not None:
                await step()
            else:
                self._ledger_writer.settled()  # a write that failed earlier is no longer due
            self._trouble_told = False
            return False
        except REFUSALS as error:
            log.warning("the ledger cannot be written", error=str(error))
            if step is None or not self._can_end_without_ledger(group, error):
                return False
            self._ledger_writer.forsake()
            await step()
            return True  # queues are now waited for less long
        finally:
            self._workers.stepped(sights)

    async def _advance(self, group: GroupView, spec: ConsumerGroupSpec, sights: list[QueueSight], seen: GroupMembers) -> None:
        now, restored = self._clock.now(), self._ledger_writer.tally.restored
        # A deletion cannot be split into parts; the API server refuses a ledger that is too large even for it.
        limit = sys.maxsize if group.deleting else self._replica.options.ledger_limit
        with suppress(TooLarge):
            made = await self._runtime.advance(observation(group, spec, sights, seen), limit)
            self._reporter.taken_in(self._sight.newly_eligible(seen))
            self._workers.settle(sights)
            await self._recorder.record(made.events, now)
        self._ledger_writer.settled()
        if self._runtime.held_back is not None:
            before = self._runtime.wake_at  # if nothing fitted, of an earlier step: it may be past
            self._runtime.wake_at = min(now + FITS_AFTER, before if before is not None and before > now else float("inf"))
        if self._ledger_writer.tally.restored > restored and not group.deleting:
            self._tell_restored()

    def _doubt(self, queue: QueueName) -> None:
        """Have the engine grant all partitions of this queue again, with epochs above its records."""
        self._runtime.state = in_doubt(self._state, queue)
        self._workers.distrust(queue)

    def _tell_restored(self) -> None:
        self._recorder.warn(
            EventReason.LEDGER_RESTORED,
            "the ledger had been edited or deleted and was restored. It is the operator's record: change the ConsumerGroup "
            "instead",
        )

    def _ledger_problems(self) -> list[Problem]:
        refusal, lasted = self._ledger_writer.refusal, self._ledger_writer.attempts.lasted
        found = ledger_problems(self._owner, refusal, lasted, self._runtime.held_back, at_once=self._trouble_told)
        self._trouble_told |= refusal is not None and bool(found)
        return found

    # -- what is given up

    def _release(self, but: Set[QueueName]) -> bool:
        """Release the queues that have no partition in the ledger, except `but`. True: all of them are released."""
        kept = {partition.queue for partition in self._state.records}
        return self._workers.dismiss(self._workers.names - kept - but, recorded=frozenset(self._state.queues))

    async def _give_up(self, group: GroupView) -> bool:
        """Release the queues that `group` no longer names. True: the group is being deleted, and its finalizer is off. Raises
        Stuck."""
        for queue, why in self._workers.given_up().items():
            self._recorder.warn(EventReason.NOT_RELEASED, not_released(queue, why, self.uid))
        named = () if group.deleting or group.spec is None else group.spec.queue_names
        released = self._release({name for name in named if self._replica.cache.queues.get(self.key[0], name)})
        if not group.deleting or self._state.records or not released:
            return False
        if self._scaling.spared and await self._finalizer.take_off(group):
            return True
        asyncio.get_running_loop().call_later(AGAIN_AFTER, self.wake)
        return False


class Finalizer:
    """The finalizer of one group. Methods raise Stuck if the API server refuses."""

    def __init__(self, api: Api, namespace: str, name: str) -> None:
        self._api = api
        self._path = groups_path(namespace, name)

    async def put_on(self, group: GroupView) -> None:
        if FINALIZER not in group.finalizers:
            await self._write(group, [*group.finalizers, FINALIZER], "cannot be put on the group")

    async def take_off(self, group: GroupView) -> bool:
        """Remove the finalizer. False: the group has changed, try again."""
        try:
            rest = [one for one in group.finalizers if one != FINALIZER]
            await self._write(group, rest, "cannot be taken off the group, which is being deleted")
        except NotFoundError:
            return True
        except ConflictError:
            return False
        return True

    async def _write(self, group: GroupView, finalizers: list[str], what: str) -> None:
        metadata = {"uid": group.uid, "resourceVersion": group.version, "finalizers": finalizers or None}
        try:
            await self._api.merge(self._path, {"metadata": metadata})
        except (NotFoundError, ConflictError):
            raise
        except (ApiError, UnavailableError) as error:
            raise Stuck(request_refused(f"the finalizer {FINALIZER} {what}", error)) from error


def _read(group: str, data: Mapping[str, str] | None) -> tuple[GroupState, str | None]:
    """The state of a group (namespace/name) from its ledger, and why the ledger was not used; None: it was, or there was none.
    Pure."""
    if not data:
        return GroupState(group), None
    try:
        state = load(data)
        if state.group != group:
            raise LedgerError(f"it was written for {state.group}")
    except LedgerError as error:
        why = one_line(str(error), LONGEST_REASON)
        return GroupState(group), f"the ledger cannot be read ({why}); rebuilding it from the queues' owner records"
    return state, None
