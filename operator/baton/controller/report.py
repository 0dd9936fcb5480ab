"""Reports on a group after each cycle of its loop: its status, its metrics, and its queues' facts."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import structlog

from baton.api import Condition, ShownState
from baton.controller.cluster_cache import GroupKey
from baton.controller.group_observation import QueueFacts, QueueSight
from baton.controller.large_work import aside
from baton.controller.ledger import LedgerWriter
from baton.controller.metrics import Snapshot
from baton.controller.problems import Problem, worst
from baton.controller.status import (
    as_of,
    group_conditions,
    group_status,
    halted_status,
    missing,
    partitions_are_known,
    plan_problem,
    written,
)
from baton.controller.status_writer import StatusWriter
from baton.engine import GroupState, Summary, summary
from baton.engine.state_machine import PartitionState, partition_states, unopened
from baton.kube.members import GroupMembers
from baton.kube.objects import GroupView, groups_path
from baton.model.ids import MemberId, Partition

if TYPE_CHECKING:
    from baton.controller.operator_replica import Replica

log = structlog.get_logger("baton.group")

PartitionCounts = Mapping[tuple[str, str], int]
"""The number of partitions by queue and state."""


class Reporter:
    """Publishes one group's status, its metrics, and the facts about its queues."""

    def __init__(self, key: GroupKey, uid: str, replica: "Replica", ledger_writer: LedgerWriter) -> None:
        self._key, self._replica, self._ledger_writer = key, replica, ledger_writer
        start = partial(replica.tasks.start, "status", namespace=key[0], group=key[1])
        self._writer = StatusWriter(replica.api, groups_path(*key), uid, replica.clock, start, dated=True)
        self._last = Snapshot(reconciled_at=replica.clock.ticks())
        self._looked_at: tuple[GroupState, Summary, PartitionCounts] | None = None

    async def report(
        self,
        group: GroupView,
        state: GroupState,
        sights: list[QueueSight],
        seen: GroupMembers,
        problems: list[Problem],
        unacknowledged: Mapping[Partition, int | None],
        asked_for: int | None,
    ) -> Problem | None:
        """Report after a cycle. Returns the worst problem. `asked_for`: see `Scaling.asked_for`."""
        now = self._replica.clock.now()
        if self._looked_at is None or self._looked_at[0] is not state:  # a step at rest gives the same state again
            self._looked_at = (state, *await aside(len(state.records), digest, state))
        whole, counts = as_of(self._looked_at[1], now), self._looked_at[2]
        if (problem := plan_problem(whole)) is not None:
            problems = [*problems, problem]
        bound = self._replica.options.admission_policy
        lacking = missing(group.name, seen, asked_for)
        bare = group_conditions(
            group, whole, sights, problems, now, sessions_are_bound=bound, asked_for=asked_for, missing=lacking
        )
        known = partitions_are_known(whole, sights)
        status = group_status(group, whole, seen, bare, now, unacknowledged, asked_for, known=known)
        self._writer.want(written(status), group.status)
        facts: dict[str, QueueFacts] = {
            sight.name: sight.facts for sight in sights if sight.view is not None and (sight.named or sight.reachable)
        }
        self._replica.queue_reports.report(self._key, facts)
        self._show(
            Snapshot(
                status=status,
                partitions=counts,
                reconciled_at=self._replica.clock.ticks(),
                queues={sight.name: sight for sight in sights if sight.name in facts},
                ledger=self._ledger_writer.figures,
            )
        )
        return worst(problems)

    def halted(self, group: GroupView, problem: Problem) -> None:
        """Report that the group cannot go on because of this problem. The rest of the status stays as it was."""
        status = halted_status(group, problem, self._replica.clock.now())
        self._writer.want(status, group.status)
        ready = Condition.model_validate(status["conditions"][0])
        shown = self._last.status.model_copy(update={"state": ShownState(status["state"]), "conditions": [ready]})
        self._show(replace(self._last, status=shown, ledger=self._ledger_writer.figures))

    def taken_in(self, members: Iterable[tuple[MemberId, float]]) -> None:
        """Measure members that are in the ledger for the first time. Each comes with the time since when it could take part."""
        for member, since in members:
            took = self._replica.clock.ticks() - since
            self._replica.metrics.ready_to_ledger.labels(*self._key).observe(took)
            log.info("a new member is in the ledger", member=member, ready_to_ledger_ms=round(took * 1000, 1))

    def beat(self, group: GroupView | None) -> None:
        """Record that a round of the group's loop has completed."""
        if group is not None:
            self._writer.put_right(group.status)
        if self._last.status.state is not None:  # something was reported
            self._show(replace(self._last, reconciled_at=self._replica.clock.ticks()))

    def _show(self, snapshot: Snapshot) -> None:
        self._last = snapshot
        self._replica.metrics.group(self._key, snapshot)

    def close(self) -> None:
        """Stop, because the group is gone or another operator serves it."""
        self._writer.close()
        self._looked_at = None
        self._replica.metrics.forget(self._key)
        self._replica.queue_reports.forget(self._key)


def digest(state: GroupState) -> tuple[Summary, PartitionCounts]:
    """Return the summary of a state, and its partitions by queue and state. Pure."""
    counts = Counter((partition.queue, one) for partition, one in partition_states(state).items())
    new = {} if state.view is None else unopened(state.queues, state.view.observation)
    counts.update({(queue, PartitionState.UNASSIGNED): count for queue, count in new.items()})
    queues = state.queues.keys() | new.keys()
    return summary(state), {(queue, one.value): counts[queue, one] for queue in queues for one in PartitionState}
