"""Conditions and events about a change of the number of partitions."""

from dataclasses import replace

import pytest

from baton.api import PartitionScaleStatus
from baton.controller.group_observation import QueueFacts
from baton.controller.problems import EventReason, Problem, Reason
from baton.controller.queue_reports import Resizings, queue_status, resized
from baton.kube.objects import QueueView
from baton.model.ids import QueueName
from baton.queues.protocol import Resizing
from tests.unit.controller.test_group_observation import queue

ORDERS = QueueName("orders")
REST = QueueFacts(partitions=13)


def growing(*waits_for: int) -> QueueFacts:
    return replace(REST, resizing=Resizing(12, 13, waits_for))


def test_the_condition_tells_progress_and_what_is_waited_for() -> None:
    kind, status, reason, message = resized(growing(3, 4, 5, 7), 13)
    assert (kind, status.value, reason) == ("Resized", "False", Reason.RESIZING)
    assert (
        message == "goes from 12 to 13 partitions; "
        "waits until the owners of partitions 3-5,7 have finished the entries sent before"
    )
    assert "the owner of partition 3 has finished" in resized(growing(3), 13)[3]
    assert resized(growing(), 13)[3] == "goes from 12 to 13 partitions"
    assert resized(REST, 13)[1].value == "True"


def shown(status: str, wanted: int = 13) -> QueueView:
    """A queue with this status of its condition Resized, whose spec asks for `wanted` partitions."""
    conditions = [{"type": "Ready", "status": "False"}, {"type": "Resized", "status": status}]
    return replace(queue(partitions=wanted), status={"conditions": conditions})


def news(known: Resizings, facts: QueueFacts, view: QueueView | None = None) -> list[tuple[EventReason, str]]:
    return list(known.news({ORDERS: facts}, lambda _: view))


def test_a_change_that_has_not_begun_is_not_done() -> None:
    """`kubectl wait` right after a change of the spec waits for that change."""
    told = resized(REST, 14)
    assert (told[1].value, told[3]) == ("False", "will go from 13 to 14 partitions")


def test_a_spec_that_changed_again_is_mentioned() -> None:
    assert resized(growing(), 8)[3].endswith("; after that it goes to 8 (spec.partitions)")


def test_the_status_of_the_queue_shows_the_change() -> None:
    status = queue_status(queue(), [growing(3)], 0.0)
    assert status.partition_scale_status is PartitionScaleStatus.SCALING_UP
    assert [(one.type, one.status.value) for one in status.conditions] == [
        ("Ready", "True"),
        ("Durable", "True"),
        ("Resized", "False"),
    ]


HAS_13 = (EventReason.RESIZED, "orders has 13 partitions, and every key is where that puts it")


def test_events_tell_the_beginning_and_the_end_only() -> None:
    known = Resizings()
    assert news(known, REST) == []
    assert [reason for reason, _ in news(known, growing(1, 2))] == [EventReason.RESIZING]
    assert news(known, growing(1)) == []
    assert news(known, replace(REST, problem=Problem(Reason.QUEUE_UNREACHABLE, "start it"))) == []
    assert news(known, REST) == [HAS_13]
    assert news(known, REST) == []


def test_a_change_right_after_another_is_reported() -> None:
    known = Resizings()
    news(known, growing(1))
    back = replace(REST, resizing=Resizing(13, 8, ()))
    assert [note for _, note in news(known, back)] == ["orders goes from 13 to 8 partitions"]


def test_a_new_operator_reports_a_change_that_ended_before_its_first_look() -> None:
    """The former leader was killed while the queue changed, or before it reported the end."""
    known = Resizings()
    assert news(known, QueueFacts(), shown("False")) == []
    assert news(known, REST, queue(partitions=13)) == [HAS_13], "there is no such condition until the queue has answered"
    assert news(known, REST, shown("True")) == []


@pytest.mark.parametrize("view", [shown("True"), shown("False", wanted=14), queue(partitions=13), None])
def test_a_new_operator_reports_no_change_that_had_ended_or_not_begun(view: QueueView | None) -> None:
    assert news(Resizings(), REST, view) == []


def test_a_change_within_one_look_is_reported() -> None:
    known = Resizings()
    news(known, QueueFacts(partitions=12), shown("True", wanted=12))
    assert news(known, REST, shown("True")) == [HAS_13]
    assert news(known, REST, shown("True")) == []


def test_a_queue_that_places_no_keys_reports_no_change() -> None:
    known = Resizings()
    news(known, QueueFacts(partitions=12, fenced=False))
    assert news(known, replace(REST, fenced=False), queue(partitions=13)) == []


def test_an_unseen_queue_has_not_changed() -> None:
    """It was taken from the spec in the middle of a change, and is there again."""
    known = Resizings()
    news(known, growing(1))
    assert list(known.news({}, lambda _: None)) == []
    assert news(known, QueueFacts()) == []
    assert news(known, growing(1)) == []
    assert [reason for reason, _ in news(known, REST)] == [EventReason.RESIZED]
