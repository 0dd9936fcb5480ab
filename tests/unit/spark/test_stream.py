"""The decisions of a query's stream, and rejected queries."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from threading import Thread
from typing import Any, TypeVar

import pytest

from baton.model.ids import Partition, QueueName
from baton.spark.batch_search import LastEntries
from baton.spark.finishing import PlannedBatch
from baton.spark.offsets import AskAgain, BatchOptions, OffsetPlace, Offsets, SourceError, offset_text
from baton.spark.queues import Range
from baton.spark.ranges import batch_read, first_positions
from baton.spark.statistics import How, RangeReport
from baton.spark.stream import Stream, running_query
from tests.fleet_context import fleet_queues
from tests.ids import a_partition, by_queue, epochs
from tests.unit.spark.builders import entry
from tests.unit.spark.queue_without_entries import QueueWithoutEntries
from tests.unit.spark.stream_scene import ORDERS, PARCELS, StreamScene, at, numbers
from tests.waiting import PATIENCE, until


def query_told(**facts: object) -> str:
    return json.dumps({"id": "query", "asyncProgress": False, "once": False, "sources": 1, **facts})


@pytest.mark.parametrize(("batch", "of_files"), [(-1, -1), (4, -1), (4, 3), (4, 4)])
def test_a_file_sink_no_further_than_the_checkpoint_is_accepted(batch: int, of_files: int) -> None:
    assert running_query(query_told(batch=batch, batchOfFiles=of_files)).alone


@pytest.mark.parametrize(("batch", "of_files"), [(-1, 0), (4, 5)])
def test_a_file_sink_that_would_skip_batches_is_rejected(batch: int, of_files: int) -> None:
    with pytest.raises(SourceError, match="rows would be lost"):
        running_query(query_told(batch=batch, batchOfFiles=of_files))


@pytest.fixture
def scene() -> StreamScene:
    return StreamScene()


def told(answer: Mapping[str, Any]) -> list[tuple[int, int, int, str]]:
    """Partition, start, end and executor of each range."""
    return [(one["partition"], one["start"], one["end"], one["executor"]) for one in answer["ranges"]]


def begun(scene: StreamScene, count: int = 0, **options: Any) -> Stream:
    """Add so many entries, and return a stream that was asked for the first batch from position 0."""
    scene.add(count=count)
    stream = scene.stream(**options)
    stream.latest_offset(at(p0=0))
    return stream


def two_partitions(*counts: int) -> StreamScene:
    """Two partitions with an owner and so many entries each."""
    scene = StreamScene(2)
    for number, count in enumerate(counts):
        scene.add(number, count=count)
    scene.own({0: 1, 1: 1})
    return scene


# -- batches


def test_a_query_starts_with_positions_and_then_reads_from_them(scene: StreamScene) -> None:
    scene.add(count=3)
    stream = scene.stream()
    assert numbers(stream.latest_offset("{}")) == {0: 0}
    assert numbers(stream.latest_offset(at(p0=0))) == {0: 3}
    assert told(stream.plan(at(p0=0), at(p0=3), "1")) == [(0, 0, 3, "1")]
    assert (scene.partitions[0].logged, scene.partitions[0].planned) == (0, 3)
    assert scene.ranges.begun == 1


def test_the_last_planned_batch_is_named_by_its_ranges(scene: StreamScene) -> None:
    scene.add(count=3)
    stream = scene.stream()
    stream.latest_offset("{}")
    stream.plan("{}", at(p0=0), "0")
    assert stream.last_plan == "batch 0 without rows"
    stream.plan(at(p0=0), at(p0=3), "1")
    assert stream.last_plan == "batch 1 of 1 range (orders/0 from 1 to 3)"


def test_ranges_name_rows_that_may_have_been_delivered(scene: StreamScene) -> None:
    scene.add(count=3)
    scene.partitions[0].seen = 2
    stream = begun(scene)
    (one,) = stream.plan(at(p0=0), at(p0=3), "1")["ranges"]
    assert one["redeliveredTo"] == 2


def test_rows_a_later_query_repeats_are_marked(scene: StreamScene) -> None:
    scene.add(count=3)
    first, second = scene.stream(), scene.stream()
    first.latest_offset(at(p0=0))
    assert first.plan(at(p0=0), at(p0=3), "1")["ranges"][0]["redeliveredTo"] == 0
    assert first.plan(at(p0=0), at(p0=3), "1")["ranges"][0]["redeliveredTo"] == 0, "Spark plans a batch twice for foreachBatch"
    assert second.plan(at(p0=0), at(p0=3), "1")["ranges"][0]["redeliveredTo"] == 3


def test_revoked_partitions_and_those_of_lost_executors_get_no_new_rows() -> None:
    scene = StreamScene(2)
    scene.add(0)
    scene.add(1)
    scene.own({0: 1}, revoking={1: 1})
    stream = scene.stream()
    assert numbers(stream.latest_offset(at(p0=0, p1=0))) == {0: 1, 1: 0}
    scene.executors = []
    assert numbers(stream.latest_offset(at(p0=0, p1=0))) == {0: 0, 1: 0}


def test_a_partition_unknown_to_its_queue_is_not_asked_for(scene: StreamScene) -> None:
    scene.add()
    scene.own({0: 1, 1: 1})
    assert numbers(scene.stream().latest_offset(at(p0=0))) == {0: 1}


def test_a_new_partition_has_no_rows_in_its_first_batch() -> None:
    scene = two_partitions(1, 1)
    stream = scene.stream()
    assert numbers(stream.latest_offset(at(p0=0))) == {0: 0, 1: 0}
    assert numbers(stream.latest_offset(at(p0=0, p1=0))) == {0: 1, 1: 1}


def test_partitions_take_turns_if_a_batch_has_no_room_for_all() -> None:
    scene = two_partitions(2, 2)
    stream, position, order = scene.stream(max_rows=1), {0: 0, 1: 0}, []
    for batch in range(4):
        start = at(p0=position[0], p1=position[1])
        end = numbers(stream.latest_offset(start))
        order += [number for number in end if end[number] > position[number]]
        if batch:
            scene.finishing.finish_next(ORDERS)
        stream.plan(start, at(p0=end[0], p1=end[1]), str(batch))
        position = end
    assert order == [0, 1, 0, 1]
    assert scene.now == 0.0, "no owner was waited for"


def test_a_partition_is_found_although_another_fills_every_batch() -> None:
    scene = two_partitions(1, 0)
    stream = scene.stream()
    assert numbers(stream.latest_offset(at(p0=0, p1=0))) == {0: 1, 1: 0}, "partition 1 has nothing"
    stream.plan(at(p0=0, p1=0), at(p0=1, p1=0), "1")
    scene.add(0)
    scene.add(1)
    assert numbers(stream.latest_offset(at(p0=1, p1=0))) == {0: 2, 1: 1}


def test_a_new_entry_starts_a_batch_after_a_wait(scene: StreamScene) -> None:
    stream = scene.stream()
    scene.ranges.while_waiting = scene.add
    assert numbers(stream.latest_offset(at(p0=0))) == {0: 1}


def test_without_new_entries_spark_waits_for_a_while(scene: StreamScene) -> None:
    assert numbers(scene.stream().latest_offset(at(p0=0))) == {0: 0}
    alone, scene.now = scene.now, 0.0
    scene.stream(alone=False).latest_offset(at(p0=0))
    assert 0 < scene.now < alone, "a query's other sources may have rows"


def test_beside_other_sources_a_search_takes_little_of_the_time(scene: StreamScene) -> None:
    """The search takes a limited share of the time, for any number of partitions."""
    stream = begun(scene, alone=False)
    scene.looking, scene.looks = 0.1, 0
    scene.now = 100.0
    for _ in range(100):
        assert numbers(stream.latest_offset(at(p0=0))) == {0: 0}
    assert 0 < scene.looks * 0.1 <= 0.1 * (scene.now - 100)
    scene.add()
    while numbers(stream.latest_offset(at(p0=0))) == {0: 0}:
        assert scene.now < 200


def test_a_batch_is_repeated_as_it_was_and_recorded_once(scene: StreamScene) -> None:
    stream = begun(scene, 2)
    first = stream.plan(at(p0=0), at(p0=2), "1")
    scene.ranges.questions.clear()
    assert stream.plan(at(p0=0), at(p0=2), "1") == first, "Spark plans twice for foreachBatch"
    assert scene.ranges.questions == []


# -- when a fleet ends, or another has the group


def test_no_query_number_is_taken_if_another_driver_has_the_group(scene: StreamScene) -> None:
    scene.over = "another driver has it"
    with pytest.raises(SourceError, match="another driver"):
        scene.stream().latest_offset(at(p0=0))
    assert scene.ranges.begun == 0


@pytest.mark.parametrize("start", ["{}", at(p0=0)])
def test_no_query_number_is_taken_while_the_lease_has_lapsed(scene: StreamScene, start: str) -> None:
    """Another driver may have the group by now, and a number would end its query."""
    scene.add()
    scene.lapsed = True
    stream = scene.stream()
    for _ in range(5):
        with suppress(AskAgain):
            assert numbers(stream.latest_offset(start)) == {0: 0}
        with pytest.raises(AskAgain):
            stream.plan(at(p0=0), at(p0=1), "1")
        scene.now += 5
    assert scene.ranges.begun == scene.partitions[0].query == 0
    scene.lapsed = False
    stream.latest_offset(start)
    assert scene.ranges.begun == 1
    assert numbers(stream.latest_offset(at(p0=0))) == {0: 1}


def test_a_running_query_goes_on_after_the_lease_has_lapsed(scene: StreamScene) -> None:
    stream = begun(scene)
    scene.lapsed = True
    scene.add()
    assert numbers(stream.latest_offset(at(p0=0))) == {0: 1}
    assert told(stream.plan(at(p0=0), at(p0=1), "1")) == [(0, 0, 1, "1")]


def test_a_waiting_query_ends_when_its_group_is_lost(scene: StreamScene) -> None:
    def lost() -> None:
        scene.over = "another driver has it"

    scene.ranges.while_waiting = lost
    with pytest.raises(SourceError, match="another driver"):
        scene.stream().latest_offset(at(p0=0))


def test_a_driver_that_lost_the_group_records_nothing(scene: StreamScene) -> None:
    stream = begun(scene, 1)
    scene.over = "another driver has it"
    with pytest.raises(SourceError, match="another driver"):
        stream.plan(at(p0=0), at(p0=1), "1")
    assert scene.partitions[0].logged is None


def test_a_stopping_fleet_starts_no_batch(scene: StreamScene) -> None:
    scene.add()
    scene.stopping = True
    stream = scene.stream()
    assert not stream.held
    with pytest.raises(AskAgain):
        stream.latest_offset(at(p0=0))
    assert stream.held, "Spark's thread is here, and not in a batch"


def test_a_query_that_waits_for_its_queue_does_not_delay_a_stopping_fleet(scene: StreamScene) -> None:
    scene.ranges.away = scene.stopping = True
    stream = scene.stream()
    with pytest.raises(AskAgain):
        stream.latest_offset("{}")
    assert stream.held


def test_a_stopping_fleet_leaves_a_repeated_batch_to_the_next_driver(scene: StreamScene) -> None:
    scene.add(count=3)
    stream, other = scene.stream(), scene.stream()
    stream.latest_offset(at(p0=0))
    scene.stopping = True
    assert told(stream.plan(at(p0=0), at(p0=3), "1")) == [(0, 0, 3, "1")], "it has begun"
    with pytest.raises(AskAgain):
        other.plan(at(p0=0), at(p0=3), "1")
    assert other.held and not stream.held
    assert scene.partitions[0].query == 1, "no number was taken"


def test_a_batch_that_waits_for_its_queue_does_not_delay_a_stopping_fleet(scene: StreamScene) -> None:
    """A batch that has not begun would be waited for until the fleet's grace ends."""
    stream = begun(scene, 3)
    scene.ranges.away = True
    with pytest.raises(AskAgain):
        stream.plan(at(p0=0), at(p0=3), "1")
    assert stream.busy()
    scene.stopping = True
    with pytest.raises(AskAgain):
        stream.plan(at(p0=0), at(p0=3), "1")
    assert stream.held and not stream.busy()
    scene.ranges.away = False
    with pytest.raises(AskAgain):
        stream.plan(at(p0=0), at(p0=3), "1")
    assert scene.partitions[0].logged is None, "it is the next driver's"


