"""Receivers for partitions: for all, for those whose receiver vanished, or for new ones.

The assignor in use decides: the first of spec.assignors that every member supports, so a rolling restart changes it (Kafka). If
the assignor fails, the group keeps its owners, and every step tries again. An exclusive queue has one active member, which owns
all partitions of the queue; the others stand by (rule 8).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from hashlib import sha256
from typing import TypeVar

from baton.assignors import Answer, AssignorError, Member, Request, Traits, UnknownAssignorError, get, names, place_new, traits_of
from baton.engine.draft import Draft
from baton.engine.observation import Observation, ObservedMember
from baton.engine.state import PlanProblem
from baton.model.ids import MemberId, Partition, QueueName
from baton.model.ranges import Spans

# The assignor in use


def assignor_in_use(draft: Draft) -> str | None:
    """Return the first of spec.assignors that exists and that every member supports. If none does, set the draft's problem and
    return None."""
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
        draft.problem = PlanProblem("UnknownAssignor", str(missing))
    else:
        # names() lists assignors without loading them: a pod's annotation must not make the operator load one
        listed = {member: seen.assignors for member, seen in draft.eligible.items() if seen.assignors is not None}
        supports_none = sorted(member for member, supported in listed.items() if not set(draft.spec.assignors) & set(supported))
        who = (supports_none or sorted(listed))[0]
        unknown = [name for name in listed[who] if name not in names()]
        common = sorted(name for name in set.intersection(*map(set, listed.values())) if name in names())
        draft.problem = PlanProblem(
            "UnknownAssignor",
            f"no assignor of {', '.join(draft.spec.assignors)} is supported by every member: {who} announces "
            f"{', '.join(listed[who])} in its annotation baton.dev/assignors"
            + (f" (there is no assignor {unknown[0]} here: correct it, or install it beside the operator)" if unknown else "")
            + (f"; add {common[0]}, which all support, to spec.assignors, or" if common else ";")
            + " let the pods announce one of these",
        )
    return None


def traits(draft: Draft) -> Traits:
    """Return the traits that the assignor in use declares; the defaults if none is in use."""
    name = draft.facts.assignor if draft.facts is not None else None
    return Traits() if name is None else traits_of(name)


# The assignor's inputs: members and partitions as observed, and the options


T = TypeVar("T")

ONE = Fraction(1)


def fingerprint(observation: Observation) -> str:
    """Return a digest of options, zones and weights: 12 hexadecimal digits, or empty without any. A change of it is a trigger.

    The ledger stores the digest instead of the inputs, to stay small.
    """
    options = [
        (name, sorted(value) if isinstance(value, frozenset) else value)
        for name, value in sorted(observation.spec.options.items())
    ]
    queues = [
        (
            name,
            [(first, last, sorted(zones)) for first, last, zones in queue.zones],
            [(*span[:2], str(span[2])) for span in queue.weights],
        )
        for name, queue in sorted(observation.queues.items())
        if queue.zones or queue.weights
    ]
    return sha256(repr((options, queues)).encode()).hexdigest()[:12] if options or queues else ""


def spread(spans: Spans[T], partitions: Sequence[Partition], otherwise: T) -> tuple[T, ...]:
    """Return the value of each of these partitions of one queue, in order; `otherwise` for partitions that no span covers."""
    by_number = {partition.number: place for place, partition in enumerate(partitions)}
    values = [otherwise] * len(partitions)
    top = max(by_number, default=-1)
    for first, last, value in spans:
        for number in range(first, min(last, top) + 1):
            if number in by_number:
                values[by_number[number]] = value
    return tuple(values)


def member_input(seen: ObservedMember, queues: frozenset[QueueName], owned: Sequence[Partition] = (), rank: int = 0) -> Member:
    """Return a member as assignors see it. `queues`: those of the group; `owned`, `rank`: see `Member`."""
    return Member(
        subscribed=queues if seen.subscribed is None else seen.subscribed & queues,
        owned=owned,
        instance=seen.instance,
        zone=seen.zone,
        rank=rank,
        capacity=seen.capacity,
    )


def request_of(
    seen: Observation, partitions: Mapping[QueueName, Sequence[Partition]], members: Mapping[MemberId, Member]
) -> Request:
    """Return the request to an assignor about these partitions. Assignors number the partitions of each queue from 0."""
    queues = [(queue, mine, seen.queues[queue]) for queue, mine in partitions.items()]
    return Request(
        queues={queue: len(mine) for queue, mine, _ in queues},
        members=members,
        zones={queue: spread(one.zones, mine, frozenset()) for queue, mine, one in queues if one.zones},
        options=seen.spec.options,
        weights={queue: spread(one.weights, mine, ONE) for queue, mine, one in queues if one.weights},
    )


def left_out(draft: Draft, partitions: Collection[Partition]) -> set[Partition]:
    """Return those of these partitions that the assignor in use gives to no member, so nothing waits for an owner."""
    leaves_out = traits(draft).leaves_out
    if leaves_out is None:
        return set()
    outside: set[Partition] = set()
    for queue in {partition.queue for partition in partitions}:
        mine = [partition for partition in partitions if partition.queue == queue]
        zones = spread(draft.observation.queues[queue].zones, mine, frozenset())
        outside.update(p for p, near in zip(mine, zones, strict=True) if leaves_out(draft.spec.options, near))
    return outside


# The call of the assignor


Claims = Mapping[MemberId, Collection[Partition]]


def ask_assignor(
    draft: Draft,
    assignor: Callable[[Request], Answer],
    ranked: Sequence[MemberId],
    claims: Claims,
    kept: Collection[Partition],
) -> dict[Partition, MemberId]:
    """Return the owners that the assignor plans for the partitions of non-exclusive queues.

    `ranked`: the members of the plan, by slot. `claims`: the partitions that each member has or had, and keeps without a move.
    `kept`: partitions that the assignor does not see; the others are renumbered from 0 in each queue. Raises AssignorError.
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
    """Return the queue's partitions by number. If the assignor takes the highest numbers first, moving partitions come last."""
    mine = [Partition(queue, number) for number in range(draft.queues[queue].partitions)]
    if kept or draft.moves:
        mine = [partition for partition in mine if partition not in kept]
        if traits(draft).gives_up_highest:
            mine.sort(key=lambda partition: (not draft.at_rest(partition), partition.number))
    return mine


