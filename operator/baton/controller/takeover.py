"""How a group is taken over: when its namespace has been seen, with its finalizer on, and with what its ledger says."""

import asyncio
from collections.abc import Callable, Mapping

import structlog

from baton.controller.deletion_wait import can_forsake_ledger, can_go_unseen
from baton.controller.event_reasons import EventReason
from baton.controller.event_recorder import EventRecorder
from baton.controller.finalizer import Finalizer
from baton.controller.group_capacity import GroupCapacity
from baton.controller.group_objects import GroupObjects
from baton.controller.large_work import GroupWork, aside
from baton.controller.ledger_writer import REFUSALS, LedgerWriter
from baton.controller.problems import Problem, worst
from baton.controller.refusals import Stuck, ledger_refused
from baton.controller.services import Services
from baton.engine import GroupState, load
from baton.engine.ledger_bounds import partitions_named
from baton.kube.ledger_configmap import LedgerOwner
from baton.kube.objects import FINALIZER
from baton.model.ledger import LedgerError
from baton.model.wording import one_line

log = structlog.get_logger("baton.group")

SEEN_WITHIN = 5.0
"""Seconds between two looks of a group that cannot begin yet."""

LONGEST_WORDS = 300
"""Characters of what is said about a text that anybody may have written."""


class Takeover:
    """Takes one group over."""

    def __init__(
        self,
        owner: LedgerOwner,
        sight: GroupObjects,
        finalizer: Finalizer,
        ledger_writer: LedgerWriter,
        recorder: EventRecorder,
        group_capacity: GroupCapacity,
        services: Services,
        work: GroupWork,
        say: Callable[[Problem], None],
    ) -> None:
        """`say` is called with what keeps the group from beginning."""
        self._owner = owner
        self._sight = sight
        self._finalizer = finalizer
        self._ledger_writer = ledger_writer
        self._recorder = recorder
        self._relists = services.relists
        self._group_capacity = group_capacity
        self._work = work
        self._say = say

    async def see(self, since: float) -> bool:
        """Wait until the group's namespace has been listed since then (monotonic seconds); False: the group is gone. One that is
        being deleted goes on without what the server refuses to list."""
        while not await self._relists.seen(self._owner.namespace, since, SEEN_WITHIN):
            if (group := self._sight.group) is None:
                return False
            if group.deleting and can_go_unseen(self._relists.refused_for(self._owner.namespace)):
                log.warning("a group ends without its pods, sessions and queues: they cannot be listed", group=group.full_name)
                return True
            if problem := worst(self._relists.problems(self._owner.namespace)):
                self._say(problem)
        return True

    async def room(self) -> bool:
        """Wait until there is room for what the ledger has, as far as its metadata tell; False: the group is gone."""
        while (group := self._sight.group) is not None:
            ledger = self._relists.ledger((self._owner.namespace, self._owner.group))
            partitions = 0 if ledger is None else ledger.partitions
            if self._group_capacity.begin(partitions, at_all_events=group.deleting):
                return True
            assert self._group_capacity.problem is not None
            self._say(self._group_capacity.problem)
            await asyncio.sleep(SEEN_WITHIN)
        return False

    async def state(self) -> GroupState | None:
        """Where to carry on; None: the group is gone. Raises Stuck and Deposed."""
        group = self._sight.group
        if group is None or (group.deleting and FINALIZER not in group.finalizers):
            return None
        if not group.deleting:
            await self._finalizer.put_on(group)
        try:
            data = await self._ledger_writer.claim()
        except REFUSALS as error:
            if not group.deleting or not can_forsake_ledger(error, self._ledger_writer.attempts.lasted):
                raise Stuck(ledger_refused(self._owner, error)) from error
            data = self._ledger_writer.forsake()
        partitions = 0 if data is None else await aside(sum(map(len, data.values())), partitions_named, data)
        if not self._group_capacity.begin(partitions, at_all_events=group.deleting):
            assert self._group_capacity.problem is not None
            raise Stuck(self._group_capacity.problem)  # it has more than its metadata told
        state, unread = await self._work.do(partitions, _read, group.full_name, data)
        if unread is not None:
            self._recorder.warn(EventReason.LEDGER_REBUILT, unread)
        return state


def _read(group: str, data: Mapping[str, str] | None) -> tuple[GroupState, str | None]:
    """The state of a group (namespace/name), and why it is not what stands there; None: it is, or nothing does. Pure."""
    if not data:
        return GroupState.new(group), None
    try:
        state = load(data)
        if state.group != group:
            raise LedgerError(f"it was written for {state.group}")
    except LedgerError as error:
        why = one_line(str(error), LONGEST_WORDS)
        return GroupState.new(group), f"the ledger does not read as one ({why}); it is rebuilt from what the queues have recorded"
    return state, None
