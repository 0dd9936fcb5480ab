"""The steps of one group: restore the ledger, write the engine's step into it, then record events and carry effects out.

While the ledger cannot be written, nothing changes.
"""

import sys
from contextlib import suppress

import structlog

from baton.api import ConsumerGroupSpec
from baton.controller.deletion_wait import can_forsake_ledger
from baton.controller.event_reasons import EventReason
from baton.controller.event_recorder import EventRecorder
from baton.controller.group_objects import GroupObjects
from baton.controller.group_observation import QueueSight, observation
from baton.controller.ledger_trust import in_doubt
from baton.controller.ledger_writer import REFUSALS, LedgerWriter
from baton.controller.problems import Problem
from baton.controller.queue_workers import QueueWorkers
from baton.controller.refusals import ledger_problems
from baton.controller.report import Reporter
from baton.controller.runtime import GroupRuntime
from baton.engine.fitting import TooLarge
from baton.kube.clock import ApiServerClock
from baton.kube.ledger_configmap import AlreadyWritten, LedgerOwner
from baton.kube.members import GroupMembers
from baton.kube.objects import GroupView
from baton.model.ids import QueueName

FITS_AFTER = 10.0
"""Seconds after which a plan for which there was no room is tried again, also where nothing was observed."""


class GroupSteps:
    """Takes the steps of one group. Methods raise Deposed."""

    def __init__(
        self,
        owner: LedgerOwner,
        runtime: GroupRuntime,
        ledger_writer: LedgerWriter,
        workers: QueueWorkers,
        sight: GroupObjects,
        recorder: EventRecorder,
        reporter: Reporter,
        clock: ApiServerClock,
        ledger_limit: int,
    ) -> None:
        """`ledger_limit`: bytes of a ledger that a plan may lead to."""
        self._owner = owner
        self._runtime = runtime
        self._ledger_writer = ledger_writer
        self._workers = workers
        self._sight = sight
        self._recorder = recorder
        self._reporter = reporter
        self._clock = clock
        self._ledger_limit = ledger_limit
        self.trouble_told = False
        """It was said that the group cannot go on, and no step was written since: it is not well for a failure that may pass."""
        self._log = structlog.get_logger("baton.group").bind(namespace=owner.namespace, group=owner.group)

    async def take(self, group: GroupView, spec: ConsumerGroupSpec, sights: list[QueueSight], seen: GroupMembers) -> bool:
        """A step, unless the ledger cannot be written. True: another should follow at once."""
        try:
            if not self._ledger_writer.attempts.due:
                return False
            await self._restore(group)
            await self._advance(group, spec, sights, seen)
            self.trouble_told = False
            return self._in_doubt()
        except AlreadyWritten as landed:
            await self._adopt(landed)
            return True
        except REFUSALS as error:
            self._log.warning("the ledger cannot be written", error=str(error))
            if group.deleting and can_forsake_ledger(error, self._ledger_writer.attempts.lasted):
                self._ledger_writer.forsake()
                await self._advance(group, spec, sights, seen)
                return True  # for queues are not waited for as long any more
        finally:
            self._workers.heard(sights)
        return False

    async def rest(self, group: GroupView) -> bool:
        """No step, but the ledger is put right where somebody edited it. True: look again at once."""
        self._runtime.wake_at = None
        self._workers.heard(self._workers.known((), self._runtime.state.queues))
        if not self._ledger_writer.attempts.due:
            return False
        try:
            await self._restore(group)
            self.trouble_told = False
            return self._in_doubt()
        except AlreadyWritten as landed:
            await self._adopt(landed)
            return True
        except REFUSALS as error:
            self._log.warning("the ledger cannot be written", error=str(error))
        return False

    def problems(self) -> list[Problem]:
        """What is wrong with the ledger."""
        refusal, lasted = self._ledger_writer.refusal, self._ledger_writer.attempts.lasted
        found = ledger_problems(self._owner, refusal, lasted, self._runtime.held_back, at_once=self.trouble_told)
        self.trouble_told |= refusal is not None and bool(found)
        return found

    async def _restore(self, group: GroupView) -> None:
        if await self._ledger_writer.check() and not group.deleting:
            self._tell_restored()

    def _in_doubt(self) -> bool:
        """Where the ledger was put right, and pods may have let go by what had stood there meanwhile, all is granted again: what
        is let go of at one epoch stays let go of. True: so it is."""
        if not self._ledger_writer.took_unseen():
            return False
        for queue in self._runtime.state.queues:
            self.doubt(queue)
        return True

    def doubt(self, queue: QueueName) -> None:
        """What stands of this queue is to be granted again, above what it has recorded."""
        self._runtime.state = in_doubt(self._runtime.state, queue)
        self._workers.distrust(queue)

    async def _advance(self, group: GroupView, spec: ConsumerGroupSpec, sights: list[QueueSight], seen: GroupMembers) -> None:
        now, restored = self._clock.now(), self._ledger_writer.tally.restored
        # Of a deletion nothing can be held back: what is too large even for the API server is refused there.
        limit = sys.maxsize if group.deleting else self._ledger_limit
        with suppress(TooLarge):
            made = await self._runtime.advance(observation(group, spec, sights, seen), limit)
            self._reporter.taken_in(self._sight.newly_eligible(seen))
            self._workers.settle(sights)
            await self._recorder.tell(made.events, now)
        self._ledger_writer.settled()
        if self._runtime.held_back is not None:
            before = self._runtime.wake_at  # of an earlier step where nothing fitted: it may be over
            self._runtime.wake_at = min(now + FITS_AFTER, before if before is not None and before > now else float("inf"))
        if self._ledger_writer.tally.restored > restored and not group.deleting:
            self._tell_restored()

    async def _adopt(self, landed: AlreadyWritten) -> None:
        """What the ledger was thought not to say, it says."""
        await self._runtime.adopt(landed.data)
        self._ledger_writer.settled()

    def _tell_restored(self) -> None:
        self._recorder.warn(
            EventReason.LEDGER_RESTORED,
            "somebody else had edited or deleted the ledger; it was put right. It is the operator's record: change the "
            "ConsumerGroup instead",
        )
