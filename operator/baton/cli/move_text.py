"""Moves in words: those under way, and those that wait for approval. Pure."""

from collections.abc import Iterator

from baton.api import Handoff, ProposalStatus, ProposedMove
from baton.model.times import read_seconds
from baton.model.wording import counted


def handoff(move: Handoff, now: float) -> str:
    """`partition 5 of orders goes from exec-3 to exec-7: exec-7 joined; waits for 2 unacknowledged messages, 3 s left`"""
    why = f": {move.reason}" if move.reason else ""
    waits = []
    if move.unacknowledged is not None:
        waits.append(f"waits for {counted(move.unacknowledged, 'unacknowledged message')}")
    if (deadline := read_seconds(move.deadline, None)) is not None:
        waits.append(f"{deadline - now:.0f} s left" if deadline > now else "overdue")
    way = f"from {move.giver or 'nobody'} to {move.receiver or 'nobody'}"
    return f"partition {move.partition} of {move.queue} goes {way}{why}" + (f"; {', '.join(waits)}" if waits else "")


def proposed(move: ProposedMove) -> str:
    """`orders 0-3: exec-3 -> exec-7`"""
    return f"{move.queue} {move.partitions}: {move.giver} -> {move.receiver}"


def pause(proposal: ProposalStatus) -> str:
    """How long one of its partitions is paused."""
    longest = proposal.longest_pause_seconds
    return "until its consumer lets go" if longest is None else f"for {longest} s at most"


def proposal_in_lines(proposal: ProposalStatus) -> Iterator[str]:
    """All that the status says of it."""
    what = counted(proposal.moves, "partition")
    yield f"Proposal {proposal.id} of {proposal.created_at}: {what} would move ({proposal.reason})"
    yield from (f"  {proposed(move)}" for move in proposal.handoffs)
    yield from (f"  {one.member}: {one.before} -> {counted(one.after, 'partition')}" for one in proposal.members)
    if sum(max(0, one.after - one.before) for one in proposal.members) < proposal.moves:
        yield "  and more: the ledger has all of it"
    paused = f"{counted(proposal.paused, 'partition')} would be paused, {proposal.paused_at_once} at once at most"
    yield f"{paused}, each {pause(proposal)}. The others go on."
