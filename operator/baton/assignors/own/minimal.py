"""Baton's own: the most even assignment that exists, with the fewest moves, then the fewest zone mismatches.

Even means: the sum of load² / capacity is least, where a load is the weight of what a member has (where nothing weighs anything,
the number). `docs/concepts/minimal.md` has the proof.
"""

from collections.abc import Sequence

from baton.assignors.building_blocks.partition_list import PartitionList
from baton.assignors.contract import AssignorError
from baton.assignors.declaration import Declaration
from baton.assignors.own.count_table import CountTable
from baton.assignors.own.fewest_moves import settle
from baton.assignors.own.most_even import level
from baton.assignors.own.partition_kinds import GroupedRequest, grouped
from baton.assignors.own.unequal_weights import weigh
from baton.assignors.request import Answer, Request
from baton.model.ids import Partition

MOST_ARCS = 1_000_000
"""Pairs of a kind and a reader of it: 130 MB, and five seconds where everything moves."""


def minimal(request: Request) -> Answer:
    """Nothing that is more even exists; of what is as even, nothing moves less; of that, nothing has fewer zone mismatches.

    Where much moves, the search for the fewest moves ends early (`fewest_moves`), and more may move than has to. Where partitions
    weigh differently, all of this is proved for small groups only (`unequal_weights`).
    """
    group = grouped(request)
    _check_room(group)
    alike = len({kind.weight for kind in group.kinds}) <= 1
    return Answer(dict(zip(group.members, _count(group) if alike else _weigh(group), strict=True)))


def _check_room(group: GroupedRequest) -> None:
    kinds, arcs = len(group.kinds), sum(len(kind.readers) for kind in group.kinds)
    if arcs > MOST_ARCS:
        raise AssignorError(
            "minimal",
            f"finds {kinds:,} kinds of partitions (of the same zones, weight and readers), and their readers would come to "
            f"{arcs:,} in all, more than {MOST_ARCS:,}: let more partitions have the same in spec.partitionAttributes of the "
            "queues, or name another assignor in spec.assignors",
        )


def _count(group: GroupedRequest) -> Sequence[PartitionList]:
    """All partitions weigh the same."""
    table = CountTable(group)
    level(table)
    settle(table)
    return table.hands()


def _weigh(group: GroupedRequest) -> Sequence[PartitionList]:
    hands: list[list[Partition]] = [[] for _ in group.members]
    for partition, place in weigh(group).items():
        hands[place].append(partition)
    return [PartitionList.of(hand) for hand in hands]


MINIMAL = Declaration(
    name="minimal",
    assign=minimal,
    source="Baton",
    good_at="The most even totals that exist, with the fewest moves, then the fewest zone mismatches: [proved](minimal.md). "
    "Weights of partitions and capacities of members",
    costs="A queue by itself may be uneven",
)
