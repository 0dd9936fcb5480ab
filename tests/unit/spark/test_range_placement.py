from baton.spark.executors import by_pod
from baton.spark.queues import Range
from baton.spark.ranges import owners, placed, ranges
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
