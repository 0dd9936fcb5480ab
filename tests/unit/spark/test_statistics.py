import json

from baton.spark.statistics import Counts, How, RangeReport, Statistics
from tests.ids import a_partition

P0, P1, P2 = (a_partition("orders", number) for number in range(3))


def test_the_share_of_ranges_read_on_their_owner() -> None:
    counts = Counts()
    reports = [RangeReport(P0, 9, How.OWNER, 7, 70), RangeReport(P1, 9, How.REFUSED, 0, 0), RangeReport(P1, 9, How.LENT, 3, 30)]
    counts.batch(3, {P0: How.OWNER, P1: How.LENT}, reports)
    found = counts.statistics()
    assert (found.batches, found.ranges_planned, found.ranges_read_on_owner, found.ranges_lent) == (1, 3, 1, 1)
    assert (found.rows, found.bytes, found.reads_refused) == (10, 100, 1)
    assert json.loads(found.to_json())["owner_share"] == 0.333333


def test_a_batch_without_a_range_is_none() -> None:
    counts = Counts()
    counts.batch(0, {}, [])
    assert counts.statistics() == Statistics()


def test_a_fleet_that_has_read_nothing_has_read_nothing_in_the_wrong_place() -> None:
    assert Statistics().owner_share == 1.0


def test_steps_are_measured() -> None:
    counts = Counts()
    for _ in range(2):
        with counts.step("log"):
            pass
    assert counts.step_seconds().keys() == {"log"}
