"""A group in words: its problems with their cures, and its moves. Pure."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from baton.api import ConditionStatus, Handoff, ProposalStatus, ProposedMove
from baton.cli.group import UNKNOWN, GroupLook, Leader, QueueLook
from baton.cli.printing import printable
from baton.controller.problems import Reason
from baton.model.names import OPERATOR_SELECTOR
from baton.model.times import read_seconds, to_text
from baton.model.wording import counted, first_of

MOST_QUEUES = 5
"""The most queues, pods or causes to list one by one."""


class Severity(StrEnum):
    """The severity of a problem."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class GroupProblem(NamedTuple):
    """A problem as a sentence: its subject, the rest, and the severity."""

    what: str
    rest: str
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        return printable(self.what + self.rest)


def problems_of(look: GroupLook) -> Iterator[GroupProblem]:
    """All problems of the group."""
    group, status = look.group, look.status
    if group.deleted_at:
        yield GroupProblem("Deleted", f" at {group.deleted_at}; gone once its partitions are released", Severity.WARNING)
    if look.shown_state == UNKNOWN:
        renewed = None if look.leader is None else look.leader.renewed
        as_of = f"everything shown is as of then ({status.state})"
        since = "" if renewed is None else f" since {to_text(renewed)} ({ago(renewed, look.now)} ago)"
        since = " yet" if look.changed_at is None else f"{since}: {as_of}"
        yield GroupProblem("No operator has looked", f"{since}. Until one does, nothing moves.")
        cure = f"See kubectl get pods -A -l {OPERATOR_SELECTOR}"
        asked = f"{_leader(look.leader, look.now)}Is an operator running, and does it serve namespace {group.namespace}? {cure}"
        yield GroupProblem("", asked, Severity.NOTE)
    elif not look.spec_seen:
        yield GroupProblem(
            "Out of date", ": no operator has seen the last change; is one running, and does it serve this namespace?"
        )
    if look.ledger_problem:
        yield GroupProblem("The ledger is invalid", f": {look.ledger_problem}")
    for mistake in look.unread:
        yield GroupProblem("Cannot be read", f" (is this command of the operator's release? see `baton doctor`): {mistake}")
    for one in status.conditions:
        if one.status is not ConditionStatus.TRUE and _says_more(one.type, one.reason):
            severity = Severity.ERROR if one.type == "Ready" else Severity.WARNING
            yield GroupProblem(f"{one.type} is {one.status}: {one.reason}", f": {one.message}", severity)
    if names := look.drained:
        undo = f"baton drain {group.name} {names[0]} -n {group.namespace} --undo"
        yield GroupProblem("Drained", f": {first_of(names, MOST_QUEUES)}, until `{undo}`", Severity.WARNING)
    yield from _not_ready(look)
    for name, queue in look.queues.items():
        if letters := queue.status.dead_letters:
            what = f"{counted(letters, 'dead letter')} of {name}"
            yield GroupProblem(what, f": `baton dead-letters list {name} -n {group.namespace}`", Severity.WARNING)
    ready, rebalancing = look.condition("Ready"), look.condition("Rebalancing")
    yield from _queue_problems(look.queues, ready.message if ready else "")
    if rebalancing and rebalancing.reason == Reason.DEADLINE_MISSED:
        yield GroupProblem("Overdue", f": {rebalancing.message}", Severity.WARNING)


def _not_ready(look: GroupLook) -> Iterator[GroupProblem]:
    """Pods that are not Ready for a reason that no condition gives."""
    told = [one.message for one in look.status.conditions if one.status is not ConditionStatus.TRUE]
    left: dict[str, list[str]] = {}
    for name, why in look.not_ready.items():
        if not any(why in message for message in told):
            left.setdefault(why, []).append(name)
    for why, names in list(left.items())[:MOST_QUEUES]:
        what = "is not Ready" if len(names) == 1 else "are not Ready"
        yield GroupProblem(f"{first_of(names, MOST_QUEUES)} {what}", f": {why}", Severity.WARNING)


