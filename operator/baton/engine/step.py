"""One step of the state machine: a state and an observation in, the next state and its effects out.

`fitting_step` returns a step whose ledger fits into a ConfigMap: one that does everything that is due, or begins a part of the
plan, or only continues the hand-offs that have begun (rule 9).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from baton.api.group import GroupNumbers, Protocol
from baton.engine import handoff
from baton.engine.draft import Draft
from baton.engine.holddown import balanced, settled
from baton.engine.ledger import dump
from baton.engine.membership import release_times
from baton.engine.observation import HeldBack, Observation, Outcome
from baton.engine.results import DeadlineMissed, Effect, Grant, ReleaseCause, StateChanged, StepEvent
from baton.engine.rules import Mode, apply_rules, mode_of
from baton.engine.state import GroupState, PartitionRecord, View, moment
from baton.engine.state_machine import state_of, unopened, until_of, why_of
from baton.queues.protocol import Ownership


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
    """Return the next state of a group. `now` is in seconds, on the clock of the observation. Pure.

    Level-triggered: each step returns every effect that no observation has shown as done.
    """
    now, view = moment(now), state.view
    if view is not None and (view.wake_at is None or now < view.wake_at) and observation == view.observation:
        return Step(state, view.effects, (), view.wake_at)
    draft = Draft(state, observation, now)
    apply_rules(draft)
    effects = handoff.effects(draft)
    wake_at = _wake_at(draft)
    view = View(
        observation,
        effects,
        wake_at,
        problem=draft.problem,
        balanced=balanced(draft),
        settled=settled(draft),
        hold_until=min(_hold_ends(draft), default=None),
        numbers=_numbers(draft),
    )
    if (state_of(draft), until_of(draft)) != (state_of(state), until_of(state)):
        draft.events.append(StateChanged(state_of(draft), until_of(draft), why_of(draft), view.numbers.unowned))
    return Step(draft.finished(view), effects, tuple(draft.events), wake_at)


def _numbers(draft: Draft) -> GroupNumbers:
    """Return the counts of the group. New partitions that the group has not added yet count as unowned."""
    owned = sum(map(len, draft.owned.values()))
    return GroupNumbers(
        members=len(draft.eligible),
        standbys=sum(member in draft.eligible and not known.active for member, known in draft.known.items()),
        partitions=sum(queue.partitions for queue in draft.observation.queues.values()),
        unowned=len(draft.records) - owned + sum(unopened(draft.queues, draft.observation).values()),
        moving=draft.moving,
        **draft.totals._asdict(),
    )


def _wake_at(draft: Draft) -> float | None:
    times = [m.deadline for m in draft.moves.values() if handoff.waits_for_giver(m) and not m.missed]
    if mode_of(draft.observation) is not Mode.FULL:
        times += release_times(draft).values()
    return min([*times, *_hold_ends(draft)], default=None)


def _hold_ends(draft: Draft) -> list[float]:
    """Return the ends of the holddown and of reserved slots; none while the group cannot act on them."""
    if draft.spec.paused or draft.observation.held_back:
        return []
    ends = [slot.expires for slot in draft.member_slots if slot.expires is not None]
    if draft.holddown is not None and draft.problem is None:
        ends.append(draft.holddown.until)
    return ends


# A step whose ledger fits into a ConfigMap


SIZE_LIMIT = 900 * 1024
"""Most bytes of keys and values after a plan. A ConfigMap may have 1 MiB."""

IN_FLIGHT = 9
"""The ledger may exceed the limit by a ninth, so that hand-offs that have begun can end."""

OF_A_PART = 2 * IN_FLIGHT
"""It may exceed the limit by half of that to begin a part of a plan. So a plan that fits once it is done can be carried out
in parts."""


class TooLarge(Exception):  # noqa: N818 -- says which limit
    """The ledger would not fit into a ConfigMap."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"the ledger would have {size:,} bytes, and has room for {limit:,}")


@dataclass(frozen=True, slots=True)
class Fitted:
    """A step whose ledger fits."""

    step: Step
    texts: Mapping[str, str] | None
    """The ledger's data; None if the state did not change. So a large group at rest is as cheap as its observation."""
    too_large: TooLarge | None = None
    """Why decisions wait; None if none wait."""


