import json

from baton.spark.receipts import ReadOutcome, Receipt
from baton.spark.statistics import Counts, Statistics


def test_the_share_of_ranges_read_on_their_owner() -> None:
    counts = Counts()
    counts.read(
        [Receipt("b", 0, ReadOutcome.READ, 7), Receipt("b", 1, ReadOutcome.NOT_OWNER), Receipt("b", 2, ReadOutcome.READ, 3)]
    )
    found = counts.statistics()
    assert (found.ranges_planned, found.ranges_read_on_owner, found.entries) == (3, 2, 10)
    assert found.ranges_refused == {"not-owner": 1}
    assert json.loads(found.to_json())["owner_share"] == 0.666667


def test_a_fleet_that_has_read_nothing_has_read_nothing_in_the_wrong_place() -> None:
    assert Statistics().owner_share == 1.0
