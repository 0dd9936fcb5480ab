import pytest

from baton.model.ids import QueueName
from baton.spark.offsets import BatchOptions, OffsetPlace, OptionError, StreamOptions, batch_options, stream_options
from tests.ids import a_partition

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
    with pytest.raises(OptionError) as refused:
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
    with pytest.raises(OptionError) as refused:
        batch(**options)
    assert why in str(refused.value)