FAILURES = (AssignorError, UnknownAssignorError)
"""The errors of looking an assignor up and of calling it."""


def plan_problem(error: Exception) -> PlanProblem:
    """Return the reason and message of the condition Ready for this error."""
    return PlanProblem("InvalidAssignment" if isinstance(error, AssignorError) else "UnknownAssignor", str(error))


# Exclusive queues


def owners_of_exclusive(
    draft: Draft,
    members: Sequence[MemberId],
    claims: Mapping[MemberId, set[Partition]],
    kept: Collection[Partition],
    others: Mapping[Partition, MemberId],
) -> dict[Partition, MemberId]:
    """Return the owners of all exclusive queues: the member that has most of the queue, else the one with the smallest load.

    `others`: the owners of the non-exclusive queues, which count as load.
    """
    load = Counter(others.values())
    owners: dict[Partition, MemberId] = {}
    for queue, facts in sorted(draft.queues.items()):
        readers = [member for member in members if queue in draft.subscribed(member)]
        if not facts.exclusive or not readers:
            continue
        mine = [Partition(queue, number) for number in range(facts.partitions)]
        existing = set(mine)  # without partitions that are being withdrawn
        has = {member: len(existing & claims.get(member, set())) for member in readers}
        active = max(readers, key=lambda member: (has[member], -load[member], -readers.index(member)))
        load[active] += len(mine)
        owners.update((partition, active) for partition in mine if partition not in kept)
    return owners


def several_active(draft: Draft, members: Collection[MemberId]) -> list[QueueName]:
    """Return the exclusive queues that have several active members and that one of these members reads, sorted."""
    exclusive = {queue for queue, facts in draft.queues.items() if facts.exclusive}
    if not exclusive:
        return []
    active: dict[QueueName, set[MemberId]] = {queue: set() for queue in exclusive}
    for member, partitions in draft.loads().items():
        for queue in exclusive & {partition.queue for partition in partitions}:
            active[queue].add(member)
    reads = {queue for member in members for queue in draft.subscribed(member)}
    return sorted(queue for queue, owners in active.items() if len(owners) > 1 and queue in reads)


def active_members(draft: Draft, line: Sequence[MemberId]) -> dict[QueueName, MemberId]:
    """Return the active member of each exclusive queue that has one: the member with most of its partitions.

    A tie goes to the first in `line`, then to the first to join, then to the lower name.
    """
    exclusive = {queue for queue, facts in draft.queues.items() if facts.exclusive}
    has: dict[QueueName, Counter[MemberId]] = {queue: Counter() for queue in exclusive}
    for member, partitions in draft.loads().items() if exclusive else ():
        for partition in partitions:
            if partition.queue in exclusive and draft.may_own(member, partition.queue):
                has[partition.queue][member] += 1
    place = {member: number for number, member in enumerate(line)}
    return {
        queue: min(counts, key=lambda m: (-counts[m], place.get(m, len(place)), draft.eligible[m].joined, m))
        for queue, counts in has.items()
        if counts
    }