@pytest.mark.parametrize("doing", ["begins", "plans", "owns nothing"])
def test_a_later_query_ends_the_one_before(scene: StreamScene, doing: str) -> None:
    scene.add()
    stream = scene.stream()
    if doing == "owns nothing":
        scene.own({})
    stream.latest_offset("{}" if doing == "begins" else at(p0=0))
    scene.partitions[0].fence(99)
    scene.now += 60 if doing == "owns nothing" else 0
    with pytest.raises(SourceError, match=r"number 99\).* look for another driver, or for a `baton offsets reset`"):
        stream.plan(at(p0=0), at(p0=1), "1") if doing == "plans" else stream.latest_offset(at(p0=0))


# -- grants


def test_a_partition_with_rows_is_released_after_the_batch(scene: StreamScene) -> None:
    stream = begun(scene, 1)
    scene.own({}, revoking={0: 1})
    assert scene.released == frozenset()
    assert told(stream.plan(at(p0=0), at(p0=1), "1")) == [(0, 0, 1, "1")], "its owner still reads it"
    stream.latest_offset(at(p0=1))
    assert scene.released == frozenset()
    scene.finishing.finish_next(ORDERS)
    assert {one.partition for one in scene.released} == {0}


def test_a_partition_without_rows_is_released_at_once(scene: StreamScene) -> None:
    scene.stream().latest_offset(at(p0=0))
    scene.own({}, revoking={0: 1})
    assert {one.partition for one in scene.released} == {0}


