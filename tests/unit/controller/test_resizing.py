"""What people are told of a change of the number of partitions."""

from dataclasses import replace

from tests.unit.controller.test_observe import queue

from baton.controller.event_reasons import EventReason
from baton.controller.problems import Problem, Reason
from baton.controller.queue_board import queue_status
from baton.controller.queue_facts import QueueFacts
from baton.controller.resizing import Resizings, resized
from baton.model.ids import QueueName
from baton.queues.protocol import Resizing
from baton.resources import PartitionScaleStatus

ORDERS = QueueName("orders")
REST = QueueFacts(partitions=13)


def growing(*waits_for: int) -> QueueFacts:
    return replace(REST, resizing=Resizing(12, 13, waits_for))


def test_the_condition_says_how_far_it_is_and_what_it_waits_for() -> None:
    kind, status, reason, message = resized(growing(3, 4, 5, 7), 13)
    assert (kind, status.value, reason) == ("Resized", "False", Reason.RESIZING)
    assert (
        message == "goes from 12 to 13 partitions; waits until the owners of partitions 3-5,7 are done with what was sent before"
    )
    assert "the owner of partition 3 is done" in resized(growing(3), 13)[3]
    assert resized(growing(), 13)[3] == "goes from 12 to 13 partitions"
    assert resized(REST, 13)[1].value == "True"


def test_a_change_that_has_not_begun_yet_is_not_done() -> None:
    """Who waits for the condition right after changing the spec waits for the change."""
    told = resized(REST, 14)
    assert (told[1].value, told[3]) == ("False", "is to go from 13 to 14 partitions")


def test_a_spec_that_changed_again_is_told() -> None:
    assert resized(growing(), 8)[3].endswith("; after that it goes to 8, as spec.partitions says by now")


def test_the_status_of_the_queue_says_so() -> None:
    status = queue_status(queue(), [growing(3)], 0.0)
    assert status.partition_scale_status is PartitionScaleStatus.SCALING_UP
    assert [(one.type, one.status.value) for one in status.conditions] == [
        ("Ready", "True"),
        ("Durable", "True"),
        ("Resized", "False"),
    ]


def test_an_event_tells_of_the_beginning_and_of_the_end_and_none_of_what_is_between() -> None:
    news = Resizings()
    assert list(news.news({ORDERS: REST})) == []
    assert [reason for reason, _ in news.news({ORDERS: growing(1, 2)})] == [EventReason.RESIZING]
    assert list(news.news({ORDERS: growing(1)})) == []
    away = replace(REST, problem=Problem(Reason.QUEUE_UNREACHABLE, "start it"))
    assert list(news.news({ORDERS: away})) == []
    assert list(news.news({ORDERS: REST})) == [
        (EventReason.RESIZED, "orders has 13 partitions, and every key is where that puts it")
    ]
    assert list(news.news({ORDERS: REST})) == []


def test_a_change_right_after_another_is_told_too() -> None:
    news = Resizings()
    list(news.news({ORDERS: growing(1)}))
    back = replace(REST, resizing=Resizing(13, 8, ()))
    assert [note for _, note in news.news({ORDERS: back})] == ["orders goes from 13 to 8 partitions"]


def test_a_queue_that_has_not_been_looked_at_yet_is_not_said_to_have_changed() -> None:
    """It was taken from the spec in the middle of a change, and is there again."""
    news = Resizings()
    list(news.news({ORDERS: growing(1)}))
    assert list(news.news({})) == []
    assert list(news.news({ORDERS: QueueFacts()})) == []
    assert list(news.news({ORDERS: growing(1)})) == []
    assert [reason for reason, _ in news.news({ORDERS: REST})] == [EventReason.RESIZED]
