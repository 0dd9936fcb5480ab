"""Five hundred random fleets, each from one seed, with everything that can go wrong.

What is checked is in `seeds/checks.py`, from the consumers' side; how the world works is in docs/development/simulation.md.
"""

import os

import pytest

from baton.engine.state_machine import GROUP_TRANSITIONS, PARTITION_TRANSITIONS
from tests.simulation.seeds.workers import Found, play_all

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "500"))


@pytest.fixture(scope="module")
def found() -> Found:
    together = Found([], set())
    for _, part in play_all(0, SEEDS):
        together.wrong.extend(part.wrong)
        together.turns.update(part.turns)
    return together


@pytest.mark.timeout(7200)
def test_whatever_happens_nobody_is_harmed_and_everybody_is_served(found: Found) -> None:
    assert not found.wrong, "\n".join(
        f"{problem}\n    make simulate-long FROM={seed} SEEDS=1" for seed, problem in found.wrong[:10]
    )


def test_the_engine_makes_the_transitions_of_the_table_and_no_others(found: Found) -> None:
    partition = {(turn.before, turn.after) for turn in PARTITION_TRANSITIONS}
    group = {(turn.before, turn.after) for turn in GROUP_TRANSITIONS}
    seen = {kind: {(before, after) for of, before, after in found.turns if of == kind} for kind in ("partition", "group")}
    together = {(one, other) for one, middle in partition for again, other in partition if middle == again}
    assert seen["partition"] - partition - together == set()
    assert seen["group"] - group == set()
    assert (partition - seen["partition"], group - seen["group"]) == (set(), set()), "the table has what never happens"
