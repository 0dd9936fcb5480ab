"""The decisions of a query's stream, and rejected queries."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from baton.model.ids import Partition, QueueName
from baton.queues.logged_ranges import LoggedRanges, PartitionBounds
from baton.queues.protocol import QueueUnreachable
from baton.spark.batch_search import LastEntries
from baton.spark.finishing import PlannedBatch
from baton.spark.offsets import AskAgain, OffsetPlace, SourceError
from baton.spark.queues import FleetQueues, Range
from baton.spark.ranges import first_positions
from baton.spark.statistics import How, RangeReport
from baton.spark.stream import running_query
from tests.ids import a_partition
from tests.unit.spark.queue_without_entries import QueueWithoutEntries
from tests.unit.spark.stream_scene import ORDERS, PARCELS, StreamScene, at, numbers, text


def query_told(**facts: object) -> str:
    return json.dumps({"id": "query", "asyncProgress": False, "once": False, "sources": 1, **facts})


@pytest.mark.parametrize(("batch", "of_files"), [(-1, -1), (4, -1), (4, 3), (4, 4)])
def test_files_have_no_batch_that_the_checkpoint_has_not_begun(batch: int, of_files: int) -> None:
    assert running_query(query_told(batch=batch, batchOfFiles=of_files)).alone


@pytest.mark.parametrize(("batch", "of_files"), [(-1, 0), (4, 5)])
def test_files_that_would_skip_batches_are_refused(batch: int, of_files: int) -> None:
    with pytest.raises(SourceError, match="rows would be lost"):
        running_query(query_told(batch=batch, batchOfFiles=of_files))


@pytest.fixture
def scene() -> StreamScene:
    return StreamScene()


def told(answer: Mapping[str, Any]) -> list[tuple[int, int, int, str]]:
    """Partition, start, end and executor of each range."""
    return [(one["partition"], one["start"], one["end"], one["executor"]) for one in answer["ranges"]]


# -- batches


def test_a_query_begins_with_positions_and_then_reads_what_is_behind_them(scene: StreamScene) -> None:
    scene.add(count=3)
    stream = scene.stream()
    assert numbers(stream.latest_offset("{}")) == {0: 0}
    assert numbers(stream.latest_offset(at(p0=0))) == {0: 3}
    assert told(stream.plan(at(p0=0), at(p0=3), "1")) == [(0, 0, 3, "1")]
    assert (scene.partitions[0].logged, scene.partitions[0].planned) == (0, 3)
    assert scene.ranges.begun == 1


def test_the_batch_that_was_planned_last_is_named_by_its_ranges_if_it_has_any(scene: StreamScene) -> None:
    scene.add(count=3)
    stream = scene.stream()
    stream.latest_offset("{}")
    stream.plan("{}", at(p0=0), "0")
    assert stream.last_plan == "batch 0 without rows"
    stream.plan(at(p0=0), at(p0=3), "1")
    assert stream.last_plan == "batch 1 of 1 range (orders/0 1 to 3)"


def test_a_reader_is_told_what_may_have_been_handed_out_before(scene: StreamScene) -> None:
    scene.add(count=3)
    scene.partitions[0].seen = 2
    stream = scene.stream()
    stream.latest_offset(at(p0=0))
    (one,) = stream.plan(at(p0=0), at(p0=3), "1")["ranges"]
    assert one["redeliveredTo"] == 2


def test_rows_that_a_later_query_reads_again_may_have_been_handed_out(scene: StreamScene) -> None:
    scene.add(count=3)
    first, second = scene.stream(), scene.stream()
    first.latest_offset(at(p0=0))
    assert first.plan(at(p0=0), at(p0=3), "1")["ranges"][0]["redeliveredTo"] == 0
    assert first.plan(at(p0=0), at(p0=3), "1")["ranges"][0]["redeliveredTo"] == 0, "Spark plans a batch twice for foreachBatch"
    assert second.plan(at(p0=0), at(p0=3), "1")["ranges"][0]["redeliveredTo"] == 3


def test_what_is_to_be_let_go_and_what_an_executor_has_that_is_not_registered_stays_where_it_is() -> None:
    scene = StreamScene(2)
    scene.add(0)
    scene.add(1)
    scene.own({0: 1}, revoking={1: 1})
    stream = scene.stream()
    assert numbers(stream.latest_offset(at(p0=0, p1=0))) == {0: 1, 1: 0}
    scene.executors = []
    assert numbers(stream.latest_offset(at(p0=0, p1=0))) == {0: 0, 1: 0}


def test_a_partition_that_the_queue_does_not_have_yet_is_not_asked_for(scene: StreamScene) -> None:
    scene.add()
    scene.own({0: 1, 1: 1})
    assert numbers(scene.stream().latest_offset(at(p0=0))) == {0: 1}


def test_a_partition_that_appears_has_no_rows_in_the_batch_that_names_it_first() -> None:
    scene = StreamScene(2)
    scene.add(0)
    scene.add(1)
    scene.own({0: 1, 1: 1})
    stream = scene.stream()
    assert numbers(stream.latest_offset(at(p0=0))) == {0: 0, 1: 0}
    assert numbers(stream.latest_offset(at(p0=0, p1=0))) == {0: 1, 1: 1}


def test_partitions_take_turns_where_a_batch_has_not_room_for_all() -> None:
    scene = StreamScene(2)
    scene.add(0, count=2)
    scene.add(1, count=2)
    scene.own({0: 1, 1: 1})
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
    assert scene.now == 0.0, "nobody was waited for"


def test_a_partition_is_heard_of_though_another_has_rows_in_every_batch() -> None:
    scene = StreamScene(2)
    scene.own({0: 1, 1: 1})
    scene.add(0)
    stream = scene.stream()
    assert numbers(stream.latest_offset(at(p0=0, p1=0))) == {0: 1, 1: 0}, "partition 1 has nothing"
    stream.plan(at(p0=0, p1=0), at(p0=1, p1=0), "1")
    scene.add(0)
    scene.add(1)
    assert numbers(stream.latest_offset(at(p0=1, p1=0))) == {0: 2, 1: 1}


def test_what_comes_while_nothing_is_there_begins_a_batch(scene: StreamScene) -> None:
    stream = scene.stream()
    scene.ranges.while_waiting = scene.add
    assert numbers(stream.latest_offset(at(p0=0))) == {0: 1}


def test_where_nothing_comes_spark_is_kept_for_a_while(scene: StreamScene) -> None:
    assert numbers(scene.stream().latest_offset(at(p0=0))) == {0: 0}
    alone, scene.now = scene.now, 0.0
    scene.stream(alone=False).latest_offset(at(p0=0))
    assert 0 < scene.now < alone, "a query's other sources may have rows"


def test_beside_other_sources_looking_for_news_takes_little_of_the_time(scene: StreamScene) -> None:
    """The search takes a limited share of the time, for any number of partitions."""
    stream = scene.stream(alone=False)
    stream.latest_offset(at(p0=0))
    scene.looking, scene.looks = 0.1, 0
    scene.now = 100.0
    for _ in range(100):
        assert numbers(stream.latest_offset(at(p0=0))) == {0: 0}
    assert 0 < scene.looks * 0.1 <= 0.1 * (scene.now - 100)
    scene.add()
    while numbers(stream.latest_offset(at(p0=0))) == {0: 0}:
        assert scene.now < 200


def test_a_batch_is_repeated_as_it_was_and_recorded_once(scene: StreamScene) -> None:
    scene.add(count=2)
    stream = scene.stream()
    stream.latest_offset(at(p0=0))
    first = stream.plan(at(p0=0), at(p0=2), "1")
    scene.ranges.questions.clear()
    assert stream.plan(at(p0=0), at(p0=2), "1") == first, "Spark plans twice for foreachBatch"
    assert scene.ranges.questions == []


# -- when a fleet ends, or another has the group


def test_no_number_is_taken_when_somebody_else_has_the_group(scene: StreamScene) -> None:
    scene.over = "another driver has it"
    with pytest.raises(SourceError, match="another driver"):
        scene.stream().latest_offset(at(p0=0))
    assert scene.ranges.begun == 0


def test_a_query_that_waits_ends_with_its_group(scene: StreamScene) -> None:
    def lost() -> None:
        scene.over = "another driver has it"

    scene.ranges.while_waiting = lost
    with pytest.raises(SourceError, match="another driver"):
        scene.stream().latest_offset(at(p0=0))


def test_nothing_is_recorded_for_who_has_lost_the_group(scene: StreamScene) -> None:
    scene.add()
    stream = scene.stream()
    stream.latest_offset(at(p0=0))
    scene.over = "another driver has it"
    with pytest.raises(SourceError, match="another driver"):
        stream.plan(at(p0=0), at(p0=1), "1")
    assert scene.partitions[0].logged is None


def test_a_fleet_that_stops_begins_no_batch(scene: StreamScene) -> None:
    scene.add()
    scene.stopping = True
    stream = scene.stream()
    assert not stream.held
    with pytest.raises(AskAgain):
        stream.latest_offset(at(p0=0))
    assert stream.held, "Spark's thread is here, and not in a batch"


def test_a_query_that_waits_for_its_queue_does_not_hold_up_a_fleet_that_stops(scene: StreamScene) -> None:
    scene.ranges.away = scene.stopping = True
    stream = scene.stream()
    with pytest.raises(AskAgain):
        stream.latest_offset("{}")
    assert stream.held


def test_a_batch_that_is_to_be_repeated_is_left_to_the_next_driver_when_the_fleet_stops(scene: StreamScene) -> None:
    scene.add(count=3)
    stream, other = scene.stream(), scene.stream()
    stream.latest_offset(at(p0=0))
    scene.stopping = True
    assert told(stream.plan(at(p0=0), at(p0=3), "1")) == [(0, 0, 3, "1")], "it has begun"
    with pytest.raises(AskAgain):
        other.plan(at(p0=0), at(p0=3), "1")
    assert other.held and not stream.held
    assert scene.partitions[0].query == 1, "no number was taken"


def test_a_batch_that_waits_for_its_queue_does_not_hold_up_a_fleet_that_stops(scene: StreamScene) -> None:
    """A batch that has not begun would be waited for until the fleet's grace ends."""
    scene.add(count=3)
    stream = scene.stream()
    stream.latest_offset(at(p0=0))
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


