"""The rules of a step, in the order in which a step applies them. No other code changes a group.

The model is cert-manager's `policies.Chain`: an ordered list of named functions. `of` names the rules of docs/concepts/rules.md.
The mutations in tests/mutation break the same rules.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from baton.engine import balance, handoff, holddown, member_slots, membership, partitions, plan
from baton.engine.draft import Draft
from baton.engine.ledger import MOST_WITHDRAWN
from baton.engine.observation import HeldBack, Observation


class Mode(StrEnum):
    """The decisions that a step may make."""

    DECIDES = "decides"
    PLANS_WAIT = "plans wait"
    """The ledger has no room for another plan: vacant slots are taken, and the current plan goes on."""
    PAUSED = "paused"
    """spec.paused: only hand-offs in flight go on."""
    FULL = "full"
    """The ledger has no room at all: only hand-offs in flight go on."""


def mode_of(observation: Observation) -> Mode:
    """The mode of a step with this observation."""
    if observation.held_back is HeldBack.ALL:
        return Mode.FULL
    if observation.spec.paused:
        return Mode.PAUSED
    return Mode.PLANS_WAIT if observation.held_back is HeldBack.PLANS else Mode.DECIDES


@dataclass(frozen=True, slots=True)
class Rule:
    """One named change of the draft."""

    apply: Callable[[Draft], None]
    of: tuple[str, ...]
    """The rules of docs/concepts/rules.md that it implements."""
    modes: frozenset[Mode]
    why: str
    """What the rule does, and why it stands at this place."""

    @property
    def name(self) -> str:
        return self.apply.__name__


_ALWAYS = frozenset(Mode)
_NOT_FULL = frozenset(Mode) - {Mode.FULL}
_GOES_ON = frozenset({Mode.DECIDES, Mode.PLANS_WAIT})
_DECIDES = frozenset({Mode.DECIDES})

# fmt: off
RULES = (
    # Facts, and what follows from them even while the group is paused
    Rule(handoff.clamp_deadlines, ("Ledger 4",), _ALWAYS,
         "Bounds each time of the ledger by its duration. First, because later rules read times."),
    Rule(partitions.drop_missing_queues, ("Ledger 1",), _ALWAYS,
         "Removes the partitions of a queue that is gone. Before any rule looks them up."),
    Rule(membership.count_members, ("6", "7"), _ALWAYS,
         "Decides which pods are members. Before any rule asks for one."),
    Rule(membership.follow_identities, ("6",), _NOT_FULL,
         "Records new identities. Before departures, which reserve slots by them."),
    Rule(handoff.take_outcomes, ("Ledger 2", "3"), _ALWAYS,
         "Takes in accepted and refused grants. Before departures, because the new owner may have left."),
    Rule(membership.notice_departures, ("1", "5", "7"), _ALWAYS,
         "Makes the slots of members that left vacant."),
    Rule(holddown.follow_facts, ("Triggers", "9"), _ALWAYS,
         "Starts a holddown for facts that differ from the recorded ones."),
    Rule(handoff.redirect_lost_moves, ("5",), _ALWAYS,
         "Redirects hand-offs whose receiver left. Before a release leaves them without an owner."),
    Rule(partitions.follow_servers, ("Ledger 2",), _NOT_FULL,
         "Grants all owners again after another run of a queue's server."),
    Rule(partitions.grant_released_again, ("Ledger 2",), _NOT_FULL,
         "Grants partitions again that were released because of an overwritten ledger. Before their next hand-off."),
    Rule(handoff.take_releases, ("3",), _ALWAYS,
         "Takes in releases and passed deadlines. Before decisions, which depend on owners."),
    Rule(handoff.free_released, ("5",), _ALWAYS,
         "Removes the owner of partitions released without a receiver."),
    Rule(balance.end_rebalance, ("Lower bound",), _ALWAYS,
         "Counts a rebalance whose last move ended. Decisions below begin the next one."),
    # Decisions
    Rule(partitions.follow_queues, ("Triggers", "1", "8"), _DECIDES,
         "Takes in new queues, and other partition counts and access types."),
    Rule(handoff.free_released, ("5",), _DECIDES,
         "Again: a queue that grew keeps partitions whose withdrawal was released."),
    Rule(holddown.follow_subscriptions, ("Triggers",), _DECIDES,
         "Starts a holddown for a member that reads more queues than before."),
    Rule(holddown.follow_capacities, ("Triggers",), _DECIDES,
         "Starts a holddown for a member with another capacity than before."),
    Rule(member_slots.return_members, ("1", "6"), _GOES_ON,
         "A pod that returns takes its own slot, before others can."),
    Rule(member_slots.expire_reserved_slots, ("6",), _DECIDES,
         "Opens a reserved slot to others when the session timeout is over."),
    Rule(member_slots.give_to_active_member, ("8",), _GOES_ON,
         "Vacant partitions of an exclusive queue go to its active member."),
    Rule(member_slots.fill_with_standbys, ("1",), _GOES_ON,
         "The standby that has waited longest takes a vacant slot, before newcomers."),
    Rule(member_slots.promote_standbys, ("1",), _DECIDES,
         "Standbys that can now own a partition become newcomers."),
    Rule(member_slots.fill_with_newcomers, ("1",), _GOES_ON,
         "Newcomers take vacant slots, if there are no more newcomers than slots."),
    Rule(partitions.place_opened, ("1",), _DECIDES,
         "New partitions go to the members with the fewest. After slots are taken, because their new holders count."),
    Rule(member_slots.give_to_active_member, ("8",), _DECIDES,
         "Again: a new partition may have made a member active."),
    Rule(membership.release_stopping_static, ("7",), _GOES_ON,
         "A static member that is stopping releases its partitions at once."),
    Rule(holddown.update_holddown, ("Triggers", "1", "2", "8"), _DECIDES,
         "Starts the holddown for a reason, and ends it without one."),
    Rule(plan.withdraw_overtaken, ("Approval",), _ALWAYS,
         "Withdraws a proposal that no longer fits. Before a plan or an approval, which may be due now."),
    Rule(plan.plan_when_due, ("1", "2", "4", "8"), _DECIDES,
         "Makes the plan at the end of the holddown."),
    Rule(plan.carry_out_approved, ("Approval",), _DECIDES,
         "Begins a proposal that was approved."),
    Rule(plan.begin_waiting, ("9",), _GOES_ON,
         "Begins as many planned hand-offs as spec.rebalance allows. After all rules that plan them."),
    Rule(membership.release_ending, ("7",), _NOT_FULL,
         "A stopping pod releases before its grace period ends. After the plan, which may have found receivers."),
    # Decisions that take effect at once
    Rule(handoff.take_releases, ("3",), _ALWAYS,
         "Again: a hand-off with maxHandoffSeconds 0 has its deadline now."),
    Rule(handoff.free_released, ("5",), _ALWAYS,
         "Again: some partitions were released just now."),
    Rule(partitions.forget_withdrawn, ("Ledger 1",), _ALWAYS,
         "Bounds the epoch tombstones of withdrawn partitions. "
         f"Of more than {MOST_WITHDRAWN:,} those of the queues with the most become one for each of these queues."),
    Rule(partitions.forget_released, ("Ledger 1", "5"), _ALWAYS,
         "Forgets the last owners of gone partitions, once they cannot work on them. "
         f"Of more than {MOST_WITHDRAWN:,} such partitions it forgets those of the queues with the most, too."),
    Rule(balance.end_rebalance, ("Lower bound",), _ALWAYS,
         "Again: a rebalance may end in the step in which it began."),
    Rule(membership.update_member_keys, ("2",), _ALWAYS,
         "Updates the members' keys and the standbys. Last, because it follows from all above."),
)


def apply_rules(draft: Draft) -> None:
    """Apply all rules of the draft's mode, in order."""
    mode = mode_of(draft.observation)
    for rule in RULES:
        if mode in rule.modes:
            rule.apply(draft)
