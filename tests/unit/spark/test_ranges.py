"""Where ranges are read, and by which task."""

from collections import Counter

from baton.spark.executors import by_pod
from baton.spark.queues import Range
from baton.spark.ranges import ROWS, owners, placed, range_tasks, ranges
from tests.ids import a_partition
from tests.unit.spark.builders import executor, grant

P0, P1, P2 = (a_partition("orders", number) for number in range(3))
FLEET = by_pod([executor(1), executor(2)])


def test_a_range_is_what_lies_between_two_offsets() -> None:
    assert ranges({P0: 3, P1: 4}, {P1: 9, P0: 3}) == [Range(P1, 4, 9)]


def test_a_partition_that_enters_has_no_rows_in_that_batch() -> None:
    assert ranges({P0: 3}, {P0: 4, P1: 9}) == [Range(P0, 3, 4)]


def test_a_partition_that_went_stays_where_it_was() -> None:
    assert ranges({P0: 3, P1: 4}, {P0: 5}) == [Range(P0, 3, 5)]


def test_owners_are_executors_that_can_be_given_a_task() -> None:
    grants = {P0: grant("exec-1", 0), P1: grant("exec-9", 1), a_partition("orders", 2): grant("exec-2", 2)}
    assert owners(grants, FLEET, [P0, P1]) == {P0: grant("exec-1", 0)}


def test_a_range_prefers_its_owner_s_executor() -> None:
    told = placed(Range(P0, 3, 4), grant("exec-2", 0, 7), FLEET, 0)
    assert (told["uid"], told["epoch"], told["executor"], told["location"]) == ("uid-exec-2", 7, "2", "executor_10.0.0.2_2")


def test_without_an_owner_it_is_borrowed_by_anybody() -> None:
    for owner in (None, grant("exec-9", 0, 7)):
        told = placed(Range(P0, 3, 4), owner, FLEET, 0)
        assert (told["uid"], told["epoch"], told["executor"], told["location"]) == ("", 0, "", "")


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
