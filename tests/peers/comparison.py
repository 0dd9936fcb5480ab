"""Ours and a peer's answers to the same requests: which are equal, and where not, which is better."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from baton.assignors import Request, get
from baton.assignors.building_blocks import holders
from baton.model import Partition
from tests.peers import PeerAnswer, ask

Owners = Mapping[Partition, str]


def unevenness(owners: Owners) -> int:
    """The sum of the squares of the totals."""
    return sum(count**2 for count in Counter(owners.values()).values())


def moves(request: Request, owners: Owners) -> int:
    """As Kafka sees it: claims of one generation on the same partition cancel each other, so it has no owner."""
    held = holders(request)
    return sum(held[partition] != (name,) for partition, name in owners.items() if len(held.get(partition, ())) == 1)


@dataclass
class Comparison:
    requests: int = 0
    equal: int = 0
    more_even: int = 0
    """Ours, by whatever moves that took."""
    fewer_moves: int = 0
    """Ours, at the same evenness."""
    moves: int = 0
    """Ours, over the requests where both are as even."""
    peer_moves: int = 0
    worse: list[Request] = field(default_factory=list)
    """Ours is less even, or as even at the price of more moves."""
    refused: list[str] = field(default_factory=list)
    """By the peer."""


def compare(assignor: str, peer: str, requests: Sequence[Request]) -> Comparison:
    """Ours beside the peer's."""
    result = Comparison(len(requests))
    for request, theirs in zip(requests, ask((peer, request) for request in requests), strict=True):
        if isinstance(theirs, str):
            result.refused.append(theirs)
        else:
            _compare(result, request, get(assignor)(request).owners(), theirs.owners())
    return result


def _compare(result: Comparison, request: Request, ours: Owners, theirs: Owners) -> None:
    even, peer_even = unevenness(ours), unevenness(theirs)
    moved, peer_moved = moves(request, ours), moves(request, theirs)
    result.equal += ours == theirs
    result.more_even += even < peer_even
    if even == peer_even:
        result.fewer_moves += moved < peer_moved
        result.moves += moved
        result.peer_moves += peer_moved
    if ours.keys() != theirs.keys() or (even, moved) > (peer_even, peer_moved):
        result.worse.append(request)


def differences(assignor: str, requests: Sequence[Request]) -> list[tuple[Request, PeerAnswer | str]]:
    """The requests to which the peer of the same name has another answer."""
    return [
        (request, theirs)
        for request, theirs in zip(requests, ask((assignor, request) for request in requests), strict=True)
        if isinstance(theirs, str) or not _same(assignor, request, theirs)
    ]


def _same(assignor: str, request: Request, theirs: PeerAnswer) -> bool:
    ours = get(assignor)(request)
    pairs = ((ours.assignment, theirs.assignment), (ours.withheld, theirs.withheld))
    return all(
        {name: tuple(hand) for name, hand in mine.items() if hand}
        == {name: tuple(sorted(hand)) for name, hand in his.items() if hand}
        for mine, his in pairs
    )
