"""Five hundred lives of Spark fleets, each from one seed, with the product's own decisions in their drivers.

What happens is in docs/development/simulation.md; what has to hold in `promises.py`.
"""

import logging
import os
from collections.abc import Iterator

import pytest

from tests.simulation.spark.life import live

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "10000")) // 20


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Silence the log: faults of the simulated worlds fill it."""
    logger = logging.getLogger("baton.spark")
    before, logger.disabled = logger.disabled, True
    yield
    logger.disabled = before


@pytest.mark.timeout(7200)
def test_whatever_happens_a_batch_has_the_same_rows_and_each_entry_is_in_one() -> None:
    wrong = [f"{problem}\n    python -m tests.simulation --spark {seed}" for seed in range(SEEDS) if (problem := live(seed))]
    assert not wrong, "\n".join(wrong[:10])