def test_a_batch_spark_never_planned_holds_no_partition(scene: StreamScene) -> None:
    stream = begun(scene, 1)
    scene.own({}, revoking={0: 1})
    assert numbers(stream.latest_offset(at(p0=0))) == {0: 0}
    assert {one.partition for one in scene.released} == {0}


@pytest.mark.parametrize("planned", [False, True])
def test_an_ended_query_holds_no_partition(scene: StreamScene, planned: bool) -> None:
    stream = begun(scene, 1)
    if planned:
        stream.plan(at(p0=0), at(p0=1), "1")
    stream.stop()
    scene.own({}, revoking={0: 1})
    assert {one.partition for one in scene.released} == {0}
    assert not stream.busy()


@pytest.mark.parametrize("how", [How.FAILED, How.REFUSED])
def test_an_ended_query_names_its_unfinished_ranges_if_they_were_readable(scene: StreamScene, how: How) -> None:
    scene.add()
    readable, unplanned = scene.stream(), scene.stream()
    beside, unreadable = scene.stream(alone=False), scene.stream()
    for stream in (readable, beside, unreadable):
        stream.latest_offset(at(p0=0))
        stream.plan(at(p0=0), at(p0=1), "1")
        stream.stop()
        if stream is beside:
            scene.reports = (RangeReport(Partition(ORDERS, 0), 1, how, 0, 0),)
    unplanned.stop()
    query, ranges = readable.unfinished
    assert (ranges, set(query)) == ((Range(Partition(ORDERS, 0), 0, 1),), {ORDERS})
    assert beside.unfinished == unreadable.unfinished == unplanned.unfinished == ({}, ())


