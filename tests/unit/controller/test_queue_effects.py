"""How often a queue is asked how much is outstanding."""

import pytest

from baton.controller.queue_effects import LONGEST_POLL, SHORTEST_POLL, pause_between
from tests.waiting import HOUR


@pytest.mark.parametrize(
    ("partitions", "took", "waited", "pause"),
    [
        (7, 0.001, 0.0, SHORTEST_POLL),
        (7, 4.0, 0.0, SHORTEST_POLL),  # the broker is slow, or it was asked for many before: a few are no burden
        (1_000, 0.1, 0.0, 0.1),
        (1_000, 4.0, 0.0, 0.2),
        (7, 0.001, 4.0, 0.1),  # their work takes long
        (7, 0.001, HOUR, LONGEST_POLL),
        (10_000, 1.5, HOUR, 1.5),
    ],
)
def test_many_partitions_are_asked_more_seldom_and_a_few_as_soon_as_their_work_may_be_done(
    partitions: int, took: float, waited: float, pause: float
) -> None:
    assert pause_between(partitions, took, waited) == pytest.approx(pause)
