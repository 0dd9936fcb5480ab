"""What users and Prometheus see of a group, after every cycle of its loop."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import structlog

from baton.controller.conditions import Told, balanced, conditions, fenced, proposal_ready, ready, rebalancing, sessions_bound
from baton.controller.metrics import QueueSnapshot, Snapshot
from baton.controller.mirror import GroupKey
from baton.controller.observe import QueueSight
from baton.controller.problems import Problem, Reason, worst
from baton.controller.queue_board import scale_status
from baton.controller.queue_facts import QueueFacts
from baton.controller.scribe import Scribe
from baton.controller.services import Services
from baton.controller.status_writer import StatusWriter
from baton.engine import GroupState, Summary, summary
from baton.engine.observation import Approval
from baton.engine.partition_state import PartitionState, partition_states
from baton.engine.proposal import Outlook
from baton.engine.summary import InFlight
from baton.kube.members import Membership
from baton.kube.objects import GroupView
from baton.kube.times import to_text
from baton.model.ids import MemberId, Partition, QueueName
from baton.model.names import GROUP_LABEL
from baton.model.ranges import format_numbers
from baton.resources import ConsumerGroupStatus, Handoff, PartitionScaleStatus, Proposal, ProposedChange, ProposedMove
from baton.resources.group_status import LONGEST_RANGES, MOST_HANDOFFS_SHOWN, MOST_PROPOSED_SHOWN

PartitionCounts = Mapping[tuple[str, str], int]
"""By queue and state."""


class Reporter:
    """One group's status, its metrics, and what it knows of its queues."""

    def __init__(self, key: GroupKey, uid: str, path: str, services: Services) -> None:
        self._key = key
        self._services = services
        self._writer = StatusWriter(services.api, path, uid, services.clock)
        self._last: Snapshot | None = None
        self._nothing = replace(_NOTHING_KNOWN, reconciled_at=services.clock.ticks())
        self._counted: tuple[GroupState, PartitionCounts] | None = None
        self._log = structlog.get_logger("baton.group").bind(namespace=key[0], group=key[1])

    async def run(self) -> None:
        """Write the status whenever it changed."""
        await self._writer.run()

    def report(
        self,
        group: GroupView,
        state: GroupState,
        sights: list[QueueSight],
        seen: Membership,
        problems: list[Problem],
        scribe: Scribe,
        unacknowledged: Mapping[Partition, int | None],
    ) -> Problem | None:
        """After a cycle. Returns the worst of the problems."""
        now = self._services.clock.now()
        whole = summary(state)
        if whole.problem is not None:
            problems = [*problems, _of_engine(whole)]
        told = [*_conditions(whole, sights, problems, now), sessions_bound(self._services.admission_policy)]
        if group.spec is not None and group.spec.approval is Approval.MANUAL:
            told.append(proposal_ready(whole.proposal))
        status = group_status(group, whole, seen, told, now, unacknowledged)
        self._writer.want(status.model_dump(by_alias=True, exclude_none=True, mode="json"), dict(group.status))
        facts: dict[str, QueueFacts] = {
            sight.name: sight.facts for sight in sights if sight.view is not None and (sight.named or sight.reachable)
        }
        self._services.board.report(self._key, facts)
        scales = {one.name: scale_status(one.view, one.facts.partitions) for one in sights if one.view is not None}
        found = worst(problems)
        self._last = _snapshot(whole, self._counts(state), facts, scales, scribe, found, self._services.clock.ticks())
        self._services.metrics.group(self._key, self._last)
        return found

    def _counts(self, state: GroupState) -> PartitionCounts:
        """Counted once for each state: a step at rest gives the same one again."""
        if self._counted is None or self._counted[0] is not state:
            counts = Counter((partition.queue, one) for partition, one in partition_states(state).items())
            self._counted = state, {(queue, one.value): counts[queue, one] for queue in state.queues for one in PartitionState}
        return self._counted[1]

    def halted(self, group: GroupView, problem: Problem, scribe: Scribe) -> None:
        """Nothing is done for the group meanwhile; all but this stays as it was last."""
        before = group.status.get("conditions") or ()
        made = conditions([ready(problem, "")], before, group.generation, self._services.clock.now())
        rest = [one for one in before if one.get("type") != "Ready"]
        shown = [one.model_dump(by_alias=True, exclude_none=True, mode="json") for one in made]
        self._writer.want({**group.status, "conditions": [*shown, *rest]}, dict(group.status))
        self._last = replace(self._last or self._nothing, trouble=problem.reason.value, **_of_ledger(scribe))
        self._services.metrics.group(self._key, self._last)

    def taken_in(self, members: Iterable[tuple[MemberId, float]]) -> None:
        """Members that the ledger takes into account for the first time, each with since when it had been able to take part."""
        for member, since in members:
            took = self._services.clock.ticks() - since
            self._services.metrics.ready_to_ledger.labels(*self._key).observe(took)
            self._log.info("a new member is in the ledger", member=member, ready_to_ledger_ms=round(took * 1000, 1))

    def beat(self) -> None:
        """A round came to its end."""
        if self._last is not None:
            self._last = replace(self._last, reconciled_at=self._services.clock.ticks())
            self._services.metrics.group(self._key, self._last)

    def close(self) -> None:
        """The group is gone, or somebody else's."""
        self._services.metrics.forget(self._key)
        self._services.board.forget(self._key)


