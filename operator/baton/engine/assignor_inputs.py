"""The inputs of an assignor: members and partitions as they were observed, and the options."""

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from hashlib import sha256
from typing import TypeVar

from baton.assignors import Member, Request
from baton.engine.assignor import traits
from baton.engine.draft import Draft
from baton.engine.observation import Observation, ObservedMember
from baton.model.ids import MemberId, Partition, QueueName
from baton.model.ranges import Spans

T = TypeVar("T")

ONE = Fraction(1)


def fingerprint(observation: Observation) -> str:
    """A digest of these inputs: 12 hexadecimal digits, or empty if there are none. A change of it is a trigger.

    The ledger keeps the digest instead of the inputs, to stay small.
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
    """The value of each of these partitions of one queue, in their order. `otherwise`: the value of one that no span covers."""
    by_number = {partition.number: place for place, partition in enumerate(partitions)}
    values = [otherwise] * len(partitions)
    top = max(by_number, default=-1)
    for first, last, value in spans:
        for number in range(first, min(last, top) + 1):
            if number in by_number:
                values[by_number[number]] = value
    return tuple(values)


def member_input(seen: ObservedMember, queues: frozenset[QueueName], owned: Sequence[Partition] = (), rank: int = 0) -> Member:
    """A member as assignors see it. `queues`: those of the group; `owned`, `rank`: see `Member`."""
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
    """What an assignor is asked about these partitions, which it numbers from 0 in each queue."""
    queues = [(queue, mine, seen.queues[queue]) for queue, mine in partitions.items()]
    return Request(
        queues={queue: len(mine) for queue, mine, _ in queues},
        members=members,
        zones={queue: spread(one.zones, mine, frozenset()) for queue, mine, one in queues if one.zones},
        options=seen.spec.options,
        weights={queue: spread(one.weights, mine, ONE) for queue, mine, one in queues if one.weights},
    )


def left_out(draft: Draft, partitions: Collection[Partition]) -> set[Partition]:
    """Those of these partitions that the assignor in use gives to no member, so that nothing waits for their owner."""
    leaves_out = traits(draft).leaves_out
    if leaves_out is None:
        return set()
    outside: set[Partition] = set()
    for queue in {partition.queue for partition in partitions}:
        mine = [partition for partition in partitions if partition.queue == queue]
        zones = spread(draft.observation.queues[queue].zones, mine, frozenset())
        outside.update(p for p, near in zip(mine, zones, strict=True) if leaves_out(draft.spec.options, near))
    return outside
