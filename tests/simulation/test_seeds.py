"""Ten thousand random fleets, each from one seed, with everything that can go wrong: nobody is harmed, and in the end
everybody is served.

What is checked is in `seeds/checks.py`, from the consumers' side; how the world works is in docs/development/simulation.md.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest
from tests.simulation.__main__ import wrong

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "10000"))
CHUNK = 100


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        yield pool


def test_whatever_happens_nobody_is_harmed_and_everybody_is_served(pool: ProcessPoolExecutor) -> None:
    firsts = range(0, SEEDS, CHUNK)
    found = [each for part in pool.map(wrong, firsts, [CHUNK] * len(firsts)) for each in part]
    assert not found, "\n".join(f"{problem}\n    make simulate-long FROM={seed} SEEDS=1" for seed, problem in found[:10])