# -- what is done


def test_the_next_request_finishes_the_batch(scene: StreamScene) -> None:
    stream = begun(scene, 2)
    stream.plan(at(p0=0), at(p0=2), "1")
    stream.latest_offset(at(p0=2))
    assert not scene.finishing.settled()
    scene.finishing.finish_next(ORDERS)
    assert scene.partitions[0].committed == 2
    stream.latest_offset(at(p0=2))
    assert scene.finishing.settled(), "it is finished once"


def test_a_partly_done_batch_is_not_finished() -> None:
    scene = two_partitions(1, 1)
    stream = scene.stream()
    stream.latest_offset(at(p0=0, p1=0))
    stream.plan(at(p0=0, p1=0), at(p0=1, p1=1), "1")
    stream.latest_offset(at(p0=1, p1=0))
    assert scene.finishing.settled()


def test_ranges_are_recorded_after_earlier_ones_are_finished(scene: StreamScene) -> None:
    stream = begun(scene, 1)
    stream.plan(at(p0=0), at(p0=1), "1")
    scene.add()
    stream.latest_offset(at(p0=1))
    with pytest.raises(AskAgain):
        stream.plan(at(p0=1), at(p0=2), "2")
    scene.finishing.finish_next(ORDERS)
    assert told(stream.plan(at(p0=1), at(p0=2), "2")) == [(0, 1, 2, "1")]


def test_a_queue_with_unfinished_ranges_blocks_no_other() -> None:
    scene = StreamScene(parcels=True)
    stream = begun(scene, 1)
    scene.finishing.submit(PlannedBatch("pickers-1", {PARCELS: 1}, {a_partition("parcels", 0): 3}, frozenset()))
    assert told(stream.plan(at(p0=0), at(p0=1), "1")) == [(0, 0, 1, "1")]


def test_a_query_with_a_checkpoint_starts_with_the_queues_that_answer() -> None:
    scene = StreamScene(parcels=True)
    assert scene.parcels is not None
    scene.parcels.away = True
    scene.add()
    with pytest.raises(AskAgain):
        scene.stream().latest_offset("{}")
    stream = scene.stream()
    begin = offset_text({a_partition("orders", 0): 0, a_partition("parcels", 0): 4})
    assert numbers(stream.latest_offset(begin)) == {0: 1}
    end = offset_text({a_partition("orders", 0): 1, a_partition("parcels", 0): 4})
    assert told(stream.plan(begin, end, "1")) == [(0, 0, 1, "1")]
    with pytest.raises(AskAgain):
        stream.plan(end, offset_text({a_partition("orders", 0): 1, a_partition("parcels", 0): 5}), "2")
    assert scene.parcels.finished == []
    scene.parcels.away = False
    scene.now += 60
    stream.latest_offset(end)
    assert scene.parcels.finished[:1] == [4], "what the query before owed"


def test_a_new_query_finishes_what_the_last_one_left(scene: StreamScene) -> None:
    scene.add(count=3)
    scene.stream().latest_offset(at(p0=2, p7=5))
    assert scene.partitions[0].committed == 2, "whatever else there was once"


@pytest.fixture
def grown() -> StreamScene:
    """A topic with an entry in each of three partitions. The operator has granted all but the last."""
    scene = StreamScene(3)
    for number in range(3):
        scene.add(number)
    scene.own({0: 1, 1: 1})
    scene.ranges.never_granted.add(2)
    return scene


def test_a_partition_that_was_never_granted_holds_up_no_other(grown: StreamScene) -> None:
    stream = grown.stream()
    assert numbers(stream.latest_offset(at(p0=0))) == {0: 0, 1: 0}, "the other new partition is read"
    assert stream.rows_behind({a_partition("orders", 0): 0, a_partition("orders", 1): 1}) == {
        a_partition("orders", 0): 1,
        a_partition("orders", 1): 0,
    }
    assert numbers(stream.latest_offset(at(p0=0, p1=0))) == {0: 1, 1: 1}
    assert told(stream.plan(at(p0=0, p1=0), at(p0=1, p1=1), "1")) == [(0, 0, 1, "1"), (1, 0, 1, "1")]
    grown.ranges.never_granted.clear()
    grown.own({0: 1, 1: 1, 2: 1})
    assert numbers(stream.latest_offset(at(p0=1, p1=1))) == {0: 1, 1: 1, 2: 0}


def test_a_repeated_batch_waits_no_longer_because_a_partition_was_never_granted(grown: StreamScene) -> None:
    grown.own({})
    stream = grown.stream()
    with pytest.raises(AskAgain):
        stream.plan(at(p0=0), at(p0=1), "1")
    grown.now += grown.context.repeat_wait
    assert told(stream.plan(at(p0=0), at(p0=1), "1")) == [(0, 0, 1, "")]