def test_a_later_query_ends_one_that_asks_for_more(scene: StreamScene) -> None:
    stream = scene.stream()
    stream.latest_offset("{}")
    scene.partitions[0].fence(99)
    with pytest.raises(SourceError, match="number 99"):
        stream.latest_offset(at(p0=0))


def test_a_later_query_ends_one_that_begins_a_batch(scene: StreamScene) -> None:
    scene.add()
    stream = scene.stream()
    stream.latest_offset(at(p0=0))
    scene.partitions[0].fence(99)
    with pytest.raises(SourceError, match="number 99"):
        stream.plan(at(p0=0), at(p0=1), "1")


def test_a_later_query_ends_one_that_owns_nothing(scene: StreamScene) -> None:
    scene.own({})
    stream = scene.stream()
    stream.latest_offset(at(p0=0))
    scene.partitions[0].fence(99)
    scene.now += 60
    with pytest.raises(SourceError, match="number 99"):
        stream.latest_offset(at(p0=0))


# -- grants


def test_what_a_batch_was_chosen_for_is_not_let_go_before_it_is_done(scene: StreamScene) -> None:
    scene.add()
    stream = scene.stream()
    stream.latest_offset(at(p0=0))
    scene.own({}, revoking={0: 1})
    assert scene.released == frozenset()
    assert told(stream.plan(at(p0=0), at(p0=1), "1")) == [(0, 0, 1, "1")], "its owner still reads it"
    stream.latest_offset(at(p0=1))
    assert scene.released == frozenset()
    scene.finishing.finish_next(ORDERS)
    assert {one.partition for one in scene.released} == {0}


