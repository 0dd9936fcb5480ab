"""The rules of a step, in the order in which they are applied: the one place that says what changes a group, and why then.

The model is cert-manager's `policies.Chain`: an ordered list of named functions. `of` names the rules of docs/concepts/rules.md,
which shows this list as a table; the mutations in tests/mutation break the same rules.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from baton.engine import handoff, member_slots
from baton.engine.approval import withdraw_overtaken
from baton.engine.departures import notice_departures, release_stopping_static
from baton.engine.draft import Draft
from baton.engine.holddown import update_holddown
from baton.engine.lower_bound import end_rebalance
from baton.engine.member_keys import update_member_keys
from baton.engine.membership import count_members
from baton.engine.observation import HeldBack, Observation
from baton.engine.partitions import drop_missing_queues, follow_queues, follow_servers, forget_withdrawn, place_opened
from baton.engine.plan import begin_waiting, carry_out_approved, plan_when_due
from baton.engine.redirect import redirect_lost_moves
from baton.engine.triggers import follow_capacities, follow_facts, follow_subscriptions


class Mode(StrEnum):
    """How much may be decided in a step."""

    DECIDES = "decides"
    PLANS_WAIT = "plans wait"
    """A ledger with another plan would be too large: vacant slots are taken, and the plan in force goes on."""
    PAUSED = "paused"
    """Somebody paused the group: what is in flight is finished."""
    FULL = "full"
    """The ledger takes nothing else: what is in flight is finished, with the records that it has."""


def mode_of(observation: Observation) -> Mode:
    """How much of the list applies now."""
    if observation.held_back is HeldBack.ALL:
        return Mode.FULL
    if observation.spec.paused:
        return Mode.PAUSED
    return Mode.PLANS_WAIT if observation.held_back is HeldBack.PLANS else Mode.DECIDES


@dataclass(frozen=True, slots=True)
class Rule:
    """One change of the draft."""

    apply: Callable[[Draft], None]
    of: tuple[str, ...]
    """The rules of docs/concepts/rules.md that it keeps."""
    modes: frozenset[Mode]
    why: str
    """What it does, and why here."""

    @property
    def name(self) -> str:
        return self.apply.__name__


_ALWAYS = frozenset(Mode)
_NOT_FULL = frozenset(Mode) - {Mode.FULL}
_GOES_ON = frozenset({Mode.DECIDES, Mode.PLANS_WAIT})
_DECIDES = frozenset({Mode.DECIDES})

# fmt: off
RULES = (
    # What is seen: what happened, and what follows from it also while the group is paused
    Rule(handoff.clamp_deadlines, ("Ledger 4",), _ALWAYS,
         "No time of the ledger is further away than its length. First, for all that follows reads times."),
    Rule(drop_missing_queues, ("Ledger 1",), _ALWAYS,
         "A queue that is gone takes its partitions along. Before anything looks them up."),
    Rule(count_members, ("6", "7"), _ALWAYS,
         "Says who is a member. Before whatever asks for one."),
    Rule(handoff.take_outcomes, ("Ledger 2", "3"), _ALWAYS,
         "Grants that a queue took or refused. Before departures, for who was granted a partition may be the one who left."),
    Rule(notice_departures, ("1", "5", "7"), _ALWAYS,
         "Who left has released what a queue can fence, and its slots are vacant."),
    Rule(follow_facts, ("Triggers", "9"), _ALWAYS,
         "What differs from the recorded facts starts a holddown."),
    Rule(redirect_lost_moves, ("5",), _ALWAYS,
         "A move whose receiver left gets another. After departures, and before releases free it for nobody."),
    Rule(follow_servers, ("Ledger 2",), _NOT_FULL,
         "After another run of a server, owners are granted again."),
    Rule(handoff.take_releases, ("3",), _ALWAYS,
         "What its giver let go of, or its deadline took. Before decisions, which look at who owns what."),
    Rule(handoff.free_released, ("5",), _ALWAYS,
         "What was released for nobody has no owner."),
    Rule(end_rebalance, ("Lower bound",), _ALWAYS,
         "A rebalance whose last move ended is counted. What is decided below is the next one."),
    # What is to change
    Rule(follow_queues, ("Triggers", "1", "8"), _DECIDES,
         "New queues, other partition counts and access types."),
    Rule(handoff.free_released, ("5",), _DECIDES,
         "Again: a queue that grew keeps partitions whose withdrawal was released."),
    Rule(follow_subscriptions, ("Triggers",), _DECIDES,
         "Who reads more queues than before starts a holddown."),
    Rule(follow_capacities, ("Triggers",), _DECIDES,
         "Who can carry another load than before starts a holddown."),
    Rule(member_slots.return_members, ("1", "6"), _GOES_ON,
         "Who returns takes its own slot, before anybody else can."),
    Rule(member_slots.expire_reserved_slots, ("6",), _DECIDES,
         "The slot of a static member that did not return in time is for anybody."),
    Rule(member_slots.give_to_active_member, ("8",), _GOES_ON,
         "What is vacant of an exclusive queue goes to who is active there, and not with a slot."),
    Rule(member_slots.fill_with_standbys, ("1",), _GOES_ON,
         "Who has stood by longest takes a vacant slot, before newcomers."),
    Rule(member_slots.promote_standbys, ("1",), _DECIDES,
         "Standbys for whom there are partitions by now count as newcomers."),
    Rule(member_slots.fill_with_newcomers, ("1",), _GOES_ON,
         "Newcomers take vacant slots while they are no more than these."),
    Rule(place_opened, ("1",), _DECIDES,
         "New partitions go to who has receivers_with_fewest, those who took a slot just now included."),
    Rule(member_slots.give_to_active_member, ("8",), _DECIDES,
         "Again: a new partition may have made somebody active, and the same observation twice changes nothing."),
    Rule(release_stopping_static, ("7",), _GOES_ON,
         "A static member that is stopping lets go at once."),
    Rule(update_holddown, ("Triggers", "1", "2", "8"), _DECIDES,
         "Starts the holddown if there is a reason by now, and ends it if there is none any more."),
    Rule(withdraw_overtaken, ("Approval",), _ALWAYS,
         "A proposal that does not fit any more is withdrawn. Before a plan or an approval, which may be due now."),
    Rule(plan_when_due, ("1", "2", "4", "8"), _DECIDES,
         "The plan at the end of the holddown."),
    Rule(carry_out_approved, ("Approval",), _DECIDES,
         "A proposal that somebody approved begins."),
    Rule(begin_waiting, ("9",), _GOES_ON,
         "As many planned hand-offs begin as maxConcurrentHandoffs allows. After all that plans them."),
    # What was decided may be done at once
    Rule(handoff.take_releases, ("3",), _ALWAYS,
         "Again: a hand-off that does not wait has its deadline now."),
    Rule(handoff.free_released, ("5",), _ALWAYS,
         "Again: what was just released for nobody has no owner."),
    Rule(forget_withdrawn, ("Ledger 1",), _ALWAYS,
         "Epochs of withdrawn partitions are kept as far as a ledger has room."),
    Rule(end_rebalance, ("Lower bound",), _ALWAYS,
         "Again: a rebalance may end in the step in which it began."),
    Rule(update_member_keys, ("2",), _ALWAYS,
         "Keys of members whose assignment changed, and who stands by. Last, for it tells of all above."),
)


def apply_rules(draft: Draft) -> None:
    """All rules of the draft's mode, in order."""
    mode = mode_of(draft.observation)
    for rule in RULES:
        if mode in rule.modes:
            rule.apply(draft)