@pytest.mark.parametrize(
    ("place", "found"),
    [
        (OffsetPlace.COMMITTED, {0: 0, 1: 0}),
        (OffsetPlace.EARLIEST, {0: 0, 1: 0, 2: 0}),
        (OffsetPlace.LATEST, {0: 1, 1: 1, 2: 1}),
        ({a_partition("orders", 0): 1}, {0: 1, 1: 0}),
        ({a_partition("orders", 2): 1}, {0: 0, 1: 0, 2: 1}),
    ],
)
def test_a_new_query_begins_where_it_is_known(grown: StreamScene, place: Offsets, found: dict[int, int]) -> None:
    """A partition without a known position enters the offset once it was granted."""
    assert numbers(first_positions(place, grown.context.queues)) == found


def test_an_available_now_query_waits_for_a_partition_that_was_never_granted(grown: StreamScene) -> None:
    stream = grown.stream()
    stream.prepare_available_now()
    with pytest.raises(AskAgain):
        stream.latest_offset(at(p0=1, p1=1))
    grown.ranges.never_granted.clear()
    grown.own({0: 1, 1: 1, 2: 1})
    assert numbers(stream.latest_offset(at(p0=1, p1=1))) == {0: 1, 1: 1, 2: 0}


def test_a_batch_read_of_a_partition_that_was_never_granted_needs_other_positions(grown: StreamScene) -> None:
    assert [one[:3] for one in told(batch_read(BatchOptions(), grown.context.queues))] == [(0, 0, 1), (1, 0, 1), (2, 0, 1)]
    with pytest.raises(SourceError, match="orders/2 has no owner yet, so its committed position is not known"):
        batch_read(BatchOptions(starting=OffsetPlace.COMMITTED), grown.context.queues)


def test_finishes_undone_by_a_failover_are_repeated_without_new_entries(scene: StreamScene) -> None:
    scene.add()
    before = scene.partitions[0].copy()
    stream = scene.stream()
    stream.latest_offset(at(p0=1))
    scene.partitions[0] = before
    scene.own({0: 2})
    stream.latest_offset(at(p0=1))
    assert scene.partitions[0].committed == 0
    scene.now += 60
    stream.latest_offset(at(p0=1))
    assert scene.partitions[0].committed == 1


def test_finishes_undone_by_a_failover_are_repeated_while_others_have_rows() -> None:
    scene = two_partitions(1, 0)
    before = scene.partitions[0].copy()
    stream = scene.stream()
    stream.latest_offset(at(p0=1, p1=0))
    scene.partitions[0] = before
    scene.own({0: 2, 1: 2})
    for batch in range(2):
        scene.add(1)
        stream.latest_offset(at(p0=1, p1=batch))
        if batch:
            scene.finishing.finish_next(ORDERS)
        stream.plan(at(p0=1, p1=batch), at(p0=1, p1=batch + 1), str(batch))
        scene.now += 60
    assert scene.partitions[0].committed == 1


def test_a_batch_being_finished_is_not_finished_twice(scene: StreamScene) -> None:
    stream = begun(scene, 2)
    stream.plan(at(p0=0), at(p0=2), "1")
    scene.now += 60
    stream.latest_offset(at(p0=2))
    assert scene.partitions[0].committed == 0, "it is not finished yet"


def test_an_unreachable_queue_ends_no_query(scene: StreamScene) -> None:
    stream = begun(scene)
    scene.ranges.away = True
    scene.now += 60
    assert numbers(stream.latest_offset(at(p0=0))) == {0: 0}
    with pytest.raises(AskAgain):
        scene.stream().latest_offset("{}")


# -- a batch that a restart repeats


def test_a_repeated_batch_waits_for_owners_only_for_a_while(scene: StreamScene) -> None:
    scene.add()
    scene.own({})
    stream = scene.stream()
    with pytest.raises(AskAgain):
        stream.plan(at(p0=0), at(p0=1), "1")
    scene.now += scene.context.repeat_wait / 2
    with pytest.raises(AskAgain):
        stream.plan(at(p0=0), at(p0=1), "1")
    scene.now += scene.context.repeat_wait / 2
    assert told(stream.plan(at(p0=0), at(p0=1), "1")) == [(0, 0, 1, "")]


def test_owners_keep_a_repeated_batch_until_it_is_done(scene: StreamScene) -> None:
    scene.add()
    stream = scene.stream()
    assert told(stream.plan(at(p0=0), at(p0=1), "1")) == [(0, 0, 1, "1")]
    assert scene.partitions[0].logged == 0
    scene.own({}, revoking={0: 1})
    assert scene.released == frozenset()
    stream.latest_offset(at(p0=1))
    scene.finishing.finish_next(ORDERS)
    assert {one.partition for one in scene.released} == {0}