def fitting_step(state: GroupState, observation: Observation, now: float, limit: int = SIZE_LIMIT) -> Fitted:
    """Return the step that does the most with a ledger that fits. `limit`: most bytes of the ledger after a plan.

    Nothing has to be done at a queue that cannot fence, so the step also takes in its grants there, and one write of the ledger
    has both. A giver that missed its deadline is named by a ledger first.

    Raises TooLarge if no step fits.
    """
    first = _fitting_step(state, observation, now, limit)
    if not (granted := frozenset(_granted_by_ledger(first.step, observation))):
        return first
    try:
        more = _fitting_step(first.step.state, replace(observation, outcomes=granted), now, limit)
    except TooLarge:
        return first
    return Fitted(replace(more.step, events=(*first.step.events, *more.step.events)), more.texts or first.texts, more.too_large)


def _granted_by_ledger(made: Step, observation: Observation) -> Iterator[Outcome]:
    """Yield the outcomes of grants at queues that cannot fence."""
    missed = {one.partition for one in made.events if isinstance(one, DeadlineMissed)}
    for one in made.effects:
        if not isinstance(one, Grant) or one.partition in missed or observation.queues[one.partition.queue].fenced:
            continue
        if made.state.moves[one.partition].released is not ReleaseCause.DEADLINE:
            yield Outcome(one.partition, Ownership(one.uid, one.epoch))


def _fitting_step(state: GroupState, observation: Observation, now: float, limit: int) -> Fitted:
    too_large: TooLarge | None = None
    for held_back in HeldBack:
        made = step(state, replace(observation, held_back=held_back), now)
        if made.state is state:
            return Fitted(made, None, too_large)
        texts = dump(made.state)
        room = limit if held_back is HeldBack.NOTHING and _adds(state, made.state) else limit + limit // IN_FLIGHT
        if (bytes_ := size(texts)) <= room:
            return Fitted(made, texts, too_large)
        if too_large is None:
            too_large = TooLarge(bytes_, room)
            part = _part(state, observation, now, limit, Fitted(made, texts))
            if part is not None:
                return part
        del made, texts  # two states of a large group at a time would take too much memory
    assert too_large is not None
    raise too_large


def size(data: Mapping[str, str]) -> int:
    """Return the bytes of keys and values."""
    return sum(len(key.encode()) + len(value.encode()) for key, value in data.items())


def _part(state: GroupState, observation: Observation, now: float, limit: int, whole: Fitted) -> Fitted | None:
    """Return the step that begins as many hand-offs as fit. `whole`: the step that begins all.

    Returns None if no hand-off fits, or if the ledger would not fit even when all are done. An Eager plan is never carried out in
    parts, because it releases everything first.
    """
    part, room = _begun(state, whole.step.state), limit + limit // OF_A_PART
    if not part or observation.spec.protocol is Protocol.EAGER:
        return None
    rest = state.holddown is not None and state.holddown.rest  # a plan that has begun may end a little larger than planned
    if size(dump(_done(whole.step.state))) > (room if rest else limit):
        return None
    bytes_ = size(whole.texts or {})
    if bytes_ <= room:
        return whole
    without = size(dump(step(state, replace(observation, held_back=HeldBack.ALL), now).state))
    while without < min(room, bytes_) and part > 1:
        # Less than in proportion: the first hand-offs need more room, because they bring members with them.
        part = min(part - 1, max(1, part * 3 * (room - without) // (4 * (bytes_ - without))))
        made = step(state, replace(observation, part=part), now)
        if (bytes_ := size(texts := dump(made.state))) <= room:
            return Fitted(made, texts) if _begun(state, made.state) else None
    return None


def _adds(before: GroupState, after: GroupState) -> bool:
    """True if the step adds members, hand-offs or a proposal, and does not only continue hand-offs."""
    members = after.known.keys() - before.known.keys()
    return bool(members) or after.proposal != before.proposal or _begun(before, after) > 0


def _begun(before: GroupState, after: GroupState) -> int:
    """Return the number of hand-offs that began or were planned."""
    return len((after.moves.keys() | after.waiting.keys()) - before.moves.keys() - before.waiting.keys())


def _done(state: GroupState) -> GroupState:
    """Return the state after all hand-offs."""
    records = dict(state.records)
    records |= {p: PartitionRecord(move.epoch, move.receiver, move.receiver) for p, move in state.moves.items()}
    records |= {p: PartitionRecord(records[p].epoch, receiver, receiver) for p, receiver in state.waiting.items()}
    stay = {record.owner for record in records.values()} | {slot.member for slot in state.member_slots} | {*state.standbys}
    return replace(
        state,
        records=records,
        known={member: known for member, known in state.known.items() if member in stay},
        moves={},
        waiting={},
        proposal=None,
        holddown=None,
        rebalance=None,
    )
