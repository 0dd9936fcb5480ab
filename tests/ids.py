"""The product's ids from plain text and numbers: a test writes `orders` and `a` as they are."""

from collections.abc import Mapping
from fractions import Fraction
from typing import TypeVar

from baton.assignors import Member, Request
from baton.model import Epoch, MemberId, Partition, QueueName

V = TypeVar("V")
Zones = tuple[frozenset[str], ...]


def by_queue(values: Mapping[str, V]) -> dict[QueueName, V]:
    return {QueueName(name): value for name, value in values.items()}


def by_member(values: Mapping[str, V]) -> dict[MemberId, V]:
    return {MemberId(name): value for name, value in values.items()}


def epochs(grants: Mapping[int, int]) -> dict[int, Epoch]:
    return {number: Epoch(epoch) for number, epoch in grants.items()}


def reading(*queues: str) -> frozenset[QueueName]:
    return frozenset(map(QueueName, queues))


def a_partition(queue: str, number: int) -> Partition:
    return Partition(QueueName(queue), number)


def a_request(
    queues: Mapping[str, int],
    members: Mapping[str, Member],
    zones: Mapping[str, Zones] | None = None,
    options: Mapping[str, object] | None = None,
    weights: Mapping[str, tuple[Fraction, ...]] | None = None,
) -> Request:
    """What an assignor is asked."""
    return Request(by_queue(queues), by_member(members), by_queue(zones or {}), options or {}, by_queue(weights or {}))