def test_a_repeated_batch_is_not_read_by_a_revoked_owner(scene: StreamScene) -> None:
    scene.add()
    scene.own({}, revoking={0: 1})
    stream = scene.stream()
    with pytest.raises(AskAgain):
        stream.plan(at(p0=0), at(p0=1), "1")
    scene.now += scene.context.repeat_wait
    assert told(stream.plan(at(p0=0), at(p0=1), "1")) == [(0, 0, 1, "")]


def test_ranges_set_aside_and_withdrawn_wait_for_no_owner() -> None:
    scene = two_partitions(1, 1)
    first = scene.stream()
    start, end = at(p0=0, p1=0), at(p0=1, p1=1)
    assert told(first.plan(start, end, "1")) == [(0, 0, 1, "1"), (1, 0, 1, "1")]
    first.stop()
    query, failed = first.unfinished
    scene.context.queues.set_aside(query, [one for one in failed if one.partition.number == 1], 3, "why")
    scene.own({0: 2})
    scene.ranges.withdrawn = 1
    assert told(scene.stream().plan(start, end, "1")) == [(0, 0, 1, "1")]


# -- what is gone


@pytest.mark.parametrize("careful", [True, False])
def test_entries_gone_before_a_batch_end_the_query_unless_it_may_lose_them(scene: StreamScene, careful: bool) -> None:
    scene.add(count=3)
    scene.take_away(2)
    stream = scene.stream(careful=careful)
    stream.latest_offset("{}")
    if careful:
        with pytest.raises(SourceError, match="set the option failOnDataLoss to false"):
            stream.latest_offset(at(p0=0))
    else:
        assert numbers(stream.latest_offset(at(p0=0))) == {0: 3}


@pytest.mark.parametrize("gone", [2, 3])
def test_entries_gone_within_a_batch_end_a_careful_query(scene: StreamScene, gone: int) -> None:
    stream = begun(scene, 3)
    scene.take_away(gone)
    with pytest.raises(SourceError, match=f"its first entry is {gone + 1}"):
        stream.plan(at(p0=0), at(p0=3), "1")


@pytest.mark.parametrize(("gone", "left"), [(2, [(0, 2, 3, "1")]), (3, [])])
def test_a_query_that_may_lose_entries_reads_what_is_left_of_a_batch(
    scene: StreamScene, caplog: pytest.LogCaptureFixture, gone: int, left: list[tuple[int, int, int, str]]
) -> None:
    stream = begun(scene, 3, careful=False)
    scene.take_away(gone)
    assert told(stream.plan(at(p0=0), at(p0=3), "1")) == left
    assert scene.counts.statistics().positions_lost == gone
    assert caplog.messages[-1].endswith("failOnDataLoss is false, so the query continues with the existing entries")


@pytest.mark.parametrize(("acknowledged", "end"), [(2, 3), (3, 2)])
def test_entries_a_pod_left_of_a_batch_are_read_if_loss_is_allowed(scene: StreamScene, acknowledged: int, end: int) -> None:
    scene.add(count=3)
    stream, one = scene.stream(careful=False), scene.partitions[0]
    stream.latest_offset(at(p0=0))
    one.log(one.query, 0, 3)
    one.read(one.uid, one.epoch, 3)
    one.ack(one.uid, one.epoch, acknowledged)
    assert told(stream.plan(at(p0=0), at(p0=3), "1")) == [(0, 0, end, "1")]


# -- AvailableNow


def test_an_available_now_query_reads_what_existed_at_its_start(scene: StreamScene) -> None:
    scene.add(count=2)
    stream = scene.stream(max_rows=1)
    stream.prepare_available_now()
    scene.add()
    assert numbers(stream.latest_offset(at(p0=0))) == {0: 1}
    assert numbers(stream.latest_offset(at(p0=1))) == {0: 2}
    scene.ranges.questions.clear()
    assert numbers(stream.latest_offset(at(p0=2))) == {0: 2}
    assert scene.ranges.questions == [], "it is done with that one"
    assert scene.now == 0, "nothing is waited for that is not read"


def test_an_available_now_query_waits_for_owners() -> None:
    scene = StreamScene(2)
    scene.add(1)
    stream = scene.stream()
    stream.prepare_available_now()
    assert numbers(stream.latest_offset(at(p0=0))) == {0: 0, 1: 0}, "it has no owner yet"
    with pytest.raises(AskAgain) as again:
        stream.latest_offset(at(p0=0, p1=0))
    assert again.value.milliseconds < 1000 * scene.now, "most of the time an owner is heard of at once"
    scene.own({0: 1, 1: 1})
    assert numbers(stream.latest_offset(at(p0=0, p1=0))) == {0: 0, 1: 1}


def test_a_query_that_waits_for_owners_does_not_delay_a_stopping_fleet() -> None:
    scene = StreamScene(2)
    scene.add(1)
    stream = scene.stream()
    stream.prepare_available_now()

    def stop() -> None:
        scene.stopping = True

    scene.ranges.while_waiting = stop
    with pytest.raises(AskAgain):
        stream.latest_offset(at(p0=0, p1=0))
    assert stream.held


