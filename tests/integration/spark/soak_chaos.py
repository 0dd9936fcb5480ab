"""Random faults for two drivers of a group and their servers, by a seed: the table has every row once, and in order."""

import os
from pathlib import Path

import pytest

from tests.integration.spark.chaos import BUSY, see_every_row_once, troubles

SEED = int(os.environ.get("BATON_CHAOS_SEED", "1"))
"""Set by `make soak-spark`, which names this file; by its name, `make test` does not collect it."""


@pytest.mark.timeout(4 * BUSY)
def test_the_table_has_every_row_once_and_in_order_under_random_faults(tmp_path: Path) -> None:
    see_every_row_once(tmp_path, SEED, troubles(SEED))
