"""What tasks report, and what is counted of it."""

import json

from baton.spark.statistics import Counts, How, RangeReport, Statistics, outcomes, parse_reports
from tests.ids import a_partition

P0, P1 = (a_partition("orders", number) for number in range(2))


def report(how: How, partition: int = 0, end: int = 9) -> RangeReport:
    return RangeReport(a_partition("orders", partition), end, how, 5, 50)


def test_what_the_jvm_reports() -> None:
    text = """[{"queue":"orders","partition":1,"end":9,"how":"lent","rows":5,"bytes":50},
              {"queue":"orders","partition":0,"end":9,"how":"refused"}]"""
    lent, refused = parse_reports(text)
    assert lent == RangeReport(P1, 9, How.LENT, 5, 50)
    assert (refused.how, refused.rows) == (How.REFUSED, 0)


def test_a_range_that_anybody_had_to_borrow_was_not_read_by_its_owner() -> None:
    assert outcomes({P0: 9}, [report(How.OWNER), report(How.LENT), report(How.OWNER)]) == {P0: How.LENT}


def test_a_refusal_decides_nothing() -> None:
    assert outcomes({P0: 9, P1: 9}, [report(How.REFUSED), report(How.OWNER), report(How.REFUSED, 1)]) == {P0: How.OWNER}


def test_reports_of_another_batch_are_passed_over() -> None:
    assert outcomes({P0: 9}, [report(How.LENT, end=5)]) == {}


def test_an_attempt_that_failed_has_read_nothing_and_was_not_refused() -> None:
    assert outcomes({P0: 9}, [report(How.FAILED)]) == {}
    counts = Counts()
    counts.batch(1, {}, [report(How.FAILED), report(How.REFUSED)])
    assert counts.statistics().reads_refused == 1


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