def test_an_available_now_query_ends_if_its_entries_are_gone(scene: StreamScene) -> None:
    scene.add(count=2)
    stream = scene.stream(careful=False)
    stream.prepare_available_now()
    stream.latest_offset("{}")
    scene.take_away(2)
    assert numbers(stream.latest_offset(at(p0=0))) == {0: 0}


def test_an_available_now_query_asks_until_it_knows_its_end(scene: StreamScene) -> None:
    scene.add()
    stream = scene.stream()
    scene.ranges.away = True
    with pytest.raises(AskAgain):
        stream.prepare_available_now()
    scene.ranges.away = False
    stream.prepare_available_now()
    assert numbers(stream.latest_offset(at(p0=0))) == {0: 1}


def test_an_available_now_query_reads_new_partitions_although_a_request_fails() -> None:
    """The checkpoint does not have partition 1 yet, and the queue is away when the query asks where that partition begins."""
    scene = two_partitions(0, 3)
    stream = scene.stream()
    stream.prepare_available_now()
    scene.ranges.away = True
    with pytest.raises(AskAgain):
        stream.latest_offset(at(p0=0))
    scene.ranges.away = False
    scene.now += 60
    assert numbers(stream.latest_offset(at(p0=0))) == {0: 0, 1: 0}
    assert numbers(stream.latest_offset(at(p0=0, p1=0))) == {0: 0, 1: 3}
    assert numbers(stream.latest_offset(at(p0=0, p1=3))) == {0: 0, 1: 3}, "it is done"


def test_an_available_now_query_waits_for_a_queue_that_its_checkpoint_lacks() -> None:
    scene = StreamScene(parcels=True)
    assert scene.parcels is not None
    stream, begin = scene.stream(), offset_text({a_partition("orders", 0): 0})
    stream.prepare_available_now()
    scene.parcels.away = True
    with pytest.raises(AskAgain):
        stream.latest_offset(begin)
    scene.parcels.away = False
    scene.now += 60
    assert stream.latest_offset(begin).keys() == {a_partition("orders", 0), a_partition("parcels", 0)}


def test_unknown_entry_sizes_are_estimated_from_earlier_entries(scene: StreamScene) -> None:
    mebibyte = 2**20
    scene.ranges.sizes_known = False
    scene.add(count=300)
    assert numbers(scene.stream(max_rows=1000).latest_offset(at(p0=0))) == {0: 300}, "there is no limit"
    stream = scene.stream(max_bytes=4 * mebibyte)
    assert numbers(stream.latest_offset(at(p0=0))) == {0: 4}, "nothing is known"
    read = RangeReport(a_partition("orders", 0), 4, How.OWNER, rows=4, bytes=mebibyte)
    scene.finishing.sizes.learn([read])
    assert numbers(stream.latest_offset(at(p0=4))) == {0: 20}
    scene.finishing.sizes.learn([read._replace(rows=1, bytes=9 * mebibyte)])
    assert numbers(stream.latest_offset(at(p0=20))) == {0: 21}, "one at least"


# -- what a query may not go on with


def in_log(text: str, log: str) -> str:
    """The offset, with the id of its queue's log."""
    return text.replace("}}", f',"id":"{log}"}}}}')


def test_a_checkpoint_of_another_topic_is_rejected_before_anything_is_finished(scene: StreamScene) -> None:
    """The topic was deleted and recreated: its numbers begin again, so the positions exist."""
    scene.add(count=5)
    scene.ranges.log_id = "second"
    with pytest.raises(SourceError, match=r"in another topic of queue orders: .* a new checkpoint"):
        scene.stream().latest_offset(in_log(at(p0=3), "first"))
    with pytest.raises(SourceError, match=r"in another topic of queue orders: .* a new checkpoint"):
        scene.stream().plan(at(p0=1), in_log(at(p0=3), "first"), "7")
    assert scene.partitions[0].committed == 0
    stream = scene.stream()
    assert numbers(stream.latest_offset(in_log(at(p0=3), "second"))) == {0: 5}
    assert stream.log_ids == {ORDERS: "second"}


def test_an_offset_keeps_the_topics_of_queues_that_do_not_answer() -> None:
    scene = StreamScene(parcels=True)
    assert scene.parcels is not None
    scene.parcels.away, scene.ranges.log_id = True, "mine"
    stream = scene.stream()
    stream.latest_offset('{"orders":{"0":0},"parcels":{"0":4,"id":"other"}}')
    assert stream.log_ids == {ORDERS: "mine", PARCELS: "other"}


def test_a_position_past_the_last_entry_ends_the_query(scene: StreamScene) -> None:
    scene.add(count=3)
    with pytest.raises(SourceError, match=r"at 9 of orders/0, which is after its last entry, 3: .* a new checkpoint"):
        scene.stream(careful=False).latest_offset(at(p0=9))
    with pytest.raises(SourceError, match="a new checkpoint"):
        scene.stream(careful=False).plan(at(p0=9), at(p0=12), "7")
    assert len(scene.partitions[0].entries) == 3, "nothing is taken for read"


