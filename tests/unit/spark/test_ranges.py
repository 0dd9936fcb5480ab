"""Where ranges are read, by which task, and the options for them."""

from collections import Counter

import pytest

from baton.model.ids import QueueName
from baton.spark.executors import by_pod
from baton.spark.offsets import (
    BatchOptions,
    OffsetPlace,
    SourceError,
    StreamOptions,
    batch_options,
    log_ids,
    of_these_queues,
    offset_text,
    parse_offset,
    stream_options,
)
from baton.spark.queues import Range
from baton.spark.ranges import ROWS, owners, placed, range_tasks, ranges
from tests.ids import a_partition
from tests.unit.spark.builders import executor, grant

P0, P1, P2 = (a_partition("orders", number) for number in range(3))
FLEET = by_pod([executor(1), executor(2)])


def test_a_range_is_what_lies_between_two_offsets() -> None:
    assert ranges({P0: 3, P1: 4}, {P1: 9, P0: 3}) == [Range(P1, 4, 9)]


def test_a_partition_without_a_start_has_no_range() -> None:
    assert ranges({P0: 3}, {P0: 4, P1: 9}) == [Range(P0, 3, 4)]


def test_a_partition_without_an_end_has_no_range() -> None:
    assert ranges({P0: 3, P1: 4}, {P0: 5}) == [Range(P0, 3, 5)]


def test_owners_are_executors_that_can_be_given_a_task() -> None:
    grants = {P0: grant("exec-1", 0), P1: grant("exec-9", 1), a_partition("orders", 2): grant("exec-2", 2)}
    assert owners(grants, FLEET, [P0, P1]) == {P0: grant("exec-1", 0)}


def test_a_range_prefers_its_owners_executor() -> None:
    told = placed(Range(P0, 3, 4), grant("exec-2", 0, 7), FLEET, 0)
    assert (told["uid"], told["epoch"], told["executor"], told["location"]) == ("uid-exec-2", 7, "2", "executor_10.0.0.2_2")


def test_a_range_without_an_owner_may_be_read_anywhere() -> None:
    for owner in (None, grant("exec-9", 0, 7)):
        told = placed(Range(P0, 3, 4), owner, FLEET, 0)
        assert (told["uid"], told["epoch"], told["executor"], told["location"]) == ("", 0, "", "")


def loads(ranges: list[tuple[str, int]], slots: int = 1) -> list[int]:
    """The number of rows of each task."""
    found: Counter[int] = Counter()
    for task, (_, rows) in zip(range_tasks(ranges, {"1": slots, "2": slots}), ranges, strict=True):
        found[task] += rows
    return sorted(found.values())


def test_small_ranges_are_shared_by_as_many_tasks_as_the_executor_has_slots() -> None:
    assert loads([("1", 10)] * 8) == [80]
    assert loads([("1", 10)] * 8, slots=2) == [40, 40]
    assert loads([("1", 10)], slots=2) == [10]


def test_no_task_reads_for_two_executors() -> None:
    ranges = [("1", 10), ("2", 10)] * 4
    tasks = range_tasks(ranges, {"1": 1, "2": 1})
    assert {(task, executor) for task, (executor, _) in zip(tasks, ranges, strict=True)} == {(tasks[0], "1"), (tasks[1], "2")}
    assert tasks[0] != tasks[1]


def test_a_large_range_gets_a_separate_task() -> None:
    assert loads([("1", ROWS)] * 3) == [ROWS] * 3
    assert loads([("1", 100 * ROWS), ("1", 1), ("1", 1)]) == [1, 1, 100 * ROWS]


def test_rows_are_shared_evenly_by_all_slots() -> None:
    found = loads([("1", 100)] * 450, slots=4)
    assert len(found) % 4 == 0
    assert max(found) - min(found) <= 100
    assert max(found) <= ROWS


def test_ranges_without_an_owner_get_a_task_each() -> None:
    assert loads([("", 1)] * 3) == [1, 1, 1]


# -- Offsets and options of the source.


