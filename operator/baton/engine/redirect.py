"""Hand-offs whose receiver vanished: each is redirected to another member (rule 5)."""

from baton.engine.draft import Draft
from baton.engine.observation import HeldBack
from baton.engine.placement import receivers_by_assignor, receivers_with_fewer_moves
from baton.model.ids import Partition


def redirect_lost_moves(draft: Draft) -> None:
    """Redirect each hand-off to its giver, if that is a member, which costs no move; else to the assignor's choice."""
    lost = [partition for partition, move in sorted(draft.moves.items()) if _lost(draft, partition)]
    without_receiver: list[Partition] = []
    for partition in lost:
        move = draft.moves[partition]
        draft.unsettled = True
        if move.quiet:
            draft.leave_unowned(partition)
        elif move.giver is not None and draft.may_own(move.giver, partition.queue):
            draft.hand_off(partition, move.giver, f"{move.receiver} is gone")
            draft.new_generation()
        else:
            without_receiver.append(partition)
    chosen = receivers_by_assignor(draft, without_receiver) if without_receiver and not _waits(draft) else {}
    if draft.full and len(chosen) == len(without_receiver) > 0:
        chosen = receivers_with_fewer_moves(draft, chosen)
    gone = " and ".join(sorted({str(draft.moves[partition].receiver) for partition in without_receiver}))
    for partition, receiver in sorted(chosen.items()):
        draft.hand_off(partition, receiver, f"{gone} is gone")
        draft.new_generation()
    for partition in without_receiver:
        move = draft.moves[partition]
        if partition in chosen:
            continue
        if move.giver is None:
            draft.leave_unowned(partition)
        else:
            draft.hand_off(partition, None, f"{move.receiver} is gone")
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