def test_starting_offsets_are_not_beyond_the_last_entry(scene: StreamScene) -> None:
    scene.add(count=3)
    queues, only = scene.context.queues, a_partition("orders", 0)
    assert first_positions({only: 3}, queues) == {only: 3}
    with pytest.raises(SourceError, match="startingOffsets has 4 for orders/0, which is after its last entry, 3"):
        first_positions({only: 4}, queues)


def test_skipped_entries_are_logged(scene: StreamScene, caplog: pytest.LogCaptureFixture) -> None:
    scene.add(count=3)
    queues, only = scene.context.queues, a_partition("orders", 0)
    first_positions(OffsetPlace.COMMITTED, queues)
    first_positions({only: 0}, queues)
    assert caplog.messages == []
    first_positions(OffsetPlace.LATEST, queues)
    assert "startingOffsets skips entries of 1 partition of queue orders that were never read" in caplog.text


def test_a_removed_partition_is_not_behind() -> None:
    scene = StreamScene(2)
    entries = LastEntries(scene.context.queues, lambda: scene.now)
    both = {a_partition("orders", 0): 0, a_partition("orders", 1): 0}
    assert entries.behind(both).keys() == both.keys()
    del scene.partitions[1]
    scene.now += 60
    assert entries.behind(both).keys() == {a_partition("orders", 0)}


def test_an_overtaken_query_adds_no_partition_to_the_checkpoint() -> None:
    scene = StreamScene(2)
    stream = scene.stream()
    assert numbers(stream.latest_offset(at(p0=0))) == {0: 0}
    scene.partitions[1].fence(99)
    scene.own({0: 1, 1: 1})
    with pytest.raises(SourceError, match=r"a later query \(number 99\)"):
        stream.latest_offset(at(p0=0))


def test_rows_behind_are_known_for_each_queue_that_answers() -> None:
    scene, away = StreamScene(), QueueWithoutEntries()
    scene.add(count=3)
    away.away = True
    both = fleet_queues({QueueName("a-queue-that-is-away"): away, ORDERS: scene.ranges})
    entries = LastEntries(both, lambda: scene.now)
    assert entries.behind({a_partition("orders", 0): 1, a_partition("a-queue-that-is-away", 0): 1}) == {
        a_partition("orders", 0): 2,
        a_partition("a-queue-that-is-away", 0): 0,
    }
    both.close()


# -- A query reads two queues, and the server of one stops answering: batches of the other continue.


T = TypeVar("T")


@pytest.fixture
def both() -> Iterator[StreamScene]:
    made = StreamScene(parcels=True)
    yield made
    speak_again(made)
    made.context.queues.close()


def fall_silent(both: StreamScene) -> None:
    assert both.parcels is not None
    both.parcels.answers_now.clear()


def speak_again(both: StreamScene) -> None:
    assert both.parcels is not None
    both.parcels.answers_now.set()
    until(lambda: not both.context.queues.late(), "it has answered what it was asked")


def of_both(orders: int) -> str:
    return offset_text({a_partition("orders", 0): orders, a_partition("parcels", 0): 0})


def in_time(what: Callable[[], T]) -> T:
    answers: list[T] = []
    asked = Thread(target=lambda: answers.append(what()), daemon=True)
    asked.start()
    asked.join(PATIENCE)
    assert answers, "it waits for the queue that is silent"
    return answers[0]


def test_old_finishes_are_repeated_when_a_silent_queue_answers(both: StreamScene) -> None:
    stream = both.stream()
    stream.latest_offset(of_both(0))
    fall_silent(both)
    both.now += 60
    assert numbers(in_time(lambda: stream.latest_offset(of_both(0)))) == {0: 0}
    both.add()
    assert numbers(in_time(lambda: stream.latest_offset(of_both(0)))) == {0: 1}
    assert both.parcels is not None
    said = len(both.parcels.finished)
    speak_again(both)
    both.now += 60
    stream.plan(of_both(0), of_both(1), "1")
    assert len(both.parcels.finished) == said + 1, "it is said when the queue answers again"


def test_rows_behind_a_silent_queue_are_those_last_known(both: StreamScene) -> None:
    stream = both.stream()
    stream.latest_offset(of_both(0))
    fall_silent(both)
    both.now += 60
    in_time(lambda: stream.latest_offset(of_both(0)))
    both.add(count=3)
    behind = in_time(lambda: stream.rows_behind({a_partition("orders", 0): 1, a_partition("parcels", 0): 0}))
    assert behind == {a_partition("orders", 0): 2, a_partition("parcels", 0): 0}


def test_a_new_partition_of_a_silent_queue_is_read_when_it_answers(both: StreamScene) -> None:
    stream = both.stream()
    begin = offset_text({a_partition("orders", 0): 0})
    stream.latest_offset(begin)
    fall_silent(both)
    both.now += 60
    in_time(lambda: stream.latest_offset(begin))
    both.ledger.write(replace(entry("exec-1", {0: 1}), owned=by_queue({"orders": epochs({0: 1}), PARCELS: epochs({0: 1})})))
    both.add()
    assert numbers(in_time(lambda: stream.latest_offset(begin))) == {0: 1}
    speak_again(both)
    assert stream.latest_offset(begin)[a_partition("parcels", 0)] == 0
