# ruff: noqa: E501 -- a line of source is quoted as it stands
"""The rules of the engine, each broken in one place: (rule, what is broken, module, what stands there, what is put there)."""

from typing import NamedTuple


class Mutation(NamedTuple):
    rule: str
    name: str
    module: str
    """Below operator/baton."""
    old: str
    """Stands there exactly once."""
    new: str


MUTATIONS = (
    # The ledger
    Mutation("ledger 1", "reuse an epoch", "engine/draft.py", "epoch = Epoch(max(slot.epoch, move.epoch if move else 0) + (not rests))",
             "epoch = Epoch(max(slot.epoch, move.epoch if move else 0) or (not rests))"),
    Mutation("ledger 1", "turn a hand-off at the epoch it has", "engine/draft.py",
             "move = replace(move, receiver=receiver, uid=uid, epoch=epoch, why=why)",
             "move = replace(move, receiver=receiver, uid=uid, why=why)"),
    Mutation("ledger 1", "write a revoking partition as owned", "engine/ledger.py", "(owned if move is None or move.quiet else revoking)",
             "(owned if move is None or move.quiet or True else revoking)"),
    Mutation("ledger 1", "forget the epoch of a deleted partition", "engine/draft.py", "self.tombs[partition] = Epoch(highest)", "pass"),
    Mutation("ledger 1", "bring a partition back below its old epoch", "engine/partitions.py",
             "Slot(draft.tombs.pop(partition, Epoch(0)))", "Slot(Epoch(0 * draft.tombs.pop(partition, Epoch(0))))"),
    Mutation("ledger 2", "take a refused grant for taken", "engine/handoff.py", "if record == (move.uid, move.epoch):", "if True:"),
    Mutation("ledger 2", "do not go above the record that refused", "engine/draft.py",
             "self.put(partition, replace(move, epoch=Epoch(max(move.epoch, above) + 1)))",
             "self.put(partition, replace(move, epoch=Epoch(move.epoch + 1)))"),
    Mutation("ledger 2", "rebuild a lost ledger from epoch 0", "engine/recovery.py", "Slot(Epoch(max(record.epoch, slot.epoch)), None, owner or",
             "Slot(slot.epoch, None, owner or"),
    Mutation("ledger 2", "assert an owner at the epoch it has", "engine/draft.py",
             "epoch = Epoch(max(slot.epoch, above, move.epoch if move else 0) + 1)",
             "epoch = Epoch(max(slot.epoch, above, move.epoch if move else 0))"),
    Mutation("ledger 2", "do not assert owners after a restart of the server", "engine/partitions.py", "assert_again(draft, queue)", "pass"),
    Mutation("ledger 3", "take a new pod for the one of that name", "engine/draft.py", "seen is not None and seen.uid == uid and",
             "seen is not None and"),
    Mutation("ledger 3", "grant to whoever has the name now", "engine/reaim.py", "return draft.eligible[move.receiver].uid != move.uid",
             "return False"),
    Mutation("ledger 4", "believe a deadline from a fast clock", "engine/handoff.py",
             "draft.moves[partition] = replace(move, deadline=draft.now + move.length)", "pass"),
    Mutation("ledger 4", "believe a holddown from a fast clock", "engine/handoff.py",
             "draft.holddown = replace(held, until=draft.now + held.length)", "pass"),
    Mutation("ledger 4", "believe a static member's term from a fast clock", "engine/handoff.py",
             "draft.seats[n] = replace(seat, expires=draft.now + seat.length)", "pass"),
    # 1: holddown and seats
    Mutation("1", "extend a running holddown", "engine/draft.py", "if self.holddown is None:\n            self.holddown = Holddown(",
             "if True:\n            self.holddown = Holddown("),
    Mutation("1", "never wait", "engine/holddown.py", "draft.now >= draft.holddown.until", "True"),
    Mutation("1", "go on with a holddown whose reason is gone", "engine/holddown.py", "        else:\n            draft.holddown = None",
             "        else:\n            pass"),
    Mutation("1", "let newcomers outnumber the vacant seats", "engine/seats.py", "if len(candidates) <= len(vacant(draft)):", "if True:"),
    Mutation("1", "give nobody its own seat back", "engine/seats.py",
             "    if seat.member in draft.eligible:\n        return seat.member", "    pass"),
    Mutation("1", "give a seat to who does not read all of it", "engine/seats.py",
             "if seat.left is not None and all(partition.queue in reads for partition in seat.left):", "if seat.left is not None:"),
    Mutation("1", "keep a seat without partitions vacant", "engine/departures.py", "return [seat] if seat.left else []", "return [seat]"),
    Mutation("1", "let the latest standby take over", "engine/seats.py",
             "return waiting + [member for member in idle if member not in waiting]",
             "return (waiting + [member for member in idle if member not in waiting])[::-1]"),
    Mutation("1", "no standby takes over", "engine/seats.py", "for standby in _line(draft) if vacant(draft) else ():", "for standby in ():"),
    Mutation("1", "place new partitions with anybody but the least", "engine/partitions.py",
             "fewest(draft, draft.opened).items():", "dict[Partition, str]().items():"),
    Mutation("1", "do not withdraw deleted partitions", "engine/partitions.py", "for number in range(after, before):", "for number in ():"),
    Mutation("1", "forget that a change of the count may unbalance", "engine/partitions.py",
             "    draft.unsettled = True\n    if draft.holddown", "    if draft.holddown"),
    Mutation("1", "a dropped queue is kept", "engine/departures.py", "if partition.queue not in reads)", "if False)"),
    Mutation("1", "drop a queue that cannot fence without its word", "engine/departures.py", "if draft.queue(partition).fenced:", "if True:"),
    # 2: balance
    Mutation("2", "an old imbalance perpetuates itself", "engine/evenness.py", "<= 1:\n        return True", "<= 99:\n        return True"),
    Mutation("2", "who is left with none is not told", "engine/step.py", "draft.happenings.append(StandsBy(member))", "pass"),
    Mutation("2", "forget who had a partition last", "engine/placement.py", "if slot.last is not None:", "if slot.owner is not None:"),
    # 3: hand-off
    Mutation("3", "do not wait for the release", "engine/handoff.py",
             "return move.giver is not None and move.released is None and not move.quiet", "return False"),
    Mutation("3", "take any word for a release", "engine/handoff.py",
             "if word in draft.observation.releases or (partition, epoch) in draft.observation.drained:", "if draft.observation.releases:"),
    Mutation("3", "do not listen to the queue", "engine/handoff.py", " or (partition, epoch) in draft.observation.drained:", ":"),
    Mutation("3", "no deadline", "engine/handoff.py", "if draft.now >= move.deadline:", "if False:"),
    Mutation("3", "count a miss at every step", "engine/draft.py", "        if move.missed:\n            return move", "        pass"),
    Mutation("3", "pause nothing", "engine/handoff.py", "wanted.append(Pause(partition, draft.slots[partition].epoch))", "pass"),
    # 4: protocols
    Mutation("4", "Eager revokes only what moves", "engine/plan.py", "        _revoke_everything(draft, owners, kept, why)", "        pass"),
    Mutation("4", "Eager grants before all is released", "engine/handoff.py",
             "barrier = draft.eager and any(waits_for_giver(move) for move in draft.moves.values())", "barrier = False"),
    # 5: nothing sticks
    Mutation("5", "wait for a receiver that is gone", "engine/reaim.py", "if not draft.may_own(move.receiver, partition.queue):", "if False:"),
    Mutation("5", "do not go back to the giver", "engine/reaim.py",
             "elif move.giver is not None and draft.may_own(move.giver, partition.queue):", "elif False:"),
    Mutation("5", "turn each lost hand-off for itself", "engine/reaim.py", "chosen = with_the_others(draft, chosen)", "pass"),
    Mutation("5", "a giver that vanished is waited for", "engine/draft.py",
             "self.put(partition, replace(move, giver=None, released=How.GONE))", "self.put(partition, move)"),
    Mutation("5", "External waits for the giver's word to give it back", "engine/draft.py",
             "queue.on_deadline is OnDeadline.FORCE or move.receiver == move.giver", "queue.on_deadline is OnDeadline.FORCE"),
    Mutation("5", "go on without the word where nothing fences", "engine/draft.py",
             "return queue.fenced or queue.on_deadline is OnDeadline.FORCE or", "return True or"),
    # 6: static members
    Mutation("6", "keep no seat for a static member", "engine/departures.py", "if seat.instance is None or length <= 0:", "if True:"),
    Mutation("6", "keep it for ever", "engine/seats.py", "if seat.expires is not None and draft.now >= seat.expires:", "if False:"),
    Mutation("6", "an expiry waits for a holddown", "engine/seats.py",
             'draft.at_once = f"{seat.member} did not come back in time"', "pass"),
    Mutation("6", "the term counts from the wish to stop", "engine/departures.py",
             "seats.append(replace(seat, expires=moment(draft.now + seat.length)))", "seats.append(seat)"),
    Mutation("6", "keep exclusive partitions for a static member", "engine/departures.py",
             "exclusive = frozenset(p for p in seat.left if draft.queues[p.queue].exclusive)", "exclusive = frozenset[Partition]()"),
    Mutation("6", "an identity counts without a session timeout", "engine/seats.py",
             "return draft.spec.session_timeout > 0 and seat.instance", "return seat.instance"),
    Mutation("6", "another name is another member", "engine/seats.py",
             "draft.eligible[member].instance == seat.instance", "False"),
    Mutation("6", "two pods may have one identity", "engine/census.py",
             "fenced[newest[instance]] = name", "pass"),
    # 7: terminating pods
    Mutation("7", "who is asked to stop has gone", "engine/departures.py",
             "        elif member not in draft.eligible:\n            _leave(draft, member)",
             "        elif member not in draft.eligible:\n            _vanish(draft, member)"),
    Mutation("7", "static members do not release at once", "engine/step.py", "    rest_static(draft)\n", ""),
    Mutation("7", "leave partitions with who is stopping", "engine/plan.py",
             "return owner is not None and owner not in draft.eligible and draft.settled(partition)", "return False"),
    Mutation("7", "pods above the desired size take part", "engine/room.py",
             "if self._size is not None and self._members >= self._size:", "if False:"),
    # 8: exclusive queues
    Mutation("8", "an exclusive queue has room for many", "engine/room.py", "min(facts.partitions, 1) if facts.exclusive else", "facts.partitions if facts.exclusive else"),
    Mutation("8", "the access type is no trigger", "engine/partitions.py", "if seen.exclusive != facts.exclusive:", "if False:"),
    # 9: pause and bound
    Mutation("9", "a paused group goes on", "engine/step.py", "    if observation.spec.paused:", "    if False:"),
    Mutation("9", "unpausing waits", "engine/triggers.py", 'draft.at_once = "the group goes on after a pause"', "pass"),
    Mutation("9", "begin all hand-offs together", "engine/plan.py", "elif not bound or paused < bound:", "else:"),
    Mutation("9", "hold back what a stopping pod has", "engine/plan.py", "return draft.slots[partition].owner in draft.eligible", "return True"),
    # 10: idempotent
    Mutation("10", "ask for a grant only once", "engine/handoff.py",
             "        elif not barrier or move.quiet:", "        elif (not barrier or move.quiet) and partition not in draft.before.moves:"),
    Mutation("10", "forget what waits in the ledger", "engine/ledger.py", "grouped((receiver, p) for p, receiver in state.waiting.items())", "grouped(())"),
    Mutation("10", "wake nobody at the end of a holddown", "engine/step.py", "times.append(draft.holddown.until)", "pass"),
    Mutation("10", "wake nobody at a deadline", "engine/step.py", "times = [m.deadline for m in draft.moves.values()", "times = [m.deadline for m in ()"),
    # triggers
    Mutation("trigger", "a request is no trigger", "engine/triggers.py", 'draft.trigger("a rebalance was asked for")', "pass"),
    Mutation("trigger", "a protocol is no trigger", "engine/triggers.py", "if spec.protocol != before.protocol:", "if False:"),
    Mutation("trigger", "an assignor is no trigger", "engine/triggers.py", "if before.assignor is not None and assignor != before.assignor:", "if False:"),
    Mutation("trigger", "a wider subscription is no trigger", "engine/triggers.py", "if more - left:", "if False:"),
    Mutation("trigger", "a new queue is no trigger", "engine/partitions.py", "if not fresh and draft.seats:", "if False:"),
    # what is counted
    Mutation("bound", "count nothing as needed", "engine/bound.py", "    assert origins is not None\n", "    assert origins is not None\n    return 0\n"),
    Mutation("bound", "a rebalance never ends", "engine/step.py", "    _end_rebalance(draft)\n\n\ndef _decide", "\n\ndef _decide"),
    # Proposals
    Mutation("approval", "take from who works without asking", "engine/approval.py", "draft.spec.approval is Approval.MANUAL", "False"),
    Mutation("approval", "let stopping pods wait for a person", "engine/approval.py",
             "draft.slots[partition].owner in draft.eligible and draft.settled(partition)", "draft.settled(partition)"),
    Mutation("approval", "keep a proposal that was overtaken", "engine/approval.py",
             "if proposal is not None and (draft.unsettled or not _holds(draft, proposal)):", "if False:"),
    Mutation("approval", "keep a proposal whose premises have changed", "engine/approval.py", "(draft.unsettled or not _holds(draft, proposal))",
             "not _holds(draft, proposal)"),
    Mutation("approval", "carry out another proposal than the approved one", "engine/approval.py", "approved == proposal.id", "True"),
    Mutation("approval", "refuse an approval again and again", "engine/approval.py", "if approved != draft.facts.answered:", "if True:"),
    Mutation("approval", "give the same moves the same id for ever", "engine/approval.py", "@{slots[partition].epoch} ", " "),
    Mutation("approval", "forget the proposal at a restart", "engine/ledger.py",
             "None if state.proposal is None else _proposal(state.proposal)", "None"),
    Mutation("approval", "ask twice for what waits for its turn", "engine/plan.py", " and approved.get(p) != owners[p]", ""),
    Mutation("approval", "under Eager, pause everybody for what needs no approval", "engine/plan.py",
             "if draft.spec.approval is Approval.AUTOMATIC:", "if True:"),
)  # fmt: skip
