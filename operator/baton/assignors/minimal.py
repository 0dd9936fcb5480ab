"""Baton's own: the most even assignment that exists, with the fewest moves, then the fewest zone mismatches.

Even means: the sum of load² / capacity is least, where a load is the weight of what a member has (where nothing weighs anything,
the number). `docs/concepts/minimal.md` has the proof.
"""

from collections.abc import Sequence

from baton.assignors.contract import AssignorError
from baton.assignors.fewest_moves import settle
from baton.assignors.hand import Hand
from baton.assignors.kinds import Group, grouped
from baton.assignors.levelling import level
from baton.assignors.request import Answer, Request
from baton.assignors.table import Table
from baton.assignors.weighted import weigh
from baton.model.ids import Partition

MOST_ARCS = 1_000_000
"""Pairs of a kind and a reader of it: 130 MB, and five seconds where everything moves."""


def minimal(request: Request) -> Answer:
    """Nothing that is more even exists; of what is as even, nothing moves less; of that, nothing has fewer zone mismatches.

    Where so much moves that it would take long (`baton.assignors.fewest_moves`) more may move than has to. Where partitions weigh
    differently all of this is proved for small groups only (`baton.assignors.weighted`).
    """
    group = grouped(request)
    _check_room(group)
    alike = len({kind.weight for kind in group.kinds}) <= 1
    return Answer(dict(zip(group.members, _count(group) if alike else _weigh(group), strict=True)))


def _check_room(group: Group) -> None:
    kinds, arcs = len(group.kinds), sum(len(kind.readers) for kind in group.kinds)
    if arcs > MOST_ARCS:
        raise AssignorError(
            "minimal",
            f"finds {kinds:,} kinds of partitions (of the same zones, weight and readers), and their readers would come to "
            f"{arcs:,} in all, more than {MOST_ARCS:,}: let more partitions have the same in spec.partitionAttributes of the "
            "queues, or name another assignor in spec.assignors",
        )


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
