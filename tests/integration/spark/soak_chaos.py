"""Whatever befalls two drivers of a group and all around them: the table has every row once, and each partition's in order."""

import os
import time
from pathlib import Path

import pytest

from tests.file_sink import out_of_order, written
from tests.integration.spark.chaos import Chaos, running
from tests.integration.spark.chaos_troubles import Trouble, troubles
from tests.waiting import until

SEED = int(os.environ.get("BATON_CHAOS_SEED", "1"))
"""`make soak-spark` sets it, and names this file: by its name it is none of the tests that `make test` finds."""

BUSY = 600.0
"""Seconds that a busy machine may take: for a driver and its executors, and until a fleet is at work again."""


@pytest.mark.timeout(6 * BUSY)
def test_whatever_befalls_two_drivers_the_table_has_every_row_once_and_in_order(tmp_path: Path) -> None:
    begun = time.monotonic()
    with running(tmp_path) as chaos:
        try:
            until(lambda: more(chaos, 0), "the first rows are in the table", BUSY)
            for trouble in troubles(SEED):
                rest(chaos, trouble)
                print(f"seed {SEED}: {time.monotonic() - begun:5.1f} s, {chaos.rows()} rows: {trouble}", flush=True)
                chaos.befall(trouble)
            rest(chaos, trouble)
            sent = chaos.producer.stop()
            chaos.mend()
            print(f"seed {SEED}: {time.monotonic() - begun:5.1f} s, all is mended, {sent} sent", flush=True)
            until(lambda: more(chaos, sent - 1), "all rows are in the table", BUSY)
            print(f"seed {SEED}: {time.monotonic() - begun:5.1f} s, all rows are there", flush=True)
        except BaseException:
            for driver in chaos.drivers:
                print((tmp_path / f"{driver}.log").read_text()[-4000:])
            raise
    rows = written(chaos.table)
    twice = [place for place, count in rows.items() if count > 1]
    assert not twice, f"seed {SEED}: {twice[:10]}"
    assert len(rows) == sent, f"seed {SEED}"
    assert out_of_order(chaos.table) == [], f"seed {SEED}"


def rest(chaos: Chaos, trouble: Trouble) -> None:
    """As long as the trouble leaves it alone."""
    begun, before = time.monotonic(), chaos.rows()
    until(lambda: going(chaos) and time.monotonic() - begun >= trouble.pause, "it is time", BUSY)
    if trouble.at_work:
        until(lambda: more(chaos, before), "there are more rows in the table", BUSY)


def more(chaos: Chaos, than: int) -> bool:
    return going(chaos) and chaos.rows() > than


def going(chaos: Chaos) -> bool:
    chaos.go_on()
    return True
