"""A query reads two queues, and the server of one stops answering: batches of the other continue."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from threading import Thread
from typing import TypeVar

import pytest

from tests.ids import a_partition, by_queue, epochs
from tests.unit.spark.builders import entry
from tests.unit.spark.stream_scene import PARCELS, StreamScene, numbers, text
from tests.waiting import PATIENCE, until

T = TypeVar("T")


@pytest.fixture
def scene() -> Iterator[StreamScene]:
    made = StreamScene(parcels=True)
    yield made
    speak_again(made)
    made.context.queues.close()


def fall_silent(scene: StreamScene) -> None:
    assert scene.parcels is not None
    scene.parcels.answers_now.clear()


def speak_again(scene: StreamScene) -> None:
    assert scene.parcels is not None
    scene.parcels.answers_now.set()
    until(lambda: not scene.context.queues.late(), "it has answered what it was asked")


def at(orders: int) -> str:
    return text({a_partition("orders", 0): orders, a_partition("parcels", 0): 0})


def in_time(what: Callable[[], T]) -> T:
    answers: list[T] = []
    asked = Thread(target=lambda: answers.append(what()), daemon=True)
    asked.start()
    asked.join(PATIENCE)
    assert answers, "it waits for the queue that is silent"
    return answers[0]


def test_what_was_finished_long_ago_is_said_again_where_it_is_heard(scene: StreamScene) -> None:
    stream = scene.stream()
    stream.latest_offset(at(0))
    fall_silent(scene)
    scene.now += 60
    assert numbers(in_time(lambda: stream.latest_offset(at(0)))) == {0: 0}
    scene.add()
    assert numbers(in_time(lambda: stream.latest_offset(at(0)))) == {0: 1}
    assert scene.parcels is not None
    said = len(scene.parcels.finished)
    speak_again(scene)
    scene.now += 60
    stream.plan(at(0), at(1), "1")
    assert len(scene.parcels.finished) == said + 1, "it is said when the queue answers again"


def test_a_progress_tells_how_far_behind_the_query_is_as_was_known_last(scene: StreamScene) -> None:
    stream = scene.stream()
    stream.latest_offset(at(0))
    fall_silent(scene)
    scene.now += 60
    in_time(lambda: stream.latest_offset(at(0)))
    scene.add(count=3)
    behind = in_time(lambda: stream.rows_behind({a_partition("orders", 0): 1, a_partition("parcels", 0): 0}))
    assert behind == {a_partition("orders", 0): 2, a_partition("parcels", 0): 0}


def test_a_partition_that_appears_in_a_silent_queue_is_read_when_that_answers(scene: StreamScene) -> None:
    stream = scene.stream()
    begin = text({a_partition("orders", 0): 0})
    stream.latest_offset(begin)
    fall_silent(scene)
    scene.now += 60
    in_time(lambda: stream.latest_offset(begin))
    scene.ledger.write(replace(entry("exec-1", {0: 1}), owned=by_queue({"orders": epochs({0: 1}), PARCELS: epochs({0: 1})})))
    scene.add()
    assert numbers(in_time(lambda: stream.latest_offset(begin))) == {0: 1}
    speak_again(scene)
    assert stream.latest_offset(begin)[a_partition("parcels", 0)] == 0
