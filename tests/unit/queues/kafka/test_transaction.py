"""A partition's transactional id is its own; and an operator has time to write a grant down."""

import pytest

from baton.queues.kafka.announcements import announcing_group
from baton.queues.kafka.fence import GRANTED_WITHIN, granted_within, transactional_id


@pytest.mark.parametrize("other", [("orders.eu", "pay", 1), ("orders", "eu.pay.1", 1), ("orders", "eu.pay", 11)])
def test_dots_in_the_names_of_groups_and_topics_make_no_two_ids_the_same(other: tuple[str, str, int]) -> None:
    assert transactional_id("orders", "eu.pay", 1) != transactional_id(*other)


def test_an_acl_on_the_prefix_of_a_group_covers_no_other() -> None:
    assert transactional_id("orders", "pay", 0).startswith("baton.orders/")
    assert not transactional_id("orders.eu", "pay", 0).startswith("baton.orders/")


def test_no_group_of_a_queue_has_the_id_of_another_ones_announcements() -> None:
    assert announcing_group("shop.orders") != "shop.orders.announcements"


def test_at_a_slow_broker_an_operator_has_as_long_for_a_grant_as_two_answers_take() -> None:
    assert granted_within(0.005) == GRANTED_WITHIN
    assert granted_within(1.5) == 3.0
