"""A fleet whose JVM is killed, or whose Spark is stopped, while it runs."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from baton.spark import Directory, Fleet
from baton.spark.session import SilentSession
from tests.unit.spark.played_jvm import PlayedJvm
from tests.waiting import PATIENCE, until


class Lease(SilentSession):
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
