"""One step of the state machine: what is seen, in; what is to be done, out."""

from dataclasses import dataclass, replace

from baton.engine import handoff
from baton.engine.approval import withdraw_overtaken
from baton.engine.bound import least_moves
from baton.engine.census import count_members
from baton.engine.departures import notice_departures
from baton.engine.draft import Draft
from baton.engine.effects import Effect
from baton.engine.failure import unplanned_if_it_fails
from baton.engine.group_state import state_of, until_of, why_of
from baton.engine.happenings import Happening, StandsBy, StateChanged
from baton.engine.holddown import due, watch
from baton.engine.observation import HeldBack, Observation, ScaleMode
from baton.engine.partition_state import unopened
from baton.engine.partitions import drop_missing_queues, follow_queues, follow_servers, forget_withdrawn, place_opened
from baton.engine.plan import begin_waiting, carry_out_approved, carry_out_plan
from baton.engine.reaim import turn_lost_moves
from baton.engine.seats import fill_seats, leave_to_the_active, take_seats
from baton.engine.settled import balanced, settled
from baton.engine.state import GroupState, View
from baton.engine.triggers import follow_capacities, follow_facts, follow_subscriptions


@dataclass(frozen=True, slots=True)
class Step:
    """What came of one step.

    The caller first writes the ledger (`dump(state)`), and only when that write succeeded carries out the effects.
    """

    state: GroupState
    effects: tuple[Effect, ...]
    happenings: tuple[Happening, ...]
    wake_at: float | None
    """The latest time for the next step, if nothing is observed before; None: only an observation can change anything."""


def step(state: GroupState, observation: Observation, now: float) -> Step:
    """The next state of a group. Pure; times are seconds on one clock.

    Level-triggered: effects that are still wanted are returned by every step until an observation shows them done.
    """
    view = state.view
    if view is not None and (view.wake_at is None or now < view.wake_at) and observation == view.observation:
        return Step(state, view.effects, (), view.wake_at)
    draft = Draft(state, observation, now)
    _look(draft)
    if observation.spec.paused or observation.held_back is HeldBack.ALL:
        withdraw_overtaken(draft)
    elif observation.held_back is HeldBack.PLANS:
        _go_on(draft)
    else:
        _decide(draft)
    handoff.take_releases(draft)  # a hand-off that does not wait has its deadline now
    handoff.rest_released(draft)
    return _close(draft)


def _look(draft: Draft) -> None:
    """What happened, and what follows from it even while the group is paused."""
    handoff.clamp(draft)
    drop_missing_queues(draft)
    count_members(draft)
    handoff.take_outcomes(draft)
    notice_departures(draft)
    follow_facts(draft)
    turn_lost_moves(draft)
    if draft.observation.held_back is not HeldBack.ALL:
        follow_servers(draft)
    handoff.take_releases(draft)
    handoff.rest_released(draft)
    _end_rebalance(draft)


def _decide(draft: Draft) -> None:
    """What is to change."""
    follow_queues(draft)
    handoff.rest_released(draft)  # of a queue that grew again
    follow_subscriptions(draft)
    follow_capacities(draft)
    fill_seats(draft)
    place_opened(draft)
    leave_to_the_active(draft)
    rest_static(draft)
    watch(draft)
    withdraw_overtaken(draft)
    if due(draft):
        with unplanned_if_it_fails(draft):
            carry_out_plan(draft)
    carry_out_approved(draft)
    begin_waiting(draft)


def _go_on(draft: Draft) -> None:
    """There is no room for a plan: who comes takes a vacant seat, and the plan in force goes on."""
    take_seats(draft)
    rest_static(draft)
    withdraw_overtaken(draft)
    begin_waiting(draft)


def rest_static(draft: Draft) -> None:
    """A static member that is asked to stop releases at once: its seat waits for it, not for a receiver (rule 7)."""
    for seat in draft.seats:
        if seat.expires is not None and seat.left and draft.present(seat.member, seat.uid):
            for partition in sorted(seat.left):
                if draft.slots[partition].owner == seat.member and draft.settled(partition):
                    draft.aim(partition, None, f"{seat.member} is stopping and keeps its seat")
                    draft.new_generation()


def _end_rebalance(draft: Draft) -> None:
    """When nothing is on its way any more. What is decided from then on, be it in the same step, is the next one."""
    moving = any(not move.quiet for move in draft.moves.values())
    if draft.origins is not None and not moving and not draft.waiting:
        draft.totals = draft.totals._replace(lower_bound=draft.totals.lower_bound + least_moves(draft))
        draft.origins, draft.full, draft.eager = None, False, False


def _close(draft: Draft) -> Step:
    before = draft.before
    forget_withdrawn(draft)
    _end_rebalance(draft)
    _tell(draft)
    spec = draft.spec
    state = GroupState(
        group=before.group,
        generation=draft.generation,
        queues=draft.queues,
        slots=draft.slots,
        tombs=draft.tombs,
        ended=draft.ended,
        known=draft.known,
        seats=tuple(draft.seats),
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
        members=len(draft.eligible),
        standbys=sum(member in draft.eligible and not known.active for member, known in draft.known.items()),
        problem=draft.problem,
        balanced=balanced(draft),
        settled=settled(draft),
        hold_until=min(_hold_ends(draft), default=None),
        unowned=_unowned(draft),
    )
    if (state_of(state), until_of(state)) != (state_of(before), until_of(before)):
        draft.happenings.append(StateChanged(state_of(state), until_of(state), why_of(state), view.unowned))
    return Step(replace(state, view=view), effects, tuple(draft.happenings), wake_at)


def _tell(draft: Draft) -> None:
    """Bring the members' keys up to date, and tell who stands by."""
    incoming = {move.receiver for move in draft.moves.values()} | set(draft.waiting.values())
    seats = {seat.member for seat in draft.seats}
    for member in sorted(draft.known):
        known = draft.known[member]
        has = bool(draft.owned[member]) or member in incoming
        if not has and member not in draft.eligible and member not in seats:
            del draft.known[member]
            continue
        if not has and member in draft.eligible and member not in seats and member not in draft.standbys:
            del draft.known[member]  # it is a newcomer now, and has no part in the assignment yet
            continue
        was = draft.before.known.get(member)
        if member in draft.touched or has != known.active:
            draft.known[member] = replace(known, active=has, generation=draft.generation)
        if not has and member in draft.eligible and (was is None or was.active or was.uid != known.uid):
            draft.happenings.append(StandsBy(member))
            if member not in draft.standbys:
                draft.standbys.append(member)
        elif has and member in draft.standbys:
            draft.standbys.remove(member)


def _unowned(draft: Draft) -> int:
    """Partitions of the queues as they are observed, and those that are being withdrawn."""
    owned = sum(map(len, draft.owned.values()))
    return len(draft.slots) - owned + sum(unopened(draft.queues, draft.observation).values())


def _wake_at(draft: Draft) -> float | None:
    times = [m.deadline for m in draft.moves.values() if handoff.waits_for_giver(m) and not m.missed]
    return min([*times, *_hold_ends(draft)], default=None)


def _hold_ends(draft: Draft) -> list[float]:
    """When the holddown ends, and the terms of static members; not where nothing follows from it."""
    if draft.spec.paused or draft.observation.held_back:
        return []
    ends = [seat.expires for seat in draft.seats if seat.expires is not None]
    if draft.holddown is not None and draft.problem is None:
        ends.append(draft.holddown.until)
    return ends