def test_an_offset_has_one_text() -> None:
    positions = {a_partition("orders", 10): 4, a_partition("parcels", 0): 0, a_partition("orders", 2): 17}
    text = offset_text(positions)
    assert text == '{"orders":{"2":17,"10":4},"parcels":{"0":0}}'
    assert parse_offset(text) == parse_offset(text.replace(":", ": ")) == positions
    of_a_topic = offset_text(positions, {QueueName("orders"): "cD3x", QueueName("letters"): "aaaa"})
    assert of_a_topic == '{"orders":{"2":17,"10":4,"id":"cD3x"},"parcels":{"0":0}}'
    assert parse_offset(of_a_topic) == positions
    assert log_ids(of_a_topic) == {"orders": "cD3x"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[1]", 'expected {"queue"'),
        ('{"orders": 4}', 'expected {"queue"'),
        ('{"orders": {"x": 4}}', "partition 'x' of queue 'orders'"),
        ('{"orders": {"01": 4}}', "partition '01' of queue 'orders'"),
        ('{"orders": {"0": -1}}', "has '-1' for 'orders'/0"),
        ('{"orders": {"0": "4"}}', "has '4' for 'orders'/0"),
        ('{"orders": {"0": true}}', "has 'True' for 'orders'/0"),
    ],
)
def test_an_invalid_offset_text_is_named(text: str, why: str) -> None:
    with pytest.raises(SourceError) as refused:
        parse_offset(text, "startingOffsets")
    assert str(refused.value).startswith("startingOffsets")
    assert why in str(refused.value)
    assert len(str(refused.value)) < 300


def test_a_checkpoint_of_another_queue_is_rejected() -> None:
    of_these_queues({a_partition("orders", 0): 1}, {QueueName("orders")}, "shop")
    with pytest.raises(
        SourceError, match="has positions of queue 'parcels', and the fleet of group shop reads orders: use another"
    ):
        of_these_queues({a_partition("parcels", 0): 1}, {QueueName("orders")}, "shop")


QUEUES = {QueueName("orders")}


def stream(**options: str) -> StreamOptions:
    return stream_options({"group": "shop", **options}, "shop", QUEUES)


def batch(**options: str) -> BatchOptions:
    return batch_options({"group": "shop", **options}, "shop", QUEUES)


def test_options_have_defaults() -> None:
    assert stream() == StreamOptions(OffsetPlace.COMMITTED, True, 200_000, 256 * 1024 * 1024)
    assert batch() == BatchOptions(OffsetPlace.EARLIEST, OffsetPlace.LATEST)


def test_given_options_are_used() -> None:
    found = stream(startingoffsets="Latest", failondataloss="FALSE", maxrowspertrigger="10", maxbytespertrigger="20")
    assert found == StreamOptions(OffsetPlace.LATEST, False, 10, 20)
    assert stream(startingoffsets=' {"orders": {"3": 7}}').starting == {a_partition("orders", 3): 7}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"startingoffset": "latest"}, "a stream has no option 'startingoffset' (did you mean startingOffsets?): it has group,"),
        ({"maxoffsetspertrigger": "9"}, "has no option 'maxoffsetspertrigger' (did you mean maxRowsPerTrigger?): it has"),
        ({"endingoffsets": "latest"}, "a stream has no option 'endingoffsets' (only a batch read has it)"),
        ({"group": "other"}, "the option group is 'other', and the fleet's group is shop"),
        ({"startingoffsets": "newest"}, "startingOffsets is 'newest': set it to committed, earliest, latest, or {"),
        ({"startingoffsets": '{"parcels": {"0": 1}}'}, "startingOffsets names queue 'parcels': the fleet reads orders"),
        ({"startingoffsets": '{"orders": {"0": -1}}'}, "startingOffsets has '-1'"),
        ({"startingoffsets": '{"orders": {"0": 1, "id": "cD3x"}}'}, "startingOffsets has an id for queue 'orders'"),
        ({"startingoffsets": '{"orders": {"0": 1, "id": null}}'}, "startingOffsets names partition 'id' of queue 'orders'"),
        ({"failondataloss": "no"}, "failOnDataLoss is 'no': set it to true or false"),
        ({"maxrowspertrigger": "0"}, "maxRowsPerTrigger is '0': set it to a whole number, 1 or more"),
        ({"maxbytespertrigger": "1e6"}, "maxBytesPerTrigger is '1e6': set it to a whole number, 1 or more"),
    ],
)
def test_invalid_stream_options_are_named_with_the_cure(options: dict[str, str], why: str) -> None:
    with pytest.raises(SourceError) as refused:
        stream(**options)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"maxrowspertrigger": "5"}, "a batch read has no option 'maxrowspertrigger' (only a stream has it)"),
        ({"startingoffsets": "latest"}, "startingOffsets is 'latest': set it to committed, earliest, or {"),
        ({"endingoffsets": "earliest"}, "endingOffsets is 'earliest': set it to committed, latest, or {"),
        (
            {"startingoffsets": '{"orders": {"0": 9}}', "endingoffsets": '{"orders": {"0": 8}}'},
            "endingOffsets has 8 for orders/0, which is before startingOffsets, 9",
        ),
    ],
)
def test_invalid_batch_options_are_named_with_the_cure(options: dict[str, str], why: str) -> None:
    with pytest.raises(SourceError) as refused:
        batch(**options)
    assert why in str(refused.value)
