from baton.spark.receipts import ReadOutcome, Receipt, verdicts


def read(number: int) -> Receipt:
    return Receipt("b", number, ReadOutcome.READ, 10)


def refused(number: int) -> Receipt:
    return Receipt("b", number, ReadOutcome.NOT_OWNER)


def test_a_range_that_was_read_may_be_committed() -> None:
    assert verdicts(1, [read(0)])[0].outcome is ReadOutcome.READ


def test_a_range_that_was_refused_may_not() -> None:
    assert verdicts(2, [read(0), refused(1)])[1].outcome is ReadOutcome.NOT_OWNER


def test_a_range_that_was_read_and_later_refused_may_not_for_the_function_saw_too_little() -> None:
    assert verdicts(1, [read(0), refused(0)])[0].outcome is ReadOutcome.NOT_OWNER
    assert verdicts(1, [refused(0), read(0)])[0].outcome is ReadOutcome.NOT_OWNER


def test_a_range_that_was_read_twice_on_its_owner_may() -> None:
    assert verdicts(1, [read(0), read(0)])[0].outcome is ReadOutcome.READ


def test_a_range_that_no_finished_task_reported_was_not_read() -> None:
    assert verdicts(1, [])[0].outcome is ReadOutcome.FAILED
