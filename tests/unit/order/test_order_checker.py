"""The checker of order: each test breaks one promise in an otherwise clean record. test_audit.py has more."""

import gc
import tracemalloc

from baton.order import OrderChecker, OrderViolation, Processing, Report
from baton.order.checker import MOST_HOLES

DEAD_OWNER = Processing("k", 1, partition=3, member="orders-a", epoch=1, time=1.0)
NEXT_OWNER = DEAD_OWNER._replace(member="orders-b", epoch=2, time=9.0)


def check(*those: Processing, first: int | None = 1, produced: dict[str, tuple[int, int]] | None = None) -> Report:
    checker = OrderChecker(first=first, produced=produced)
    for one in those:
        checker.add(one)
    return checker.report()


def run(begin: int, end: int, like: Processing = DEAD_OWNER) -> list[Processing]:
    return [like._replace(sequence=number) for number in range(begin, end + 1)]


def count(report: Report, fault: OrderViolation) -> int:
    return report.tallies[fault].count


def test_a_gap_is_one_finding_that_names_its_neighbours() -> None:
    report = check(*run(1, 3), *run(7, 9, NEXT_OWNER))
    [gap] = report.tallies[OrderViolation.GAP].findings
    assert (gap.first, gap.last, count(report, OrderViolation.GAP)) == (4, 6, 3)
    assert gap.before is not None and gap.by is not None
    assert (gap.before.member, gap.by.member) == ("orders-a", "orders-b")
    assert gap.text == (
        "k #4 to #6 were never processed; "
        "#3 was by orders-a (partition 3, epoch 1, 1970-01-01T00:00:01.000Z), "
        "#7 was by orders-b (partition 3, epoch 2, 1970-01-01T00:00:09.000Z)"
    )


def test_a_gap_filled_later_is_out_of_order_and_not_lost() -> None:
    report = check(*run(1, 3), *run(5, 5), *run(4, 4))
    assert (count(report, OrderViolation.GAP), count(report, OrderViolation.OUT_OF_ORDER)) == (0, 2)


def test_losses_at_the_end_are_found_only_with_the_sent_messages() -> None:
    assert check(*run(1, 3)).clean
    report = check(*run(1, 3), produced={"k": (1, 4), "never seen": (1, 2)})
    assert count(report, OrderViolation.GAP) == 3
    assert [(one.key, one.gaps) for one in report.worst] == [("never seen", 2), ("k", 1)]


def test_messages_beyond_the_recorded_sends_are_no_fault() -> None:
    assert check(*run(1, 5), produced={"k": (1, 3)}).clean


def test_first_decides_where_a_key_begins() -> None:
    assert count(check(*run(5, 6)), OrderViolation.GAP) == 4
    assert check(*run(5, 6), first=None).clean
    assert count(check(*run(5, 6), first=None, produced={"k": (3, 6)}), OrderViolation.GAP) == 2
    report = check(*run(0, 1))
    assert "its key begins with #1" in report.tallies[OrderViolation.OUT_OF_ORDER].examples[0]


def test_a_duplicate_names_both_members() -> None:
    report = check(*run(1, 3), *run(2, 2, NEXT_OWNER))
    [duplicate] = report.tallies[OrderViolation.DUPLICATE].findings
    assert duplicate.before is not None and duplicate.by is not None
    assert (duplicate.before.member, duplicate.by.member) == ("orders-a", "orders-b")


def test_redelivered_messages_are_counted_and_no_fault() -> None:
    report = check(*run(1, 3), *run(2, 4, NEXT_OWNER._replace(redelivered=True)))
    assert report.clean
    assert (count(report, OrderViolation.REDELIVERED), report.processed) == (3, 4)
    assert "before by orders-a" in report.tallies[OrderViolation.REDELIVERED].examples[0]


def test_sequences_grow_within_a_run_even_if_redelivered() -> None:
    again = NEXT_OWNER._replace(redelivered=True, run="one")
    assert count(check(*run(1, 3), *run(3, 3, again), *run(2, 2, again)), OrderViolation.OUT_OF_ORDER) == 1
    assert check(*run(1, 3), *run(3, 3, again), *run(2, 2, again._replace(run="another"))).clean


def _taken_by_the_checker() -> int:
    """Bytes. Other threads of this process may take some, too."""
    gc.collect()
    ours = tracemalloc.take_snapshot().filter_traces(
        [tracemalloc.Filter(True, "*/baton/order/*"), tracemalloc.Filter(True, __file__)]
    )
    return sum(one.size for one in ours.traces)


def test_memory_grows_with_keys_and_not_with_records() -> None:
    checker = OrderChecker()
    tracemalloc.start()
    try:
        for one in run(1, 2_000):
            checker.add(one)
        small = _taken_by_the_checker()
        for number in range(2_001, 20_000):
            checker.add((NEXT_OWNER if number // 50 % 2 else DEAD_OWNER)._replace(sequence=number, run=str(number)))
        assert _taken_by_the_checker() - small < 50_000
    finally:
        tracemalloc.stop()
    assert checker.report().clean


def test_the_oldest_of_many_gaps_are_forgotten_and_still_counted() -> None:
    holes = MOST_HOLES + 50
    report = check(*(DEAD_OWNER._replace(sequence=2 * number) for number in range(1, holes + 1)))
    assert count(report, OrderViolation.GAP) == holes
