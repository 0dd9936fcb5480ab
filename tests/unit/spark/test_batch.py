from collections.abc import Mapping

import pytest

from baton.model import Epoch, MemberId, QueueName
from baton.queues.entry import Plan
from baton.spark.batch import Range, in_turn, part_of, plannable, read_task, tasks
from baton.spark.locality import Executor, by_pod, location
from baton.spark.ownership import ownership
from tests.ids import by_member
from tests.unit.spark.builders import entry, executor, grant

ORDERS = QueueName("orders")


def plan(partition: int, start: int = 0, end: int = 10, epoch: int = 1) -> Plan:
    return Plan(partition, Epoch(epoch), start, end, end - start, 0)


@pytest.fixture
def fleet() -> Mapping[MemberId, Executor]:
    return by_pod([executor(1), executor(2)])


def test_a_location_asks_for_the_process_and_not_only_for_the_host() -> None:
    assert location(executor(7)) == "executor_10.0.0.7_7"


def test_what_registered_executors_own_is_planned_in_order(fleet: Mapping[MemberId, Executor]) -> None:
    ledger = ownership([entry("exec-2", {1: 1}), entry("exec-1", {2: 1, 0: 1})])
    assert plannable(ledger, fleet, [ORDERS], None) == [grant("exec-1", 0), grant("exec-2", 1), grant("exec-1", 2)]


def test_a_partition_that_is_to_be_let_go_is_not_planned(fleet: Mapping[MemberId, Executor]) -> None:
    assert plannable(ownership([entry("exec-1", {}, {0: 1})]), fleet, [ORDERS], None) == []


def test_an_owner_that_is_not_registered_with_this_driver_is_not_planned(fleet: Mapping[MemberId, Executor]) -> None:
    assert plannable(ownership([entry("exec-9", {0: 1})]), fleet, [ORDERS], None) == []


def test_a_queue_of_the_group_that_the_fleet_does_not_read_is_left_alone(fleet: Mapping[MemberId, Executor]) -> None:
    assert plannable(ownership([entry("exec-1", {0: 1})]), fleet, [QueueName("payments")], None) == []


def test_a_batch_that_is_repeated_takes_only_the_partitions_that_it_had(fleet: Mapping[MemberId, Executor]) -> None:
    ledger = ownership([entry("exec-1", {0: 1, 1: 1})])
    assert plannable(ledger, fleet, [ORDERS], frozenset({(ORDERS, 1)})) == [grant("exec-1", 1)]


def test_partitions_that_have_waited_longest_are_planned_first() -> None:
    grants = [grant("exec-1", number) for number in range(4)]
    served = {(ORDERS, 0): 7, (ORDERS, 1): 5, (ORDERS, 3): 7}
    assert [one.partition for one in in_turn(grants, served)] == [2, 1, 0, 3]


def test_one_task_per_owner_reads_all_its_ranges(fleet: Mapping[MemberId, Executor]) -> None:
    ranges = [Range(grant(member, number), plan(number)) for number, member in enumerate(["exec-1", "exec-2", "exec-1"])]
    made = tasks(ranges, fleet, by_member({"exec-1": 5}))
    assert [(task.executor.id, [index for index, _ in task.ranges], task.generation) for task in made] == [
        ("1", [0, 2], 5),
        ("2", [1], 0),
    ]


def test_an_executor_with_cores_reads_with_as_many_tasks(fleet: Mapping[MemberId, Executor]) -> None:
    ranges = [Range(grant("exec-1", number), plan(number)) for number in range(5)]
    made = tasks(ranges, fleet, {}, cores=2)
    assert [[index for index, _ in task.ranges] for task in made] == [[0, 2, 4], [1, 3]]


def test_an_executor_with_more_cores_than_ranges_has_no_empty_task(fleet: Mapping[MemberId, Executor]) -> None:
    assert len(tasks([Range(grant("exec-1", 0), plan(0))], fleet, {}, cores=8)) == 1


def test_a_task_reads_in_its_process_what_the_driver_wrote(fleet: Mapping[MemberId, Executor]) -> None:
    ranges = [Range(grant("exec-1", 3, 12), plan(3, 5, 9, 12))]
    (task,) = tasks(ranges, fleet, by_member({"exec-1": 4}))
    work = read_task(task.to_json("17-ab"))
    assert (work.batch, work.generation, work.ranges) == ("17-ab", 4, ((0, ranges[0]),))


def test_a_range_that_was_begun_is_repeated_under_another_epoch_in_whole_or_in_part() -> None:
    assert part_of(plan(0, 5, 9, epoch=2), plan(0, 5, 9, epoch=1))
    assert part_of(plan(0, 5, 7, epoch=2), plan(0, 5, 9, epoch=1))


def test_entries_that_were_not_in_the_batch_are_no_part_of_its_repetition() -> None:
    assert not part_of(plan(0, 9, 12), plan(0, 5, 9))
    assert not part_of(plan(0, 5, 10), plan(0, 5, 9))