def group_status(
    group: GroupView,
    whole: Summary,
    seen: Membership,
    told: list[Told],
    now: float,
    unacknowledged: Mapping[Partition, int | None],
) -> ConsumerGroupStatus:
    """The status of a ConsumerGroup. Pure."""
    return ConsumerGroupStatus(
        observed_generation=group.generation,
        state=whole.state,
        hold_until=None if whole.hold_until is None else to_text(whole.hold_until),
        assignment_generation=whole.generation,
        members=whole.members,
        standbys=whole.standbys,
        partitions=whole.partitions,
        moving=whole.moving,
        moves=whole.moves,
        lower_bound=whole.lower_bound,
        deadline_misses=whole.deadline_misses,
        assignor=whole.assignor,
        selector=f"{GROUP_LABEL}={group.name}",
        replicas=seen.pods,
        handoffs=[_handoff(one, unacknowledged.get(one.partition)) for one in whole.in_flight[:MOST_HANDOFFS_SHOWN]],
        proposal=None if whole.proposal is None else _proposal(whole.proposal),
        conditions=conditions(told, group.status.get("conditions") or (), group.generation, now),
    )


def _proposal(one: Outlook) -> Proposal:
    return Proposal(
        id=one.id,
        created_at=to_text(one.created),
        reason=one.why[:256],
        moves=one.count,
        paused=one.paused,
        paused_at_once=one.at_once,
        longest_pause_seconds=None if one.longest is None else round(one.longest),
        members=[
            ProposedChange(member=change.member, before=change.before, after=change.after)
            for change in one.changes[:MOST_PROPOSED_SHOWN]
        ],
        handoffs=[
            ProposedMove(queue=move.queue, partitions=_ranges(move.numbers), giver=move.giver, receiver=move.receiver)
            for move in one.moves[:MOST_PROPOSED_SHOWN]
        ],
    )


def _ranges(numbers: tuple[int, ...]) -> str:
    text = format_numbers(numbers)
    return text if len(text) <= LONGEST_RANGES else text[: text.rindex(",", 0, LONGEST_RANGES)] + ",…"


def _handoff(one: InFlight, unacknowledged: int | None) -> Handoff:
    return Handoff(
        queue=one.partition.queue,
        partition=one.partition.number,
        giver=one.giver,
        receiver=one.receiver,
        epoch=one.epoch,
        deadline=None if one.deadline is None else to_text(one.deadline),
        unacknowledged=unacknowledged,
        reason=one.why[:256],
    )


def _conditions(whole: Summary, sights: list[QueueSight], problems: list[Problem], now: float) -> list[Told]:
    spread = whole.balanced and not any(one.reason is Reason.NO_MEMBERS for one in problems)
    return [
        ready(worst(problems), _shared(whole)),
        balanced(spread, whole.members),
        rebalancing(whole.moving, None if whole.hold_until is None else to_text(whole.hold_until), _overdue(whole, sights, now)),
        fenced(sight.name for sight in sights if sight.wanted and not sight.enforced),
    ]


def _overdue(whole: Summary, sights: list[QueueSight], now: float) -> list[str]:
    unfenced = {sight.name for sight in sights if not sight.enforced}
    return [
        one.giver
        for one in whole.in_flight
        if one.giver is not None and one.deadline is not None and now > one.deadline and one.partition.queue in unfenced
    ]


def _shared(whole: Summary) -> str:
    members = "1 member has" if whole.members == 1 else f"{whole.members} members share"
    return f"{members} {whole.partitions} partition{'' if whole.partitions == 1 else 's'}"


def _of_engine(whole: Summary) -> Problem:
    assert whole.problem is not None
    try:
        reason = Reason(whole.problem.reason)
    except ValueError:
        reason = Reason.PROBLEM
    return Problem(reason, whole.problem.message)


def _snapshot(
    whole: Summary,
    partitions: PartitionCounts,
    facts: Mapping[str, QueueFacts],
    scales: Mapping[QueueName, PartitionScaleStatus | None],
    scribe: Scribe,
    found: Problem | None,
    ticks: float,
) -> Snapshot:
    return Snapshot(
        state=whole.state.value,
        members=whole.members,
        standbys=whole.standbys,
        partitions=partitions,
        proposed=0 if whole.proposal is None else whole.proposal.count,
        moving=whole.moving,
        moves=whole.moves,
        lower_bound=whole.lower_bound,
        deadline_misses=whole.deadline_misses,
        reconciled_at=ticks,
        **_of_ledger(scribe),
        queues={
            name: QueueSnapshot(
                reachable=known.problem is None and known.partitions is not None,
                lag=known.lag,
                stale_refused=sum(known.stale_refused.values()),
                dead_letters=sum(known.dead_letters.values()),
                scale=scales.get(QueueName(name)),
            )
            for name, known in facts.items()
        },
        trouble=None if found is None else found.reason.value,
    )


def _of_ledger(scribe: Scribe) -> dict[str, Any]:
    tally = scribe.tally
    return {
        "ledger_bytes": scribe.bytes,
        "ledger_writes": tally.writes,
        "ledger_restored": tally.restored,
        "ledger_failures": tally.failed,
        "ledger_fails_since": scribe.attempts.since,
    }


_NOTHING_KNOWN = Snapshot(
    state="",
    members=0,
    standbys=0,
    partitions={},
    proposed=0,
    moving=0,
    moves=0,
    lower_bound=0,
    deadline_misses=0,
    ledger_bytes=0,
    ledger_writes=0,
    ledger_restored=0,
    reconciled_at=0.0,
)
"""Of a group whose ledger was not read yet."""