def test_what_has_nothing_for_a_batch_is_let_go_at_once(scene: StreamScene) -> None:
    scene.stream().latest_offset(at(p0=0))
    scene.own({}, revoking={0: 1})
    assert {one.partition for one in scene.released} == {0}


def test_a_batch_that_spark_never_planned_holds_nothing(scene: StreamScene) -> None:
    scene.add()
    stream = scene.stream()
    stream.latest_offset(at(p0=0))
    scene.own({}, revoking={0: 1})
    assert numbers(stream.latest_offset(at(p0=0))) == {0: 0}
    assert {one.partition for one in scene.released} == {0}


@pytest.mark.parametrize("planned", [False, True])
def test_a_query_that_has_ended_holds_nothing(scene: StreamScene, planned: bool) -> None:
    scene.add()
    stream = scene.stream()
    stream.latest_offset(at(p0=0))
    if planned:
        stream.plan(at(p0=0), at(p0=1), "1")
    stream.stop()
    scene.own({}, revoking={0: 1})
    assert {one.partition for one in scene.released} == {0}
    assert not stream.busy()


def test_a_query_that_has_ended_tells_what_it_had_planned_unless_it_could_not_be_read(scene: StreamScene) -> None:
    scene.add()
    readable, unplanned = scene.stream(), scene.stream()
    beside, unreadable = scene.stream(alone=False), scene.stream()
    for stream in (readable, beside, unreadable):
        stream.latest_offset(at(p0=0))
        stream.plan(at(p0=0), at(p0=1), "1")
        stream.stop()
        if stream is beside:
            scene.reports = (RangeReport(Partition(ORDERS, 0), 1, How.FAILED, 0, 0),)
    unplanned.stop()
    query, ranges = readable.unfinished
    assert (ranges, set(query)) == ((Range(Partition(ORDERS, 0), 0, 1),), {ORDERS})
    assert beside.unfinished == unreadable.unfinished == unplanned.unfinished == ({}, ())


