"""A fleet at its start, and one whose JVM is killed or whose Spark is stopped while it runs."""

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from baton.model.ids import QueueName
from baton.spark import Directory, Fleet
from baton.spark.ledger import LedgerGrants
from baton.spark.running_fleet import LATE, STEPS, SparkLife, StartTimes, unread_queues
from baton.spark.session import FleetSession
from tests.unit.spark.builders import grant
from tests.unit.spark.played_jvm import PlayedJvm
from tests.waiting import PATIENCE, until


def test_the_seconds_of_each_step_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    now = [10.0]
    times = StartTimes("orders", 10.0, lambda: now[0])
    with caplog.at_level(logging.INFO, "baton.spark"):
        for step, seconds in zip(STEPS, (9.0, 0.5, 12.0, 1.0, 4.0), strict=True):
            now[0] += seconds
            times.done(step)
            times.done(step)
    assert caplog.messages == [
        "the first batch is done 26.5 s after the start of the driver (seconds: Spark 9.0, Lease 0.5, executors 12.0, "
        "partitions 1.0, first batch 4.0)"
    ]


def test_the_start_of_this_process_is_known() -> None:
    times = StartTimes("orders")
    assert times._begun < times._clock()


def test_who_waits_long_is_told_once_what_for(caplog: pytest.LogCaptureFixture) -> None:
    now = [10.0]
    times = StartTimes("orders", 10.0, lambda: now[0])

    def after(seconds: float) -> list[str]:
        now[0] += seconds
        caplog.clear()
        times.look()
        times.look()
        return [message.partition(":")[0] for message in caplog.messages]

    assert after(LATE + 1) == [], "the start of Spark, and the Lease, have words of their own"
    times.done("Spark")
    times.done("Lease")
    assert after(LATE) == []
    assert after(1) == ["for 30 s group orders waits"]
    assert after(LATE) == []
    times.done("executors")
    assert after(LATE + 1) == ["for 30 s group orders waits"]
    assert "kubectl describe consumergroup orders" in caplog.text
    times.done("partitions")
    assert after(LATE + 1) == [], "a fleet without entries has nothing to do"


def life(answers: Iterator[bool | None]) -> SparkLife:
    """None: no answer."""

    def stopped() -> bool:
        answer = next(answers)
        if answer is None:
            raise ConnectionRefusedError("no JVM listens")
        return answer

    return SparkLife(stopped)


def test_a_jvm_that_answers_again_was_not_gone() -> None:
    asked = life(iter([None, None, False, None, None, False]))
    for _ in range(6):
        asked.look()
        assert asked.goes_on
        assert not asked.gone


def test_a_jvm_that_does_not_answer_any_more_has_gone() -> None:
    asked = life(iter([None, None, None]))
    for _ in range(3):
        assert asked.goes_on
        asked.look()
    assert not asked.goes_on
    assert asked.gone == "Spark's JVM has gone (no JVM listens)"


def test_spark_that_was_stopped_is_not_gone() -> None:
    asked = life(iter([True]))
    asked.look()
    assert (asked.goes_on, asked.gone) == (False, "")


ORDERS = frozenset({QueueName("orders")})


def test_a_fleet_that_was_told_of_all_its_queues_has_no_trouble() -> None:
    assert unread_queues(LedgerGrants(), ORDERS) == ""
    assert unread_queues(LedgerGrants(frozenset({grant("a", 0)}), frozenset({grant("b", 1)})), ORDERS) == ""


def test_queues_that_the_fleet_was_not_told_of_are_named_with_the_cure() -> None:
    owned = frozenset({grant("a", 0), grant("a", 0, queue="parcels")})
    said = unread_queues(LedgerGrants(owned, frozenset({grant("b", 1, queue="letters")})), ORDERS)
    assert said.startswith("The fleet owns partitions of queues letters, parcels and does not read them: name each with its URL")


class Lease(FleetSession):
    def __init__(self) -> None:
        super().__init__()
        self.free = self.given_up = False
        self.waits = threading.Event()

    def acquire(self, given_up: Callable[[], bool] = lambda: False) -> None:
        self.waits.set()
        until(lambda: self.free or given_up(), "it is free")

    def close(self) -> None:
        self.given_up = True


