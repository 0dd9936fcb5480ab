from baton.model.ids import QueueName
from baton.spark.ledger import Ownership
from baton.spark.running_fleet import unread_queues
from tests.unit.spark.builders import grant

ORDERS = frozenset({QueueName("orders")})


def test_a_fleet_that_was_told_of_all_its_queues_has_no_trouble() -> None:
    assert unread_queues(Ownership(), ORDERS) == ""
    assert unread_queues(Ownership(frozenset({grant("a", 0)}), frozenset({grant("b", 1)})), ORDERS) == ""


def test_queues_that_the_fleet_was_not_told_of_are_named_with_the_cure() -> None:
    owned = frozenset({grant("a", 0), grant("a", 0, queue="parcels")})
    said = unread_queues(Ownership(owned, frozenset({grant("b", 1, queue="letters")})), ORDERS)
    assert said.startswith("The fleet owns partitions of queues letters, parcels and does not read them: name each with its URL")
