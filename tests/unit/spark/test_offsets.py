"""Offsets and options of the source."""

import pytest

from baton.model.ids import QueueName
from baton.spark.offsets import (
    BatchOptions,
    OffsetPlace,
    SourceError,
    StreamOptions,
    batch_options,
    of_these_queues,
    offset_text,
    parse_offset,
    stream_options,
)
from tests.ids import a_partition


def test_an_offset_is_the_same_text_whatever_order_it_was_made_in() -> None:
    positions = {a_partition("orders", 10): 4, a_partition("parcels", 0): 0, a_partition("orders", 2): 17}
    text = offset_text(positions)
    assert text == '{"orders":{"2":17,"10":4},"parcels":{"0":0}}'
    assert parse_offset(text) == parse_offset(text.replace(":", ": ")) == positions


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[1]", 'expected {"queue"'),
        ('{"orders": 4}', 'expected {"queue"'),
        ('{"orders": {"x": 4}}', "partition 'x' of queue 'orders'"),
        ('{"orders": {"01": 4}}', "partition '01' of queue 'orders'"),
        ('{"orders": {"0": -1}}', "has '-1' for 'orders'/0"),
        ('{"orders": {"0": "4"}}', "has '4' for 'orders'/0"),
        ('{"orders": {"0": true}}', "has 'True' for 'orders'/0"),
    ],
)
def test_what_is_wrong_is_named(text: str, why: str) -> None:
    with pytest.raises(SourceError) as refused:
        parse_offset(text, "startingOffsets")
    assert str(refused.value).startswith("startingOffsets")
    assert why in str(refused.value)
    assert len(str(refused.value)) < 300


def test_a_checkpoint_of_another_queue_is_refused() -> None:
    of_these_queues({a_partition("orders", 0): 1}, {QueueName("orders")}, "shop")
    with pytest.raises(SourceError, match="checkpoint is of queue 'parcels', and the fleet of group shop reads orders: give"):
        of_these_queues({a_partition("parcels", 0): 1}, {QueueName("orders")}, "shop")


QUEUES = {QueueName("orders")}


def stream(**options: str) -> StreamOptions:
    return stream_options({"group": "shop", **options}, "shop", QUEUES)


def batch(**options: str) -> BatchOptions:
    return batch_options({"group": "shop", **options}, "shop", QUEUES)


def test_what_is_not_said_has_a_default() -> None:
    assert stream() == StreamOptions(OffsetPlace.COMMITTED, True, 200_000, 256 * 1024 * 1024)
    assert batch() == BatchOptions(OffsetPlace.EARLIEST, OffsetPlace.LATEST)


def test_what_is_said() -> None:
    found = stream(startingoffsets="Latest", failondataloss="FALSE", maxrowspertrigger="10", maxbytespertrigger="20")
    assert found == StreamOptions(OffsetPlace.LATEST, False, 10, 20)
    assert stream(startingoffsets=' {"orders": {"3": 7}}').starting == {a_partition("orders", 3): 7}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"startingoffset": "latest"}, "a stream has no option 'startingoffset' (did you mean startingOffsets?): it has group,"),
        ({"maxoffsetspertrigger": "9"}, "has no option 'maxoffsetspertrigger' (did you mean maxRowsPerTrigger?): it has"),
        ({"endingoffsets": "latest"}, "a stream has no option 'endingoffsets' (of a batch read only)"),
        ({"group": "other"}, "the option group is 'other', and the fleet is of group shop"),
        ({"startingoffsets": "newest"}, "startingOffsets is 'newest': set it to committed, earliest, latest, or {"),
        ({"startingoffsets": '{"parcels": {"0": 1}}'}, "startingOffsets names queue 'parcels': the fleet reads orders"),
        ({"startingoffsets": '{"orders": {"0": -1}}'}, "startingOffsets has '-1'"),
        ({"failondataloss": "no"}, "failOnDataLoss is 'no': set it to true or false"),
        ({"maxrowspertrigger": "0"}, "maxRowsPerTrigger is '0': set it to a whole number, 1 or more"),
        ({"maxbytespertrigger": "1e6"}, "maxBytesPerTrigger is '1e6': set it to a whole number, 1 or more"),
    ],
)
def test_a_stream_s_options_that_are_wrong_are_named_with_the_cure(options: dict[str, str], why: str) -> None:
    with pytest.raises(SourceError) as refused:
        stream(**options)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"maxrowspertrigger": "5"}, "a batch read has no option 'maxrowspertrigger' (of a stream only)"),
        ({"startingoffsets": "latest"}, "startingOffsets is 'latest': set it to committed, earliest, or {"),
        ({"endingoffsets": "earliest"}, "endingOffsets is 'earliest': set it to committed, latest, or {"),
        (
            {"startingoffsets": '{"orders": {"0": 9}}', "endingoffsets": '{"orders": {"0": 8}}'},
            "endingOffsets has 8 for orders/0 and startingOffsets 9: let it begin before it ends",
        ),
    ],
)
def test_a_batch_read_s_options_that_are_wrong_are_named_with_the_cure(options: dict[str, str], why: str) -> None:
    with pytest.raises(SourceError) as refused:
        batch(**options)
    assert why in str(refused.value)