def _queue_problems(queues: Mapping[str, QueueLook], told: str) -> Iterator[GroupProblem]:
    """Problems of queues that are not in `told`, the message of the group's condition Ready. Queues with the same problem, such
    as those of one server, are listed together."""
    alike: dict[tuple[str, str, str, str], list[str]] = {}
    for name, queue in queues.items():
        for one in queue.status.conditions:
            if one.status is not ConditionStatus.TRUE and one.message not in told:
                alike.setdefault((one.type, one.status, one.reason, one.message), []).append(name)
    shown = list(alike.items())[: MOST_QUEUES if len(alike) > MOST_QUEUES + 1 else None]
    for (kind, status, reason, message), names in shown:
        what = f"{kind} of {first_of(names, MOST_QUEUES)} is {status}: {reason}"
        yield GroupProblem(what, f": {message}", Severity.WARNING)
    if rest := len(alike) - len(shown):
        yield GroupProblem("", f"and {counted(rest, 'more condition')} of queues (kubectl describe pq)", Severity.NOTE)


def _leader(one: Leader | None, now: float) -> str:
    """A sentence about the leader of the operator that looked last, or nothing."""
    if one is None:
        return ""
    namespace, _, name = one.lease.partition("/")
    if not one.readable:
        return f"See the Lease of its leader: kubectl get lease -n {namespace} {name}. "
    if one.renewed is None:
        how = "no longer exists"
    elif one.holder is None:
        how = f"was released, and last renewed {ago(one.renewed, now)} ago"
    else:
        how = f"was last renewed {ago(one.renewed, now)} ago, by {one.holder}"
    return f"The Lease of its leader, {name} in namespace {namespace}, {how}. "


def _says_more(kind: str, reason: str) -> bool:
    """Whether a condition adds something to the state and the counts below it."""
    if kind == "Settled":
        return reason == "Scaling"
    return kind not in ("Rebalancing", "ProposalReady") and reason != "ScaledToZero"


def ago(then: float, now: float) -> str:
    """The time since `then`: `12 s`, `7 min`, `3 h`, `5 d`"""
    seconds = max(0.0, now - then)
    for unit, length, most in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800)):
        if seconds < most:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def handoff(move: Handoff, now: float) -> str:
    """`partition 5 of orders goes from exec-3 to exec-7: exec-7 joined; waits for 2 unacknowledged messages, 3 s left`"""
    why = f": {move.reason}" if move.reason else ""
    waits = []
    if move.unacknowledged:
        waits.append(f"waits for {counted(move.unacknowledged, 'unacknowledged message')}")
    elif move.unacknowledged is None and move.giver:
        waits.append(f"waits for {move.giver} to release it")
    if (deadline := read_seconds(move.deadline, None)) is not None:
        waits.append(f"{deadline - now:.0f} s left" if deadline > now else "overdue")
    way = f"from {move.giver or 'no owner'} to {move.receiver or 'no owner'}"
    return f"partition {move.partition} of {move.queue} goes {way}{why}" + (f"; {', '.join(waits)}" if waits else "")


def proposed(move: ProposedMove) -> str:
    """`orders 0-3: exec-3 -> exec-7`"""
    return f"{move.queue} {move.partitions}: {move.giver} -> {move.receiver}"


def pause(proposal: ProposalStatus) -> str:
    """How long each partition of the proposal is paused."""
    longest = proposal.longest_pause_seconds
    return "until its consumer releases it" if longest is None else f"for at most {longest} s"


def proposal_in_lines(proposal: ProposalStatus) -> Iterator[str]:
    """The proposal as the status has it."""
    what = counted(proposal.moves, "partition")
    yield f"Proposal {proposal.id} from {proposal.created_at}: {what} would move ({proposal.reason})"
    yield from (f"  {proposed(move)}" for move in proposal.handoffs)
    yield from (f"  {one.member}: {one.before} -> {counted(one.after, 'partition')}" for one in proposal.members)
    if sum(max(0, one.after - one.before) for one in proposal.members) < proposal.moves:
        yield "  and more: the ledger has all of them"
    paused = f"{counted(proposal.paused, 'partition')} would be paused, at most {proposal.paused_at_once} at once"
    yield f"{paused}, each {pause(proposal)}. The others continue."