# -- what is done


def test_the_next_question_says_that_a_batch_is_done(scene: StreamScene) -> None:
    scene.add(count=2)
    stream = scene.stream()
    stream.latest_offset(at(p0=0))
    stream.plan(at(p0=0), at(p0=2), "1")
    stream.latest_offset(at(p0=2))
    assert not scene.finishing.settled()
    scene.finishing.finish_next(ORDERS)
    assert scene.partitions[0].committed == 2
    stream.latest_offset(at(p0=2))
    assert scene.finishing.settled(), "it is finished once"


def test_a_batch_of_which_a_part_is_done_is_not_finished() -> None:
    scene = StreamScene(2)
    scene.add(0)
    scene.add(1)
    scene.own({0: 1, 1: 1})
    stream = scene.stream()
    stream.latest_offset(at(p0=0, p1=0))
    stream.plan(at(p0=0, p1=0), at(p0=1, p1=1), "1")
    stream.latest_offset(at(p0=1, p1=0))
    assert scene.finishing.settled()


def test_the_next_ranges_are_recorded_when_those_before_are_finished(scene: StreamScene) -> None:
    scene.add()
    stream = scene.stream()
    stream.latest_offset(at(p0=0))
    stream.plan(at(p0=0), at(p0=1), "1")
    scene.add()
    stream.latest_offset(at(p0=1))
    with pytest.raises(AskAgain):
        stream.plan(at(p0=1), at(p0=2), "2")
    scene.finishing.finish_next(ORDERS)
    assert told(stream.plan(at(p0=1), at(p0=2), "2")) == [(0, 1, 2, "1")]


def test_a_queue_whose_ranges_are_not_finished_holds_up_no_other() -> None:
    scene = StreamScene(parcels=True)
    scene.add()
    stream = scene.stream()
    stream.latest_offset(at(p0=0))
    scene.finishing.submit(PlannedBatch("pickers-1", {PARCELS: 1}, {a_partition("parcels", 0): 3}, frozenset()))
    assert told(stream.plan(at(p0=0), at(p0=1), "1")) == [(0, 0, 1, "1")]


