"""Baton's own: the most even assignment that exists, with the fewest moves, then the fewest zone mismatches.

Even means: the sum of load² / capacity is least, where a load is the weight of what a member has (where nothing weighs anything,
the number). `docs/concepts/minimal.md` has the proof.
"""

from collections.abc import Sequence

from baton.assignors.fewest_moves import settle
from baton.assignors.hand import Hand
from baton.assignors.kinds import Group, grouped
from baton.assignors.levelling import level
from baton.assignors.request import Answer, Request
from baton.assignors.table import Table
from baton.assignors.weighted import weigh
from baton.model.ids import Partition


def minimal(request: Request) -> Answer:
    """Nothing that is more even exists; of what is as even, nothing moves less; of that, nothing has fewer zone mismatches.

    Where partitions weigh differently that is proved for small groups only (`baton.assignors.weighted`).
    """
    group = grouped(request)
    alike = len({kind.weight for kind in group.kinds}) <= 1
    return Answer(dict(zip(group.members, _count(group) if alike else _weigh(group), strict=True)))


def _count(group: Group) -> Sequence[Hand]:
    """All partitions weigh the same."""
    table = Table(group)
    level(table)
    settle(table)
    return table.hands()


def _weigh(group: Group) -> Sequence[Hand]:
    hands: list[list[Partition]] = [[] for _ in group.members]
    for partition, place in weigh(group).items():
        hands[place].append(partition)
    return [Hand.of(hand) for hand in hands]
