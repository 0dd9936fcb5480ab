"""The call of an assignor: a request made of the draft, and its answer as owners of the group's partitions."""

from collections.abc import Callable, Collection, Mapping, Sequence

from baton.assignors import Answer, Request
from baton.engine.assignor import traits
from baton.engine.assignor_inputs import member_input, request_of
from baton.engine.draft import Draft
from baton.model.ids import MemberId, Partition, QueueName

Claims = Mapping[MemberId, Collection[Partition]]


def ask_assignor(
    draft: Draft,
    assignor: Callable[[Request], Answer],
    ranked: Sequence[MemberId],
    claims: Claims,
    kept: Collection[Partition],
) -> dict[Partition, MemberId]:
    """The owners that the assignor plans for the partitions of non-exclusive queues.

    `ranked`: the members of the plan, by slot. `claims`: what each member has or had, which it keeps at no cost. `kept`:
    partitions that the assignor does not see. It numbers a queue's partitions from 0, so the others are renumbered. Raises
    AssignorError.
    """
    order = {queue: _order(draft, queue, kept) for queue in sorted(draft.queues) if not draft.queues[queue].exclusive}
    numbers = {p: Partition(queue, number) for queue, mine in order.items() for number, p in enumerate(mine)}
    queues = frozenset(draft.queues)
    members = {
        member: member_input(
            draft.eligible[member], queues, tuple(sorted(numbers[p] for p in claims.get(member, ()) if p in numbers)), rank
        )
        for rank, member in enumerate(ranked)
    }
    answer = assignor(request_of(draft.observation, order, members))
    return {order[p.queue][p.number]: member for p, member in answer.owners().items()}


def _order(draft: Draft, queue: QueueName, kept: Collection[Partition]) -> list[Partition]:
    """The queue's partitions by number. If members give up their highest numbers first, moving partitions come last."""
    mine = [Partition(queue, number) for number in range(draft.queues[queue].partitions)]
    if kept or draft.moves:
        mine = [partition for partition in mine if partition not in kept]
        if traits(draft).gives_up_highest:
            mine.sort(key=lambda partition: (not draft.at_rest(partition), partition.number))
    return mine
