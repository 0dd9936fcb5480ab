"""What a process knows of partitions that owners hand over."""

from baton.model.ids import Epoch, Partition, QueueName, Uid
from baton.queues.kafka.direct_handoffs import DirectHandoffs, HandedOver
from baton.queues.kafka.record import BY_GIVER, Committed, Record, Token
from baton.queues.protocol import Owner

FIRST = Partition(QueueName("orders"), 0)
ONE, TWO, THREE = Epoch(1), Epoch(2), Epoch(3)
RECORD = Record(group="g", queue="orders", uid=Uid("a"), epoch=TWO, topic_id="t", token=Token(1, 0), first=9, reader=BY_GIVER)
HANDED_OVER = HandedOver("orders-topic", Committed(7, RECORD), 0.0)


def begun(*epochs: Epoch) -> DirectHandoffs:
    """Where the first partition had this epoch when the process began, or none."""
    handoffs = DirectHandoffs()
    handoffs.begin(dict.fromkeys([FIRST], *epochs) if epochs else {})
    return handoffs


def test_what_was_granted_since_a_process_began_no_earlier_one_has_read() -> None:
    assert begun(ONE).is_new(FIRST, TWO)
    assert begun().is_new(FIRST, ONE)
    assert not begun(TWO).is_new(FIRST, TWO)
    assert not DirectHandoffs().is_new(FIRST, TWO), "nothing is known yet"


def test_what_was_handed_over_is_taken_once_and_under_its_epoch() -> None:
    handoffs = begun(ONE)
    handoffs.handed_over(FIRST, HANDED_OVER)
    assert (handoffs.take(FIRST, TWO), handoffs.take(FIRST, TWO)) == (HANDED_OVER, None)
    handoffs.handed_over(FIRST, HANDED_OVER)
    assert handoffs.take(FIRST, THREE) is None


def test_what_an_earlier_process_may_have_begun_with_is_not_taken() -> None:
    handoffs = begun(TWO)
    handoffs.handed_over(FIRST, HANDED_OVER)
    assert handoffs.take(FIRST, TWO) is None


def test_a_plan_is_for_the_owner_at_its_epoch() -> None:
    handoffs, b = DirectHandoffs(), Owner(Uid("b"), TWO)
    handoffs.set_next_owner(FIRST, ONE, b)
    assert (handoffs.next_owner(FIRST, ONE), handoffs.next_owner(FIRST, TWO)) == (b, None)
    handoffs.set_next_owner(FIRST, ONE, None)
    assert handoffs.next_owner(FIRST, ONE) is None
