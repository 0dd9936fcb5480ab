"""The stages of the grace period."""

from math import inf

import pytest

from baton.consumer.ending import GracePeriod


def test_queues_have_as_long_to_hear_of_a_hand_off_as_the_process_goes_on() -> None:
    clock = [1000.0]
    grace = GracePeriod(30, lambda: clock[0])
    assert grace.for_answers == inf
    grace.stop()
    assert grace.for_answers == 25.0
    clock[0] = 1024.0
    assert grace.for_answers == 3.0, "the handlers need none of the time that is kept for them"
    grace = GracePeriod(30, lambda: clock[0])
    grace.stop_now()
    assert grace.for_answers == 3.0


def test_at_the_end_queues_have_all_the_time_that_handlers_have_left_them() -> None:
    clock = [1000.0]
    grace = GracePeriod(30, lambda: clock[0])
    grace.stop()
    clock[0] = grace.due
    grace.leave(0.01)
    assert grace.for_answers == pytest.approx(3.0), "no handler was running"
    clock[0] = grace.due
    assert grace.for_answers == pytest.approx(0.7), "the handlers have used theirs"
    clock[0] = grace.over_at
    assert grace.for_answers == 0.0


def test_what_is_in_hand_is_begun_as_long_as_it_is_likely_to_be_done_in_time() -> None:
    clock = [1000.0]
    grace = GracePeriod(30, lambda: clock[0])
    grace.stop()
    clock[0] = grace.due
    grace.leave(0.5)
    assert (grace.begins_nothing, grace.next) == (False, 1027.0)
    clock[0] = 1027.0
    assert (grace.begins_nothing, grace.next) == (True, 1028.0)


def test_nothing_is_begun_that_takes_too_long_or_where_it_is_to_end_at_once() -> None:
    grace = GracePeriod(30, lambda: 1000.0)
    grace.leave(2.0)
    assert grace.begins_nothing
    grace = GracePeriod(30, lambda: 1000.0)
    grace.stop()
    grace.stop_now()
    grace.leave(0.001)
    assert grace.begins_nothing


def test_what_ends_at_once_waits_for_no_handler_also_where_it_was_about_to_end() -> None:
    clock = [1000.0]
    grace = GracePeriod(30, lambda: clock[0])
    grace.stop_now()
    grace.leave(0.01)
    assert grace.due == 1003.0
    clock[0] = 1001.0
    grace.abort()
    assert grace.due == 1001.0


@pytest.mark.parametrize(("cut_off", "due"), [(True, 1018.5), (False, 1025.0)])
def test_it_ends_early_if_neither_queues_nor_api_server_answer(cut_off: bool, due: float) -> None:
    clock = [1000.0]
    grace = GracePeriod(30, lambda: clock[0])
    grace.stop()
    assert grace.next == 1018.5
    clock[0] = 1018.4
    grace.stop_if_cut_off(lambda: cut_off)
    assert grace.due == 1025.0
    clock[0] = 1018.5
    grace.stop_if_cut_off(lambda: cut_off)
    assert grace.due == due
