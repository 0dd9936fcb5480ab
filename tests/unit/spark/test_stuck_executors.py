from baton.spark.fleet_loop import stuck_executors, to_kill
from tests.unit.spark.builders import executor

PATIENCE = 5.0


def test_an_executor_that_missed_a_deadline_and_is_the_last_at_work_is_killed_after_a_while() -> None:
    fleet = [executor(1, active=1), executor(2)]
    found = stuck_executors(None, fleet, frozenset({"1"}), now=100.0)
    assert to_kill(found, PATIENCE, 104.9) == frozenset()
    found = stuck_executors(found, fleet, frozenset({"1"}), now=105.0)
    assert to_kill(found, PATIENCE, 105.0) == {"1"}


def test_nobody_is_killed_while_others_still_work_on_the_batch() -> None:
    fleet = [executor(1, active=1), executor(2, active=1)]
    assert stuck_executors(None, fleet, frozenset({"1"}), 0.0) is None


def test_the_clock_starts_only_when_the_others_are_done() -> None:
    missed = frozenset({"1"})
    found = stuck_executors(None, [executor(1, active=1), executor(2, active=1)], missed, 0.0)
    found = stuck_executors(found, [executor(1, active=1), executor(2)], missed, 50.0)
    assert found is not None
    assert found.since == 50.0


def test_a_slow_executor_that_kept_its_deadlines_is_left_alone() -> None:
    assert stuck_executors(None, [executor(1, active=1)], frozenset(), 0.0) is None


def test_a_function_that_is_busy_in_the_driver_is_nobody_s_fault() -> None:
    assert stuck_executors(None, [executor(1), executor(2)], frozenset({"1"}), 0.0) is None


def test_who_finishes_tasks_is_slow_and_not_stopped() -> None:
    missed = frozenset({"1"})
    found = stuck_executors(None, [executor(1, active=1, finished=3)], missed, 0.0)
    found = stuck_executors(found, [executor(1, active=1, finished=4)], missed, 4.0)
    assert to_kill(found, PATIENCE, 6.0) == frozenset()


def test_no_hold_up_kills_nobody() -> None:
    assert to_kill(None, PATIENCE, 1e9) == frozenset()
