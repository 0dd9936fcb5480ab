"""Whatever befalls two drivers of a group and all around them: the table has every row once, and each partition's in order."""

import os
import time
from pathlib import Path

import pytest

from tests.file_sink import out_of_order, written
from tests.integration.spark.chaos import Chaos, running
from tests.integration.spark.chaos_troubles import troubles
from tests.waiting import until

pytestmark = pytest.mark.integration

SEED = int(os.environ.get("BATON_CHAOS_SEED", "1"))
SECONDS = float(os.environ.get("BATON_CHAOS_SECONDS", "40"))
"""For which troubles befall them. `make soak-spark` has other seeds."""
BOOT, REST = 600.0, 600.0
"""Seconds that a busy machine may take for a driver and its executors; and for what is left when all is mended."""


@pytest.mark.timeout(BOOT + REST + 2 * SECONDS)
def test_whatever_befalls_two_drivers_the_table_has_every_row_once_and_in_order(tmp_path: Path) -> None:
    with running(tmp_path) as chaos:
        try:
            until(lambda: at_work(chaos), "the first rows are in the table", BOOT)
            begun = time.monotonic()
            for trouble in troubles(SEED, SECONDS):
                until(lambda trouble=trouble: passed(chaos, begun, trouble.at), "it is time", SECONDS)  # type: ignore[misc]
                print(f"seed {SEED}: {time.monotonic() - begun:5.1f} s, {sum(written(chaos.table).values())} rows: {trouble}")
                chaos.befall(trouble)
            until(lambda: passed(chaos, begun, SECONDS), "the last ones have lasted", SECONDS)
            sent = chaos.producer.stop()
            chaos.mend()
            print(f"seed {SEED}: {time.monotonic() - begun:5.1f} s, all is mended, {sent} sent")
            until(lambda: at_work(chaos) and sum(written(chaos.table).values()) >= sent, "all rows are in the table", REST)
            print(f"seed {SEED}: {time.monotonic() - begun:5.1f} s, all rows are there")
        except BaseException:
            for driver in chaos.drivers:
                print((tmp_path / f"{driver}.log").read_text()[-4000:])
            raise
    rows = written(chaos.table)
    twice = [place for place, count in rows.items() if count > 1]
    assert not twice, f"seed {SEED}: {twice[:10]}"
    assert len(rows) == sent, f"seed {SEED}"
    assert out_of_order(chaos.table) == [], f"seed {SEED}"


def at_work(chaos: Chaos) -> bool:
    chaos.go_on()
    return bool(written(chaos.table))


def passed(chaos: Chaos, begun: float, seconds: float) -> bool:
    chaos.go_on()
    return time.monotonic() - begun >= seconds
