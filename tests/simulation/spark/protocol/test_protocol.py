"""The protocol of logged ranges (docs/development/spark-source.md), before anybody's code: whatever happens, it holds what it
promises; and without any one of its rules it does not.
"""

import os
from dataclasses import replace

import pytest

from tests.simulation.spark.protocol.shape import Shape
from tests.simulation.spark.protocol.walks import at_random, in_every_order

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "10000")) // 5

SMALL = (
    Shape(entries=2, executors=2, deaths=1, lost=1, grants=1),
    Shape(entries=1, executors=1, drivers=2, lost=1),
    Shape(entries=2, most=1, executors=1, failovers=1),
    Shape(entries=1, executors=2, evaluations=2, lost=1),
    Shape(entries=1, executors=1, deaths=1, seals=1),
)

LARGE = Shape(partitions=2, executors=2, entries=8, most=3, deaths=2, lost=2, grants=2)
RULES = {
    "queries grow": replace(LARGE, drivers=2),
    "loans end with the query": replace(LARGE, partitions=1, entries=12, most=1, lost=0),
    "attempts grow": replace(LARGE, partitions=1, lost=4, most=6),
    "the owner is asked for its attempt": replace(LARGE, partitions=1, lost=4, most=6),
    "tasks of a stage are told apart": replace(LARGE, partitions=1, evaluations=4, most=8, lost=0, executors=3),
    "a grant voids nothing": replace(LARGE, grants=8),
    "what is gone is told": replace(LARGE, drivers=2, failovers=1),
    "a jump finishes nothing": replace(LARGE, failovers=2),
    "a lost log is made good": replace(LARGE, failovers=2),
    "a single acknowledgement voids": replace(LARGE, partitions=1, singles=3),
    "what was committed is finished once more": replace(LARGE, seals=2),
}
"""Each rule, and worlds in which somebody is harmed when it is not kept."""

ENOUGH = 2000
"""Worlds, of which one at least shows it."""


def test_whatever_happens_a_batch_has_the_same_rows_and_each_entry_is_in_one() -> None:
    wrong = [f"seed {seed}: {problem}" for seed in range(SEEDS) if (problem := at_random(seed))]
    assert not wrong, "\n".join(wrong[:10])


@pytest.mark.parametrize("shape", SMALL)
def test_in_a_small_world_it_holds_in_every_order_of_events(shape: Shape) -> None:
    count, problem, way = in_every_order(shape, 15_000)
    assert problem is None, f"{problem}, by {way}"
    assert count > 500


@pytest.mark.parametrize("rule", RULES)
def test_without_any_one_rule_somebody_is_harmed(rule: str) -> None:
    shape = replace(RULES[rule], broken=frozenset({rule}))
    assert any(at_random(seed, replace(shape)) for seed in range(ENOUGH))
