import pytest

from baton.model.ids import QueueName
from baton.spark.offsets import OffsetError, of_these_queues, offset_text, parse_offset
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
    with pytest.raises(OffsetError) as refused:
        parse_offset(text, "startingOffsets")
    assert str(refused.value).startswith("startingOffsets")
    assert why in str(refused.value)
    assert len(str(refused.value)) < 300


def test_a_checkpoint_of_another_queue_is_refused() -> None:
    of_these_queues({a_partition("orders", 0): 1}, {QueueName("orders")}, "shop")
    with pytest.raises(OffsetError, match="checkpoint is of queue 'parcels', and the fleet of group shop reads orders: give"):
        of_these_queues({a_partition("parcels", 0): 1}, {QueueName("orders")}, "shop")