def test_a_query_with_a_checkpoint_begins_at_the_queues_that_answer_and_at_the_others_when_they_do() -> None:
    scene = StreamScene(parcels=True)
    assert scene.parcels is not None
    scene.parcels.away = True
    scene.add()
    with pytest.raises(AskAgain):
        scene.stream().latest_offset("{}")
    stream = scene.stream()
    begin = text({a_partition("orders", 0): 0, a_partition("parcels", 0): 4})
    assert numbers(stream.latest_offset(begin)) == {0: 1}
    end = text({a_partition("orders", 0): 1, a_partition("parcels", 0): 4})
    assert told(stream.plan(begin, end, "1")) == [(0, 0, 1, "1")]
    with pytest.raises(AskAgain):
        stream.plan(end, text({a_partition("orders", 0): 1, a_partition("parcels", 0): 5}), "2")
    assert scene.parcels.finished == []
    scene.parcels.away = False
    scene.now += 60
    stream.latest_offset(end)
    assert scene.parcels.finished[:1] == [4], "what the query before owed"


def test_a_new_query_finishes_what_the_last_one_had_no_time_to(scene: StreamScene) -> None:
    scene.add(count=3)
    scene.stream().latest_offset(at(p0=2, p7=5))
    assert scene.partitions[0].committed == 2, "whatever else there was once"


def test_what_a_failover_has_undone_is_finished_again_though_nothing_comes(scene: StreamScene) -> None:
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


def test_what_a_failover_has_undone_is_finished_again_though_others_have_rows_in_every_batch() -> None:
    scene = StreamScene(2)
    scene.own({0: 1, 1: 1})
    scene.add(0)
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


def test_a_batch_that_is_just_being_finished_is_left_to_that(scene: StreamScene) -> None:
    scene.add(count=2)
    stream = scene.stream()
    stream.latest_offset(at(p0=0))
    stream.plan(at(p0=0), at(p0=2), "1")
    scene.now += 60
    stream.latest_offset(at(p0=2))
    assert scene.partitions[0].committed == 0, "what it has met of nobody's is not named yet"


def test_a_queue_that_is_away_ends_nothing(scene: StreamScene) -> None:
    stream = scene.stream()
    stream.latest_offset(at(p0=0))
    scene.ranges.away = True
    scene.now += 60
    assert numbers(stream.latest_offset(at(p0=0))) == {0: 0}
    with pytest.raises(AskAgain):
        scene.stream().latest_offset("{}")


def test_a_checkpoint_of_another_queue_is_refused(scene: StreamScene) -> None:
    with pytest.raises(SourceError, match="returns"):
        scene.stream().latest_offset('{"returns": {"0": 1}}')


# -- a batch that a restart repeats


def test_a_repeated_batch_waits_for_owners_and_goes_on_without_after_a_while(scene: StreamScene) -> None:
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


def test_a_repeated_batch_is_read_by_its_owners_who_keep_it_until_it_is_done(scene: StreamScene) -> None:
    scene.add()
    stream = scene.stream()
    assert told(stream.plan(at(p0=0), at(p0=1), "1")) == [(0, 0, 1, "1")]
    assert scene.partitions[0].logged == 0
    scene.own({}, revoking={0: 1})
    assert scene.released == frozenset()
    stream.latest_offset(at(p0=1))
    scene.finishing.finish_next(ORDERS)
    assert {one.partition for one in scene.released} == {0}


def test_a_repeated_batch_is_not_read_by_who_is_to_let_go(scene: StreamScene) -> None:
    scene.add()
    scene.own({}, revoking={0: 1})
    stream = scene.stream()
    with pytest.raises(AskAgain):
        stream.plan(at(p0=0), at(p0=1), "1")
    scene.now += scene.context.repeat_wait
    assert told(stream.plan(at(p0=0), at(p0=1), "1")) == [(0, 0, 1, "")]


