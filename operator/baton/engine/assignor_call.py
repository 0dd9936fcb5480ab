"""Asking an assignor: from what the engine knows to a request, and back."""

from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction

from baton.assignors import Answer, Member, Request
from baton.engine.assignor import traits
from baton.engine.assignor_inputs import spread
from baton.engine.draft import Draft
from baton.model.ids import MemberId, Partition, QueueName

ONE = Fraction(1)

Claims = Mapping[MemberId, Collection[Partition]]


def ask(
    draft: Draft,
    assignor: Callable[[Request], Answer],
    ranked: Sequence[MemberId],
    claims: Claims,
    kept: Collection[Partition],
) -> dict[Partition, MemberId]:
    """Who of `ranked` (in order of joining) should own what of the non-exclusive queues; what is `kept` is left out.

    Assignors number a queue's partitions from 0, so where some are left out the others are renumbered.
    """
    order = {queue: _order(draft, queue, kept) for queue in sorted(draft.queues) if not draft.queues[queue].exclusive}
    numbers = {p: Partition(queue, number) for queue, mine in order.items() for number, p in enumerate(mine)}
    members = {
        member: Member(
            subscribed=draft.subscribed(member),
            owned=tuple(sorted(numbers[p] for p in claims.get(member, ()) if p in numbers)),
            instance=draft.eligible[member].instance,
            zone=draft.eligible[member].zone,
            capacity=draft.eligible[member].capacity,
            rank=rank,
        )
        for rank, member in enumerate(ranked)
    }
    seen = draft.observation.queues
    request = Request(
        queues={queue: len(mine) for queue, mine in order.items()},
        members=members,
        zones={queue: spread(seen[queue].zones, mine, frozenset()) for queue, mine in order.items() if seen[queue].zones},
        options=draft.spec.options,
        weights={queue: spread(seen[queue].weights, mine, ONE) for queue, mine in order.items() if seen[queue].weights},
    )
    answer = assignor(request)
    return {order[p.queue][p.number]: member for p, member in answer.owners().items()}


def _order(draft: Draft, queue: QueueName, kept: Collection[Partition]) -> list[Partition]:
    """By number. Where members give up their highest numbers first, what already changes hands comes last."""
    mine = [Partition(queue, number) for number in range(draft.queues[queue].partitions)]
    if kept or draft.moves:
        mine = [partition for partition in mine if partition not in kept]
        if traits(draft).gives_up_highest:
            mine.sort(key=lambda partition: (not draft.at_rest(partition), partition.number))
    return mine
