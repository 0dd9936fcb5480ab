"""Which ranges a task reads."""

from collections import Counter

from baton.spark.ranges import ROWS, range_tasks


def loads(ranges: list[tuple[str, int]], slots: int = 1) -> list[int]:
    """Rows of each task."""
    found: Counter[int] = Counter()
    for task, (_, rows) in zip(range_tasks(ranges, {"1": slots, "2": slots}), ranges, strict=True):
        found[task] += rows
    return sorted(found.values())


def test_small_ranges_of_an_executor_are_read_by_as_many_tasks_as_it_runs_at_a_time() -> None:
    assert loads([("1", 10)] * 8) == [80]
    assert loads([("1", 10)] * 8, slots=2) == [40, 40]
    assert loads([("1", 10)], slots=2) == [10]


def test_no_task_reads_for_two_executors() -> None:
    ranges = [("1", 10), ("2", 10)] * 4
    tasks = range_tasks(ranges, {"1": 1, "2": 1})
    assert {(task, executor) for task, (executor, _) in zip(tasks, ranges, strict=True)} == {(tasks[0], "1"), (tasks[1], "2")}
    assert tasks[0] != tasks[1]


def test_a_range_that_is_large_enough_has_a_task_of_its_own() -> None:
    assert loads([("1", ROWS)] * 3) == [ROWS] * 3
    assert loads([("1", 100 * ROWS), ("1", 1), ("1", 1)]) == [1, 1, 100 * ROWS]


def test_rows_are_shared_out_evenly_and_no_slot_is_left_without_work() -> None:
    found = loads([("1", 100)] * 450, slots=4)
    assert len(found) % 4 == 0
    assert max(found) - min(found) <= 100
    assert max(found) <= ROWS


def test_what_may_be_read_anywhere_is_read_by_whoever_is_free() -> None:
    assert loads([("", 1)] * 3) == [1, 1, 1]
