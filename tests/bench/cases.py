"""What is measured: groups in which nobody holds anything yet, and the same ones when a member has joined.

Claims are plain tuples of partitions, as the peers get lists of theirs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from baton.assignors import Member, Request, get
from baton.model.ids import MemberId, QueueName

KAFKA, SERVER, ROCKETMQ = "kafka-clients", "kafka-group-coordinator", "rocketmq-client"
Group = tuple[dict[QueueName, int], list[frozenset[QueueName]]]
"""Queues, and what every member reads; the last one joins later."""


@dataclass(frozen=True)
class Case:
    name: str
    assignor: str
    peer: str
    """The library that the peer's class comes from."""
    peer_assignor: str
    request: Request
    repeats: int
    """Of the peer; ours is timed three to ten times."""


def cases() -> Iterator[Case]:
    """Made one by one, for the large ones need room."""
    yield from _pair("cooperative-sticky 1000x10000 equal", "cooperative-sticky", KAFKA, _equal(1000, 100, 100), 30)
    yield from _pair("cooperative-sticky 1000x10000 different", "cooperative-sticky", KAFKA, _ten_of_them(1000, 100, 100), 2)
    yield from _pair("cooperative-sticky 1000x10000 nested", "cooperative-sticky", KAFKA, _nested(1000, 100, 100), 2)
    yield from _pair("cooperative-sticky 2000x1000000 equal", "cooperative-sticky", KAFKA, _equal(2000, 500, 2000), 5)
    yield from _pair("cooperative-sticky 2000x999500 equal, odd sizes", "cooperative-sticky", KAFKA, _odd_sizes(2000, 500), 5)
    yield from _pair("minimal 1000x10000 equal", "minimal", SERVER, _equal(1000, 100, 100), 100)
    yield from _pair("minimal 1000x10000 different", "minimal", SERVER, _ten_of_them(1000, 100, 100), 100)
    yield from _pair("minimal 1000x10000 nested", "minimal", SERVER, _nested(1000, 100, 100), 100)
    yield from _once("range 1000x10000 equal", "range", KAFKA, _equal(1000, 100, 100), 30)
    yield from _once("round-robin 1000x10000 equal", "round-robin", KAFKA, _equal(1000, 100, 100), 30)
    yield from _once("average 1000x10000 one queue", "average", ROCKETMQ, _equal(1000, 1, 10000), 10)
    yield from _once("circle 1000x10000 one queue", "circle", ROCKETMQ, _equal(1000, 1, 10000), 10)
    yield from _once("consistent-hash 100x1000 one queue", "consistent-hash", ROCKETMQ, _equal(100, 1, 1000), 3)


def _pair(name: str, assignor: str, peer: str, group: Group, repeats: int) -> Iterator[Case]:
    queues, reads = group
    peer_assignor = "uniform" if peer == SERVER else assignor
    members = {MemberId(f"m{place:05}"): Member(subscribed) for place, subscribed in enumerate(reads[:-1])}
    empty = Request(queues, members)
    yield Case(f"{name}, from nothing", assignor, peer, peer_assignor, empty, repeats)
    first = get(assignor)(empty)
    held = {member: Member(members[member].subscribed, tuple(first.assignment[member]), 1) for member in members}
    joined = Request(queues, held | {MemberId("newcomer"): Member(reads[-1], (), 1)})
    yield Case(f"{name}, add one", assignor, peer, peer_assignor, joined, max(3, repeats // 5))


def _once(name: str, assignor: str, peer: str, group: Group, repeats: int) -> Iterator[Case]:
    queues, reads = group
    members = {MemberId(f"m{place:05}"): Member(subscribed) for place, subscribed in enumerate(reads[:-1])}
    yield Case(name, assignor, peer, assignor, Request(queues, members), repeats)


def _queues(count: int, size: int) -> dict[QueueName, int]:
    return {QueueName(f"q{place:03}"): size for place in range(count)}


def _equal(members: int, count: int, size: int) -> Group:
    queues = _queues(count, size)
    return queues, [frozenset(queues)] * (members + 1)


def _odd_sizes(members: int, count: int) -> Group:
    """Queues of 1,001 to 2,997 partitions: whose turn it is differs from queue to queue."""
    queues = {QueueName(f"q{place:03}"): 1001 + 4 * place for place in range(count)}
    return queues, [frozenset(queues)] * (members + 1)


def _ten_of_them(members: int, count: int, size: int) -> Group:
    """Each member reads ten queues, at random."""
    dice, queues = Random(1), _queues(count, size)
    return queues, [frozenset(dice.sample(list(queues), 10)) for _ in range(members + 1)]


def _nested(members: int, count: int, size: int) -> Group:
    """A fifth of the members reads a fifth of the queues, the next two fifths, and so on."""
    queues = _queues(count, size)
    parts = [frozenset(list(queues)[: count * part // 5]) for part in range(1, 6)]
    return queues, [parts[place % 5] for place in range(members + 1)]