# Receivers


def plan_owners(draft: Draft, members: Sequence[MemberId], kept: Collection[Partition]) -> dict[Partition, MemberId]:
    """Return the owners that the assignor in use plans, for these members of the plan in the order of their slots.

    `kept`: partitions that the plan leaves out. A partition stays with its last owner without a move, even if that is a static
    member that now has another name. Raises AssignorError.
    """
    claims: defaultdict[MemberId, set[Partition]] = defaultdict(set)
    for partition, record in draft.records.items():
        if record.last is not None:
            claims[record.last].add(partition)
    if draft.spec.session_timeout > 0:
        by_identity = {draft.identity(member): member for member in members}
        for last in claims.keys() - set(members):
            identity = draft.identity(last)
            if identity is not None and identity in by_identity:
                claims[by_identity[identity]] |= claims.pop(last)
    return _by_assignor(draft, members, claims, kept)


def receivers_by_assignor(draft: Draft, without_receiver: Collection[Partition]) -> dict[Partition, MemberId]:
    """Return receivers for these partitions alone, among the members of the plan.

    If the assignor fails, the partitions go to the members with the fewest, and a trigger starts a holddown.
    """
    holders = draft.slot_holders()
    if not holders:
        return {}
    if draft.facts is None or draft.facts.assignor is None:
        return receivers_with_fewest(draft, without_receiver)
    try:
        owners = _by_assignor(draft, holders, draft.loads(), _resting(draft) - set(without_receiver))
    except FAILURES as error:
        draft.problem = plan_problem(error)
        draft.trigger("partitions were placed without the assignor, which failed")
        return receivers_with_fewest(draft, without_receiver)
    return {partition: owners[partition] for partition in without_receiver if partition in owners}


def receivers_with_fewer_moves(draft: Draft, without_receiver: Mapping[Partition, MemberId]) -> dict[Partition, MemberId]:
    """Return the receivers that cost the fewest moves for all running hand-offs. A partition at rest never moves.

    `without_receiver`: receivers chosen for the lost hand-offs alone. They stand unless redirecting others too saves moves.
    """
    holders = draft.slot_holders()
    open_ = {p for p, move in draft.moves.items() if not move.quiet and move.receiver is not None}
    claims = {member: partitions - open_ for member, partitions in draft.loads().items()}
    for partition in open_:
        home = draft.records[partition].last
        if home is not None:
            claims[home] = claims.get(home, set()) | {partition}
    try:
        owners = _by_assignor(draft, holders, claims, _resting(draft) - open_)
    except FAILURES:
        return dict(without_receiver)
    at_rest = (p for p in draft.records if p not in open_ and draft.planned_owner(p) in holders)
    if open_ - owners.keys() or any(owners.get(p) != draft.planned_owner(p) for p in at_rest):
        return dict(without_receiver)
    before = {p: without_receiver.get(p, draft.planned_owner(p)) for p in open_}
    cost, without = (sum(to[p] != draft.records[p].last for p in open_) for to in (owners, before))
    return (
        {p: owners[p] for p in open_ if p in without_receiver or owners[p] != draft.planned_owner(p)}
        if cost < without
        else dict(without_receiver)
    )


def receivers_with_fewest(draft: Draft, new: Collection[Partition]) -> dict[Partition, MemberId]:
    """Return receivers for new partitions: the members of the plan with the fewest, under any assignor (rule 1)."""
    holders = draft.slot_holders()
    if not holders:
        return {}
    resting = _resting(draft) - set(new)
    claims = draft.loads()
    owners = ask_assignor(draft, place_new, holders, claims, resting)
    owners |= owners_of_exclusive(draft, holders, claims, resting, owners)
    return {partition: owners[partition] for partition in new if partition in owners}


def _by_assignor(
    draft: Draft, members: Sequence[MemberId], claims: Mapping[MemberId, set[Partition]], kept: Collection[Partition]
) -> dict[Partition, MemberId]:
    assert draft.facts is not None and draft.facts.assignor is not None
    owners = ask_assignor(draft, get(draft.facts.assignor), members, claims, kept)
    return owners | owners_of_exclusive(draft, members, claims, kept, owners)


def _resting(draft: Draft) -> set[Partition]:
    """Return the partitions whose owner, after running hand-offs, is not an eligible member."""
    return {partition for partition in draft.records if draft.planned_owner(partition) not in draft.eligible}