def test_nobody_waits_for_the_owner_of_what_was_set_aside_and_withdrawn_since() -> None:
    scene = StreamScene(2)
    scene.add(0)
    scene.add(1)
    scene.own({0: 1, 1: 1})
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


def test_what_is_gone_before_a_batch_ends_the_query_with_the_cure(scene: StreamScene) -> None:
    scene.add(count=3)
    scene.take_away(2)
    stream = scene.stream()
    stream.latest_offset("{}")
    with pytest.raises(SourceError, match="set the option failOnDataLoss to false"):
        stream.latest_offset(at(p0=0))


def test_what_is_gone_before_a_batch_is_passed_over_where_that_is_allowed(scene: StreamScene) -> None:
    scene.add(count=3)
    scene.take_away(2)
    stream = scene.stream(careful=False)
    stream.latest_offset("{}")
    assert numbers(stream.latest_offset(at(p0=0))) == {0: 3}


def test_what_is_gone_within_a_batch_ends_the_query_with_the_cure(scene: StreamScene) -> None:
    scene.add(count=3)
    stream = scene.stream()
    stream.latest_offset(at(p0=0))
    scene.take_away(2)
    with pytest.raises(SourceError, match="its first entry is 3"):
        stream.plan(at(p0=0), at(p0=3), "1")


def test_what_is_there_of_a_batch_is_read_where_that_is_allowed(scene: StreamScene, caplog: pytest.LogCaptureFixture) -> None:
    scene.add(count=3)
    stream = scene.stream(careful=False)
    stream.latest_offset(at(p0=0))
    scene.take_away(2)
    assert told(stream.plan(at(p0=0), at(p0=3), "1")) == [(0, 2, 3, "1")]
    assert scene.counts.statistics().positions_lost == 2
    assert caplog.messages[-1].endswith("failOnDataLoss is false, so the query continues with the existing entries")


@pytest.mark.parametrize(("acknowledged", "end"), [(2, 3), (3, 2)])
def test_what_a_pod_has_left_of_a_batch_is_read_where_that_is_allowed(scene: StreamScene, acknowledged: int, end: int) -> None:
    scene.add(count=3)
    stream, one = scene.stream(careful=False), scene.partitions[0]
    stream.latest_offset(at(p0=0))
    one.log(one.query, 0, 3)
    one.read(one.uid, one.epoch, 3)
    one.ack(one.uid, one.epoch, acknowledged)
    assert told(stream.plan(at(p0=0), at(p0=3), "1")) == [(0, 0, end, "1")]


def test_nothing_is_read_of_a_batch_of_which_nothing_is_there(scene: StreamScene) -> None:
    scene.add(count=3)
    stream = scene.stream(careful=False)
    stream.latest_offset(at(p0=0))
    scene.take_away(3)
    assert told(stream.plan(at(p0=0), at(p0=3), "1")) == []


# -- AvailableNow


def test_a_query_that_ends_reads_what_was_there_when_it_began(scene: StreamScene) -> None:
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


def test_a_query_that_ends_waits_for_owners_of_what_it_is_to_read() -> None:
    scene = StreamScene(2)
    scene.add(1)
    stream = scene.stream()
    stream.prepare_available_now()
    assert numbers(stream.latest_offset(at(p0=0))) == {0: 0, 1: 0}, "nobody owns it yet"
    with pytest.raises(AskAgain) as again:
        stream.latest_offset(at(p0=0, p1=0))
    assert again.value.milliseconds < 1000 * scene.now, "most of the time an owner is heard of at once"
    scene.own({0: 1, 1: 1})
    assert numbers(stream.latest_offset(at(p0=0, p1=0))) == {0: 0, 1: 1}


def test_a_query_that_waits_for_owners_does_not_hold_up_a_fleet_that_stops() -> None:
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


def test_a_query_that_ends_does_so_where_what_it_was_to_read_has_gone(scene: StreamScene) -> None:
    scene.add(count=2)
    stream = scene.stream(careful=False)
    stream.prepare_available_now()
    stream.latest_offset("{}")
    scene.take_away(2)
    assert numbers(stream.latest_offset(at(p0=0))) == {0: 0}


