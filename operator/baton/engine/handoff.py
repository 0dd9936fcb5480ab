"""The hand-off of each partition: pause, wait for the release, fence, grant (rule 3).

A hand-off whose receiver vanished is redirected to another member (rule 5).
"""

from dataclasses import replace

from baton.engine.draft import Draft
from baton.engine.observation import HeldBack
from baton.engine.placement import receivers_by_assignor, receivers_with_fewer_moves
from baton.engine.results import Effect, Grant, Pause, ReleaseCause, Released
from baton.engine.state import Move
from baton.model.ids import Partition
from baton.model.session import Release
from baton.queues.protocol import Ownership


def take_outcomes(draft: Draft) -> None:
    """Take in the outcomes of grants. A refused grant is repeated with an epoch above the one that the queue has recorded."""
    for partition, record in sorted(draft.observation.outcomes, key=lambda outcome: (outcome.partition, outcome.record.epoch)):
        move = draft.moves.get(partition)
        due = move is not None and (move.receiver is not None or draft.withdrawn(partition))
        if move is None or not due or (record.epoch < move.epoch and not move.quiet):
            _take_overtaken(draft, partition, record)
        elif (record.uid, record.epoch) == (move.uid, move.epoch):
            drained = (partition, draft.records[partition].epoch) in draft.observation.drained
            if drained and move.giver is not None and waits_for_giver(move):  # the grant was made at once (`Pause.then`)
                draft.events.append(Released(partition, move.giver, ReleaseCause.CONSUMER))
            draft.record_grant(partition, record)
        elif record.epoch >= move.epoch:
            # The queue has a higher epoch. The next grant goes above it, after the ledger has it.
            draft.raise_epoch(partition, record.epoch)


def _take_overtaken(draft: Draft, partition: Partition, at_queue: Ownership) -> None:
    """Take in a grant that the queue accepted although the ledger has another receiver by now, or none.

    The receiver of that grant is the owner, and has to release the partition before another pod gets it. An outcome that an
    earlier step took in changes nothing.
    """
    record, move = draft.records.get(partition), draft.moves.get(partition)
    if record is None or not draft.queue(partition).fenced:
        return
    members = draft.observation.members.items()
    owner = next((name for name, seen in members if seen.uid == at_queue.uid and draft.present(name, seen.uid)), None)
    if owner is None:
        return
    if at_queue.epoch > record.granted_at and (record.owner is None or move is not None):
        draft.record_overtaken_grant(partition, owner, at_queue.epoch)


def take_releases(draft: Draft) -> None:
    """Take in releases: the consumer released, nothing is outstanding, or the deadline passed.

    A passed deadline counts only for the receiver that the move had then. If the move is redirected from its giver to another
    member, it waits for a release again (rule 3).
    """
    for partition, move in draft.moves.items():
        if move.released is ReleaseCause.DEADLINE and not draft.goes_on_at_deadline(partition, move):
            draft.moves[partition] = replace(move, released=None)
    for partition in sorted(p for p, move in draft.moves.items() if waits_for_giver(move)):
        move = draft.moves[partition]
        how = _released(draft, partition, move)
        if how is None:
            continue
        giver = move.giver
        assert giver is not None
        if how is ReleaseCause.DEADLINE:
            move = draft.record_missed_deadline(partition, move)
            if not draft.goes_on_at_deadline(partition, move):
                continue
        else:
            draft.events.append(Released(partition, giver, how))
        draft.moves[partition] = replace(move, released=how)


def free_released(draft: Draft) -> None:
    """Remove the owner of released partitions without a receiver, except withdrawn ones."""
    for partition, move in sorted(draft.moves.items()):
        if move.receiver is None and not waits_for_giver(move) and not draft.withdrawn(partition):
            draft.leave_unowned(partition)


def effects(draft: Draft) -> tuple[Effect, ...]:
    """Return all effects that are not done yet. Under Eager, grants wait until every giver has released."""
    if not draft.moves:
        return ()
    eager = draft.rebalance is not None and draft.rebalance.eager
    barrier = eager and any(waits_for_giver(move) for move in draft.moves.values())
    wanted: list[Effect] = []
    for partition, move in sorted(draft.moves.items()):
        record = draft.records[partition]
        grant = Grant(partition, move.receiver, move.uid, move.epoch, None if move.quiet else record.granted_at)
        if waits_for_giver(move):
            then = grant if move.receiver is not None and not barrier else None
            wanted.append(Pause(partition, record.epoch, move.deadline, then))
        elif not barrier or move.quiet:
            wanted.append(grant)
    return tuple(wanted)


def clamp_deadlines(draft: Draft) -> None:
    """Bound the time until each deadline of the ledger by its duration, because clocks differ (ledger 4)."""
    for partition, move in draft.moves.items():
        if move.giver is not None and move.deadline > draft.now + move.length + 1e-6:
            draft.moves[partition] = replace(move, deadline=draft.now + move.length)
    held = draft.holddown
    if held is not None and held.until > draft.now + held.length + 1e-6:
        draft.holddown = replace(held, until=draft.now + held.length)
    for n, slot in enumerate(draft.member_slots):
        if slot.expires is not None and slot.expires > draft.now + slot.length + 1e-6:
            draft.member_slots[n] = replace(slot, expires=draft.now + slot.length)


def waits_for_giver(move: Move) -> bool:
    """True if the giver has not released the partition yet."""
    return move.giver is not None and move.released is None and not move.quiet


def _released(draft: Draft, partition: Partition, move: Move) -> ReleaseCause | None:
    epoch = draft.records[partition].epoch
    assert move.giver is not None
    release = Release(draft.known[move.giver].uid, partition.queue, partition.number, epoch)
    if release in draft.observation.releases or (partition, epoch) in draft.observation.drained:
        return ReleaseCause.CONSUMER
    if draft.now >= move.deadline:
        return ReleaseCause.DEADLINE
    return None


# Hand-offs whose receiver vanished


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
    full = draft.rebalance is not None and draft.rebalance.full
    if full and len(chosen) == len(without_receiver) > 0:
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
    """True if lost hand-offs get no other receiver yet."""
    return draft.spec.paused or draft.observation.held_back is HeldBack.ALL


def _lost(draft: Draft, partition: Partition) -> bool:
    move = draft.moves[partition]
    if move.receiver is None or (move.quiet and move.giver is not None):
        return False
    if not draft.may_own(move.receiver, partition.queue):
        return True
    return draft.eligible[move.receiver].uid != move.uid