class Scene:
    def __init__(self, folder: Path) -> None:
        self.jvm, self.lease = PlayedJvm(), Lease()
        self.lease.free = True
        executors: Any = self.jvm
        place = Directory(folder, session=self.lease)
        queues = {"orders": "redis://127.0.0.1:1"}
        self.fleet = Fleet(self.jvm.session(), group="orders", queues=queues, environment=place, executors=executors)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setattr("baton.spark.running_fleet.ensure_callback_server_started", lambda gateway: None)
    made = Scene(tmp_path)
    yield made
    made.fleet.stop(0)


def raised(what: Callable[[], object]) -> BaseException | None:
    """By what the main thread does in a driver."""
    errors: list[BaseException | None] = []

    def run() -> None:
        try:
            what()
        except BaseException as error:
            errors.append(error)
        else:
            errors.append(None)

    asked = threading.Thread(target=run, daemon=True)
    asked.start()
    asked.join(PATIENCE)
    assert errors, "it stays for ever"
    return errors[0]


def served(scene: Scene, monkeypatch: pytest.MonkeyPatch, then: Callable[[], object]) -> BaseException | None:
    """What `serve` raises; `then` happens while it stays."""
    monkeypatch.setattr("signal.signal", lambda number, handler: None)  # it is not the main thread
    said = threading.Thread(target=lambda: (until(lambda: scene.fleet._running, "it runs"), then()), daemon=True)
    said.start()
    return raised(scene.fleet.serve)


def test_a_fleet_whose_jvm_is_killed_gives_the_group_up_and_says_so(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    error = served(scene, monkeypatch, lambda: setattr(scene.jvm, "killed", True))
    assert isinstance(error, RuntimeError)
    assert str(error) == "Spark's JVM has gone (no JVM listens): the driver of group orders ends"
    assert scene.lease.given_up


def test_a_fleet_whose_spark_is_stopped_gives_the_group_up(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    assert served(scene, monkeypatch, lambda: setattr(scene.jvm, "stopped", True)) is None
    assert scene.lease.given_up


def test_a_fleet_is_stopped_also_where_its_jvm_has_gone(scene: Scene) -> None:
    running = scene.fleet.start()._running
    assert running is not None
    scene.jvm.killed = True
    assert raised(scene.fleet.stop) is None
    assert running.over() == "the fleet of group orders was stopped"
    assert scene.lease.given_up


def test_a_query_is_not_started_for_ever_where_the_jvm_has_gone(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    scene.fleet.start()
    scene.jvm.killed = True

    def start(rows: object) -> Any:
        raise AssertionError("there is nobody to start it")

    error = raised(lambda: scene.fleet.run(start))
    assert isinstance(error, RuntimeError)
    assert str(error).startswith("Spark's JVM has gone")
    assert scene.lease.given_up


def test_a_fleet_that_is_stopped_while_it_waits_for_the_lease_does_not_start(scene: Scene) -> None:
    scene.lease.free = False

    def stop() -> None:
        scene.lease.waits.wait()
        scene.fleet.stop()

    threading.Thread(target=stop, daemon=True).start()
    error = raised(scene.fleet.start)
    assert isinstance(error, RuntimeError)
    assert str(error) == "the fleet of group orders was stopped while it waited for the group"
    assert not scene.jvm.groups, "another may drive it"
    assert scene.lease.given_up


def test_a_fleet_that_is_stopped_while_it_starts_does_not_run(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("baton.spark.running_fleet.ensure_callback_server_started", lambda gateway: scene.fleet.stop())
    error = raised(scene.fleet.start)
    assert isinstance(error, RuntimeError)
    assert str(error) == "the fleet of group orders was stopped while it started"
    assert not scene.jvm.groups, "another may drive it"
    assert scene.lease.given_up


def test_a_fleet_that_was_stopped_is_started_again(scene: Scene) -> None:
    scene.fleet.start()
    scene.fleet.stop()
    scene.fleet.start()
    assert not scene.fleet._given_up.is_set()
