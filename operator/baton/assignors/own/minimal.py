"""Baton's own: the most even assignment that exists, with the fewest moves, then the fewest zone mismatches.

The most even assignment has the least sum of load² / capacity. A member's load is the weight of its partitions.
`docs/concepts/minimal.md` has the proof.
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
"""Pairs of a kind of partitions and a reader of it: 130 MB, and five seconds where everything moves."""


def minimal(request: Request) -> Answer:
    """No assignment is more even. Of those as even none moves less, and of those none has fewer zone mismatches.

    Where much moves, the search for the fewest moves ends early (`fewest_moves`), and more may move than has to. Where partitions
    weigh differently, this is proved for small groups only (`unequal_weights`). Raises AssignorError above MOST_ARCS.
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
    """The answer where all partitions weigh the same: by numbers of partitions."""
    table = CountTable(group)
    level(table)
    settle(table)
    return table.owned_by()


def _weigh(group: GroupedRequest) -> Sequence[PartitionList]:
    owned_by: list[list[Partition]] = [[] for _ in group.members]
    for partition, place in weigh(group).items():
        owned_by[place].append(partition)
    return [PartitionList.of(owned) for owned in owned_by]


MINIMAL = Declaration(
    name="minimal",
    assign=minimal,
    source="Baton",
    good_at="The most even totals that exist, with the fewest moves, then the fewest zone mismatches: [proved](minimal.md). "
    "Weights of partitions and capacities of members",
    costs="A queue by itself may be uneven",
)