def test_a_query_that_ends_asks_until_it_knows_what_it_is_to_read(scene: StreamScene) -> None:
    scene.add()
    stream = scene.stream()
    scene.ranges.away = True
    with pytest.raises(AskAgain):
        stream.prepare_available_now()
    scene.ranges.away = False
    stream.prepare_available_now()
    assert numbers(stream.latest_offset(at(p0=0))) == {0: 1}


def test_a_queue_that_does_not_tell_sizes_is_read_by_those_of_the_entries_before(scene: StreamScene) -> None:
    mebibyte = 2**20
    scene.ranges.sizes_known = False
    scene.add(count=300)
    assert numbers(scene.stream(max_rows=1000).latest_offset(at(p0=0))) == {0: 300}, "nobody has set a limit"
    stream = scene.stream(max_bytes=4 * mebibyte)
    assert numbers(stream.latest_offset(at(p0=0))) == {0: 4}, "nothing is known"
    read = RangeReport(a_partition("orders", 0), 4, How.OWNER, rows=4, bytes=mebibyte)
    scene.finishing.sizes.learn([read])
    assert numbers(stream.latest_offset(at(p0=4))) == {0: 20}
    scene.finishing.sizes.learn([read._replace(rows=1, bytes=9 * mebibyte)])
    assert numbers(stream.latest_offset(at(p0=20))) == {0: 21}, "one at least"


# -- what a query may not go on with


def test_a_position_that_the_queue_has_not_reached_ends_the_query_whatever_it_may_lose(scene: StreamScene) -> None:
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


def test_what_a_query_skips_is_said(scene: StreamScene, caplog: pytest.LogCaptureFixture) -> None:
    scene.add(count=3)
    queues, only = scene.context.queues, a_partition("orders", 0)
    first_positions(OffsetPlace.COMMITTED, queues)
    first_positions({only: 0}, queues)
    assert caplog.messages == []
    first_positions(OffsetPlace.LATEST, queues)
    assert "startingOffsets skips entries of 1 partition of queue orders that were never read" in caplog.text


def test_a_partition_that_the_queue_has_no_more_is_not_behind() -> None:
    scene = StreamScene(2)
    entries = LastEntries(scene.context.queues, lambda: scene.now)
    both = {a_partition("orders", 0): 0, a_partition("orders", 1): 0}
    assert entries.behind(both).keys() == both.keys()
    del scene.partitions[1]
    scene.now += 60
    assert entries.behind(both).keys() == {a_partition("orders", 0)}


def test_a_query_that_is_over_names_no_further_partition_in_the_checkpoint_of_the_next_one() -> None:
    scene = StreamScene(2)
    stream = scene.stream()
    assert numbers(stream.latest_offset(at(p0=0))) == {0: 0}
    scene.partitions[1].fence(99)
    scene.own({0: 1, 1: 1})
    with pytest.raises(SourceError, match=r"a later query \(number 99\)"):
        stream.latest_offset(at(p0=0))


def test_what_is_behind_is_known_of_each_queue_that_answers() -> None:
    class Away(QueueWithoutEntries):
        def positions(self) -> Mapping[int, PartitionBounds]:
            raise QueueUnreachable("it is away")

    scene = StreamScene()
    scene.add(count=3)
    queues: dict[str, LoggedRanges] = {"shop/a-queue-that-is-away": Away(), "shop/orders": scene.ranges}
    both = FleetQueues({QueueName("a-queue-that-is-away"): "", ORDERS: ""}, "shop", "group", lambda _, name, group: queues[name])
    entries = LastEntries(both, lambda: scene.now)
    assert entries.behind({a_partition("orders", 0): 1, a_partition("a-queue-that-is-away", 0): 1}) == {
        a_partition("orders", 0): 2,
        a_partition("a-queue-that-is-away", 0): 0,
    }
    both.close()
