"""Receivers that vanished: nothing waits for somebody who is not there (rule 5)."""

from baton.engine.draft import Draft
from baton.engine.observation import HeldBack
from baton.engine.placement import by_the_assignor, with_the_others
from baton.model.ids import Partition


def redirect_lost_moves(draft: Draft) -> None:
    """Back to the giver if it is still a member (that costs no move), else to whom the assignor chooses."""
    lost = [partition for partition, move in sorted(draft.moves.items()) if _lost(draft, partition)]
    homeless: list[Partition] = []
    for partition in lost:
        move = draft.moves[partition]
        draft.unsettled = True
        if move.quiet:
            draft.free(partition)
        elif move.giver is not None and draft.may_own(move.giver, partition.queue):
            draft.aim(partition, move.giver, f"{move.receiver} is gone")
            draft.new_generation()
        else:
            homeless.append(partition)
    chosen = by_the_assignor(draft, homeless) if homeless and not _waits(draft) else {}
    if draft.full and len(chosen) == len(homeless) > 0:
        chosen = with_the_others(draft, chosen)
    gone = " and ".join(sorted({str(draft.moves[partition].receiver) for partition in homeless}))
    for partition, receiver in sorted(chosen.items()):
        draft.aim(partition, receiver, f"{gone} is gone")
        draft.new_generation()
    for partition in homeless:
        move = draft.moves[partition]
        if partition in chosen:
            continue
        if move.giver is None:
            draft.free(partition)
        else:
            draft.aim(partition, None, f"{move.receiver} is gone")
    for partition, receiver in list(draft.waiting.items()):
        if not draft.may_own(receiver, partition.queue):
            del draft.waiting[partition]
            draft.unsettled = True


def _waits(draft: Draft) -> bool:
    return draft.spec.paused or draft.observation.held_back is HeldBack.ALL


def _lost(draft: Draft, partition: Partition) -> bool:
    move = draft.moves[partition]
    if move.receiver is None or (move.quiet and move.giver is not None):
        return False
    if not draft.may_own(move.receiver, partition.queue):
        return True
    return draft.eligible[move.receiver].uid != move.uid
