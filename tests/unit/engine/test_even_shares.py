"""Sizes at which every pod has equally many partitions."""

import pytest

from baton.engine.observation import even_size


@pytest.mark.parametrize(
    ("partitions", "sizes"),
    [
        (64, [0, 1, 2, 2, 4, 4, 4, 4, 8, 8]),
        (12, [0, 1, 2, 3, 4, 4, 6, 6, 6, 6]),
        (13, [0, 1, 1, 1, 1, 1, 1, 1, 1, 1]),
        (4, [0, 1, 2, 2, 4, 4, 4, 4, 4, 4]),
    ],
)
def test_the_next_smaller_size_that_divides_the_partitions(partitions: int, sizes: list[int]) -> None:
    assert [even_size(replicas, partitions) for replicas in range(10)] == sizes


def test_before_there_are_partitions_any_size_will_do() -> None:
    assert even_size(5, 0) == 5
