"""What a process knows of partitions that owners hand over."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from baton.model.ids import Epoch, Partition, QueueName, Uid
from baton.queues.kafka import direct_handoffs
from baton.queues.kafka.direct_handoffs import DirectHandoffs, HandedOver
from baton.queues.kafka.record import BY_GIVER, Committed, Record, Token
from baton.queues.protocol import Ownership

FIRST = Partition(QueueName("orders"), 0)
ONE, TWO, THREE = Epoch(1), Epoch(2), Epoch(3)
RECORD = Record(group="g", queue="orders", uid=Uid("a"), epoch=TWO, topic_id="t", token=Token(1, 0), first=9, reader=BY_GIVER)
HANDED_OVER = HandedOver("orders-topic", Committed(7, RECORD), 0.0)


def seen(*epochs: Epoch) -> DirectHandoffs:
    """The first partition had these epochs when this process looked at it."""
    handoffs = DirectHandoffs()
    for epoch in epochs:
        handoffs.saw(FIRST, epoch)
    return handoffs


def test_what_a_process_has_seen_under_a_lower_epoch_no_earlier_one_has_read() -> None:
    assert seen(ONE).is_new(FIRST, TWO)
    assert seen(ONE, TWO).is_new(FIRST, TWO)
    assert not seen(TWO).is_new(FIRST, TWO)
    assert not seen(TWO, THREE).is_new(FIRST, TWO)
    assert not DirectHandoffs().is_new(FIRST, TWO), "nothing is known yet"


def test_what_this_process_has_begun_to_read_is_not_new_under_that_epoch() -> None:
    handoffs = seen(ONE)
    handoffs.begins(FIRST, TWO)
    assert not handoffs.is_new(FIRST, TWO)
    assert handoffs.is_new(FIRST, THREE)


def test_what_was_handed_over_is_taken_once_and_under_its_epoch() -> None:
    handoffs = seen(ONE)
    handoffs.handed_over(FIRST, HANDED_OVER)
    assert (handoffs.take(FIRST, TWO), handoffs.take(FIRST, TWO)) == (HANDED_OVER, None)
    handoffs = seen(ONE)
    handoffs.handed_over(FIRST, HANDED_OVER)
    assert handoffs.take(FIRST, THREE) is None


@pytest.mark.parametrize("begins", [lambda handoffs: handoffs.take(FIRST, TWO), lambda handoffs: handoffs.begins(FIRST, TWO)])
def test_a_look_after_it_was_begun_says_nothing_of_where_it_is(begins: Callable[[DirectHandoffs], object]) -> None:
    handoffs = seen(ONE)
    handoffs.handed_over(FIRST, HANDED_OVER)
    begins(handoffs)
    handoffs.handed_over(FIRST, HANDED_OVER)
    assert handoffs.take(FIRST, TWO) is None


def test_who_has_heard_who_is_next_is_about_to_let_go_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    now, handoffs = [100.0], seen(ONE)
    monkeypatch.setattr(direct_handoffs, "time", SimpleNamespace(monotonic=lambda: now[0]))
    assert not handoffs.is_about_to_go(FIRST, ONE)
    handoffs.set_next_owner(FIRST, ONE, Ownership(Uid("b"), TWO))
    assert handoffs.is_about_to_go(FIRST, ONE)
    assert not handoffs.is_about_to_go(FIRST, TWO), "another has it by then"
    now[0] += 1.5
    assert not handoffs.is_about_to_go(FIRST, ONE), "it is in a long handler"
    assert handoffs.next_owner(FIRST, ONE) == Ownership(Uid("b"), TWO)
    handoffs.set_next_owner(FIRST, ONE, Ownership(Uid("b"), TWO))
    handoffs.set_next_owner(FIRST, ONE, None)
    assert not handoffs.is_about_to_go(FIRST, ONE)


def test_what_an_earlier_process_may_have_begun_with_is_not_taken() -> None:
    handoffs = seen(TWO)
    handoffs.handed_over(FIRST, HANDED_OVER)
    assert handoffs.take(FIRST, TWO) is None


def test_a_plan_is_for_the_owner_at_its_epoch() -> None:
    handoffs, b = DirectHandoffs(), Ownership(Uid("b"), TWO)
    handoffs.set_next_owner(FIRST, ONE, b)
    assert (handoffs.next_owner(FIRST, ONE), handoffs.next_owner(FIRST, TWO)) == (b, None)
    handoffs.set_next_owner(FIRST, ONE, None)
    assert handoffs.next_owner(FIRST, ONE) is None
