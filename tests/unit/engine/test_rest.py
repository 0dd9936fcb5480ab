"""A group at rest costs what its observation costs: no partition is looked at, however many there are."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import cast

from baton.engine import step
from baton.engine.state import PartitionRecord
from baton.model.ids import Partition
from tests.unit.engine.group import Group


class Untouchable(Mapping[Partition, PartitionRecord]):
    """Partitions that nobody may look at."""

    def __getitem__(self, key: Partition) -> PartitionRecord:
        raise AssertionError(f"{key} was looked at")

    def __iter__(self) -> Iterator[Partition]:
        raise AssertionError("all partitions were looked at")

    def __len__(self) -> int:
        raise AssertionError("all partitions were looked at")


def test_a_step_that_sees_nothing_new_looks_at_no_partition() -> None:
    group = Group(partitions=4).join("a", "b")
    group.settle(at=0)
    group.settle(at=5)
    rest = step(group.state, group.observe(), 6.0).state
    state = replace(rest, records=cast(dict[Partition, PartitionRecord], Untouchable()))
    assert step(state, group.observe(), 7.0).state is state
