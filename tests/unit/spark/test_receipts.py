from baton.spark.statistics import Counts, How, RangeReport, foreign_entries, outcomes, parse_reports
from tests.ids import a_partition

P0, P1 = (a_partition("orders", number) for number in range(2))


def report(how: How, partition: int = 0, end: int = 9, foreign: tuple[str, ...] = ()) -> RangeReport:
    return RangeReport(a_partition("orders", partition), end, how, 5, 50, foreign)


def test_what_the_jvm_reports() -> None:
    text = """[{"queue":"orders","partition":1,"end":9,"how":"lent","rows":5,"bytes":50,"foreign":["3-1"]},
              {"queue":"orders","partition":0,"end":9,"how":"refused"}]"""
    lent, refused = parse_reports(text)
    assert lent == RangeReport(P1, 9, How.LENT, 5, 50, ("3-1",))
    assert (refused.how, refused.rows) == (How.REFUSED, 0)


def test_a_range_that_anybody_had_to_borrow_was_not_read_by_its_owner() -> None:
    assert outcomes({P0: 9}, [report(How.OWNER), report(How.LENT), report(How.OWNER)]) == {P0: How.LENT}


def test_a_refusal_decides_nothing() -> None:
    assert outcomes({P0: 9, P1: 9}, [report(How.REFUSED), report(How.OWNER), report(How.REFUSED, 1)]) == {P0: How.OWNER}


def test_reports_of_another_batch_are_passed_over() -> None:
    assert outcomes({P0: 9}, [report(How.LENT, end=5)]) == {}
    assert foreign_entries({P0: 9}, [report(How.OWNER, end=5, foreign=("3-1",))]) == {}


def test_of_foreign_entries_the_attempt_that_came_farthest_knows_most() -> None:
    early, whole = report(How.OWNER, foreign=("3-1",)), report(How.LENT, foreign=("3-1", "4-1"))
    assert foreign_entries({P0: 9}, [whole, early]) == foreign_entries({P0: 9}, [early, whole]) == {P0: ("3-1", "4-1")}


def test_an_attempt_that_failed_has_read_nothing_and_was_not_refused() -> None:
    assert outcomes({P0: 9}, [report(How.FAILED)]) == {}
    counts = Counts()
    counts.batch(1, {}, [report(How.FAILED), report(How.REFUSED)])
    assert counts.statistics().reads_refused == 1
