"""One step of the state machine: a state and an observation in, the next state and its effects out."""

from dataclasses import dataclass, replace

from baton.api.enums import ScaleMode
from baton.api.group_status import GroupNumbers
from baton.engine import handoff
from baton.engine.departures import release_times
from baton.engine.draft import Draft
from baton.engine.effects import Effect
from baton.engine.group_state import state_of, until_of, why_of
from baton.engine.observation import Observation
from baton.engine.partition_state import unopened
from baton.engine.rules import Mode, apply_rules, mode_of
from baton.engine.settled import balanced, settled
from baton.engine.state import GroupState, View
from baton.engine.step_events import StateChanged, StepEvent


@dataclass(frozen=True, slots=True)
class Step:
    """The result of one step.

    The caller first writes the ledger (`dump(state)`). Only after that write succeeded does it carry out the effects.
    """

    state: GroupState
    effects: tuple[Effect, ...]
    events: tuple[StepEvent, ...]
    wake_at: float | None
    """The latest time for the next step, in seconds; None: only a new observation can change anything."""


def step(state: GroupState, observation: Observation, now: float) -> Step:
    """The next state of a group. `now` is in seconds, on the clock of the observation. Pure.

    Level-triggered: every step returns each effect until an observation shows it done.
    """
    view = state.view
    if view is not None and (view.wake_at is None or now < view.wake_at) and observation == view.observation:
        return Step(state, view.effects, (), view.wake_at)
    draft = Draft(state, observation, now)
    apply_rules(draft)
    return _close(draft)


def _close(draft: Draft) -> Step:
    before = draft.before
    spec = draft.spec
    state = GroupState(
        group=before.group,
        generation=draft.generation,
        queues=draft.queues,
        records=draft.records,
        epoch_tombstones=draft.epoch_tombstones,
        queue_tombstones=draft.queue_tombstones,
        unreleased=draft.unreleased,
        known=draft.known,
        member_slots=tuple(draft.member_slots),
        standbys=tuple(draft.standbys),
        moves=draft.moves,
        waiting=draft.waiting,
        proposal=draft.proposal,
        holddown=draft.holddown,
        rebalance=draft.rebalance,
        facts=draft.facts,
        fenced=draft.fenced,
        replicas=spec.replicas if spec.scale_mode is ScaleMode.SPARK else None,
        victims=draft.victims,
        totals=draft.totals,
    )
    effects = handoff.effects(draft)
    wake_at = _wake_at(draft)
    view = View(
        draft.observation,
        effects,
        wake_at,
        problem=draft.problem,
        balanced=balanced(draft),
        settled=settled(draft),
        hold_until=min(_hold_ends(draft), default=None),
        numbers=_numbers(draft, state),
    )
    if (state_of(state), until_of(state)) != (state_of(before), until_of(before)):
        draft.events.append(StateChanged(state_of(state), until_of(state), why_of(state), view.numbers.unowned))
    return Step(replace(state, view=view), effects, tuple(draft.events), wake_at)


def _numbers(draft: Draft, state: GroupState) -> GroupNumbers:
    """The counts of the group. New partitions that the group has not added yet count as partitions without an owner."""
    owned = sum(map(len, draft.owned.values()))
    return GroupNumbers(
        members=len(draft.eligible),
        standbys=sum(member in draft.eligible and not known.active for member, known in draft.known.items()),
        partitions=sum(queue.partitions for queue in draft.observation.queues.values()),
        unowned=len(draft.records) - owned + sum(unopened(draft.queues, draft.observation).values()),
        moving=state.moving,
        **state.totals._asdict(),
    )


def _wake_at(draft: Draft) -> float | None:
    times = [m.deadline for m in draft.moves.values() if handoff.waits_for_giver(m) and not m.missed]
    if mode_of(draft.observation) is not Mode.FULL:
        times += release_times(draft).values()
    return min([*times, *_hold_ends(draft)], default=None)


def _hold_ends(draft: Draft) -> list[float]:
    """The ends of the holddown and of reserved slots. None of them counts while the group cannot act on it."""
    if draft.spec.paused or draft.observation.held_back:
        return []
    ends = [slot.expires for slot in draft.member_slots if slot.expires is not None]
    if draft.holddown is not None and draft.problem is None:
        ends.append(draft.holddown.until)
    return ends
