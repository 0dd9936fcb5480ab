"""Asking an assignor: for everything, for what is homeless, or only for what is new."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping

from baton.assignors import Answer, Member, Request, UnknownAssignorError, get, place_new
from baton.engine.draft import Draft
from baton.engine.state import Problem
from baton.model.ids import MemberId, Partition, QueueName


def assignor_in_use(draft: Draft) -> str | None:
    """The first of the preferred assignors that exists and that every member supports. None, and a problem: there is none."""
    missing: UnknownAssignorError | None = None
    for name in draft.spec.assignors:
        try:
            get(name)
        except UnknownAssignorError as error:
            missing = missing or error
            continue
        if all(member.assignors is None or name in member.assignors for member in draft.eligible.values()):
            return name
    if missing is not None:
        draft.problem = Problem("UnknownAssignor", str(missing))
    else:
        wanted = set(draft.spec.assignors)
        choosy = {name: member.assignors for name, member in draft.eligible.items() if member.assignors is not None}
        stubborn = sorted(name for name, supported in choosy.items() if not wanted & set(supported))
        who = f"; {stubborn[0]} supports none of them" if stubborn else ""
        draft.problem = Problem(
            "UnknownAssignor", f"no assignor of {', '.join(draft.spec.assignors)} is supported by every member{who}"
        )
    return None


def target(draft: Draft, members: Iterable[MemberId], kept: Collection[Partition]) -> dict[Partition, MemberId]:
    """Who of `members` (in seat order) should own what, by the assignor in use; `kept` is not theirs to share."""
    ranked = list(members)
    assert draft.facts is not None and draft.facts.assignor is not None
    shared, alone = _by_access(draft)
    owners = _ask(draft, get(draft.facts.assignor), ranked, shared, kept)
    for queue in alone:
        owners |= _exclusively(draft, queue, ranked, kept, owners)
    return owners


def by_the_assignor(draft: Draft, homeless: Collection[Partition]) -> dict[Partition, MemberId]:
    """Receivers for these partitions among the members of the plan; nothing else is considered."""
    seated = _seated(draft)
    if not seated:
        return {}
    if draft.facts is None or draft.facts.assignor is None:
        return fewest(draft, homeless)
    resting = set(draft.orphans()) | _given_up(draft)
    owners = target(draft, seated, resting - set(homeless))
    return {partition: owners[partition] for partition in homeless if partition in owners}


def fewest(draft: Draft, new: Collection[Partition]) -> dict[Partition, MemberId]:
    """Receivers for new partitions: the members of the plan that have fewest, whatever the assignor (rule 1)."""
    seated = _seated(draft)
    if not seated:
        return {}
    shared, alone = _by_access(draft)
    resting = (set(draft.orphans()) | _given_up(draft)) - set(new)
    owners = _ask(draft, place_new, seated, shared, resting)
    for queue in alone:
        owners |= _exclusively(draft, queue, seated, resting, owners)
    return {partition: owners[partition] for partition in new if partition in owners}


def within_one(draft: Draft, members: Collection[MemberId]) -> bool:
    """No single move makes two of these members more even. Exclusive queues do not count."""
    loads = draft.loads()
    counts = {m: sum(not draft.queues[p.queue].exclusive for p in loads.get(m, ())) for m in members}
    if not counts or max(counts.values()) - min(counts.values()) <= 1:
        return True
    reads = {m: draft.subscribed(m) for m in members}
    least: dict[QueueName, int] = {}
    for member, queues in reads.items():
        for queue in queues:
            least[queue] = min(least.get(queue, counts[member]), counts[member])
    for member, count in counts.items():
        has = {p.queue for p in loads.get(member, ()) if not draft.queues[p.queue].exclusive}
        if any(queue in least and count - least[queue] > 1 for queue in has):
            return False
    return True


def _seated(draft: Draft) -> list[MemberId]:
    return [seat.member for seat in draft.seats if seat.left is None and seat.member in draft.eligible]


def _given_up(draft: Draft) -> set[Partition]:
    """What those have who are not members any more, and what is on its way to nobody."""
    return {
        partition
        for partition, slot in draft.slots.items()
        if (draft.heading(partition) not in draft.eligible) and (slot.owner is not None or partition in draft.moves)
    }


def _by_access(draft: Draft) -> tuple[list[QueueName], list[QueueName]]:
    queues = sorted(draft.queues)
    return [q for q in queues if not draft.queues[q].exclusive], [q for q in queues if draft.queues[q].exclusive]


def _ask(
    draft: Draft,
    assignor: Callable[[Request], Answer],
    ranked: list[MemberId],
    queues: Collection[QueueName],
    kept: Collection[Partition],
) -> dict[Partition, MemberId]:
    """Assignors number a queue's partitions from 0. Where some are kept out the others are renumbered.

    Solace's gives up the highest first: what is still on its way comes last, for turning it to another costs less than
    moving a settled one.
    """
    order: dict[QueueName, list[Partition]] = {}
    numbers: dict[Partition, Partition] = {}
    for queue in queues:
        mine = [Partition(queue, number) for number in range(draft.queues[queue].partitions)]
        if kept or draft.moves:
            mine = [partition for partition in mine if partition not in kept]
            if draft.facts is not None and draft.facts.assignor == "solace":
                mine.sort(key=lambda partition: (_under_way(draft, partition), partition.number))
        order[queue] = mine
        numbers |= {partition: Partition(queue, number) for number, partition in enumerate(mine)}
    loads = draft.loads()
    members = {
        member: Member(
            subscribed=draft.subscribed(member),
            owned=tuple(sorted(numbers[p] for p in loads.get(member, ()) if p in numbers)),
            instance=draft.eligible[member].instance,
            zone=draft.eligible[member].zone,
            seat=rank,
        )
        for rank, member in enumerate(ranked)
    }
    answer = assignor(Request({queue: len(order[queue]) for queue in queues}, members))
    return {order[p.queue][p.number]: member for p, member in answer.owners().items()}


def _under_way(draft: Draft, partition: Partition) -> bool:
    move = draft.moves.get(partition)
    return move is not None and not move.quiet


def _exclusively(
    draft: Draft,
    queue: QueueName,
    ranked: Iterable[MemberId],
    kept: Collection[Partition],
    others: Mapping[Partition, MemberId],
) -> dict[Partition, MemberId]:
    """One active member has all of an exclusive queue (rule 8): who has most of it, else who has least of everything."""
    readers = [member for member in ranked if queue in draft.subscribed(member)]
    if not readers:
        return {}
    mine = [Partition(queue, number) for number in range(draft.queues[queue].partitions)]
    has = Counter(draft.heading(partition) for partition in mine)
    load = Counter(others.values())
    active = min(readers, key=lambda member: (-has[member], load[member], readers.index(member)))
    return {partition: active for partition in mine if partition not in kept}
