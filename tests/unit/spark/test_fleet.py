"""The arguments, signals, start and end of a fleet."""

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.connect.session import SparkSession

from baton.model.ids import QueueName
from baton.spark import Directory, Fleet
from baton.spark.running_fleet import LATE, STEPS, SparkLife, StartTimes, unread_queues
from baton.spark.session import FleetSession
from tests.ids import a_partition
from tests.waiting import PATIENCE, until


class PlayedSession(SimpleNamespace):
    @property
    def readStream(self) -> Any:  # noqa: N802 - Spark's name
        return self.reader()


class PlayedJvm:
    """A session in which no query runs until a test sets one."""

    def __init__(self) -> None:
        self.killed = self.stopped = False
        self.queries: dict[str, Any] = {}
        self.groups: set[str] = set()
        """Claimed groups."""

    def session(self) -> Any:
        """Return the part of a Spark session that a fleet uses."""
        context = SimpleNamespace(
            _jvm=SimpleNamespace(dev=SimpleNamespace(baton=SimpleNamespace(spark=self.classes()))),
            _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: self._answer(self.stopped))),
            _gateway=None,
            applicationId="spark-1",
            getLocalProperty=lambda name: self._answer(""),
        )
        active = SimpleNamespace(values=lambda: self._answer(list(self.queries.values())))
        state = SimpleNamespace(activeStreamingQueries=lambda: self._answer(active))
        java = SimpleNamespace(sharedState=lambda: self._answer(state))
        return PlayedSession(sparkContext=context, _jsparkSession=java, reader=lambda: self._answer(None))

    def fleet(self, folder: Path, session: FleetSession) -> Fleet:
        executors: Any = self
        queues, place = {"orders": "redis://127.0.0.1:1"}, Directory(folder, session=session)
        return Fleet(self.session(), group="orders", queues=queues, environment=place, executors=executors)

    def classes(self) -> Any:
        """Return the package `dev.baton.spark`."""
        groups = SimpleNamespace(
            claim=self._claim,
            release=self._release,
            register=lambda group, decisions: None,
            stopBeforeSpark=lambda group, seconds: self._answer(None),
        )
        return SimpleNamespace(Group=groups)

    def registered(self) -> Any:
        """No executors."""
        return self._answer(())

    def _claim(self, group: str) -> bool:
        self.groups.add(group)
        return True

    def _release(self, group: str) -> None:
        self._answer(None)
        self.groups.discard(group)

    def _answer(self, what: Any) -> Any:
        if self.killed:
            raise ConnectionRefusedError("no JVM listens")
        return what


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"group": ""}, "group is '': give the name of the ConsumerGroup"),
        ({"group": 5}, "group is 5: give the name of the ConsumerGroup"),
        ({"queues": {}}, "queues is empty: name the queues of group orders"),
        ({"queues": "redis://:hunter2@redis"}, "queues is a str: pass the queues of group orders as a dict from name to URL"),
        ({"queues": {"orders": None}}, "queues has no URL for 'orders': check that the environment variable"),
        ({"metrics_port": 99_999}, "metrics_port is 99999: set it to a whole number, 0 to 65,535"),
        ({"grace": -1}, "grace is -1: set it to 0 to 86,400"),
        ({"repeat_wait": "5"}, "repeat_wait is '5': set it to a number, 0 or more"),
    ],
)
def test_an_invalid_argument_is_rejected_by_its_name(tmp_path: Path, arguments: dict[str, Any], why: str) -> None:
    known = {"group": "orders", "queues": {"orders": "redis://redis"}, **arguments}
    unused: Any = None
    with pytest.raises((TypeError, ValueError), match=f"^{why}"):
        Fleet(unused, environment=Directory(tmp_path), **known)


def test_a_spark_connect_session_cannot_start_a_fleet() -> None:
    client: Any = SparkSession.__new__(SparkSession)
    with pytest.raises(TypeError, match="a fleet runs in the driver: start the fleet in the program that starts the server"):
        Fleet(client, group="orders", queues={"orders": "redis://redis.shop"})


class ToldToStop(FleetSession):
    """A session that gets SIGTERM while it waits for another driver's Lease."""

    def acquire(self, given_up: Callable[[], bool] = lambda: False) -> None:
        signal.raise_signal(signal.SIGTERM)
        raise AssertionError("it would wait for ever")


@pytest.mark.parametrize("again", [False, True])
def test_sigterm_ends_a_program_that_waits_for_the_lease(tmp_path: Path, again: bool) -> None:
    before, jvm = signal.getsignal(signal.SIGTERM), PlayedJvm()
    fleet = jvm.fleet(tmp_path, ToldToStop())
    if again:
        fleet._running = has_ended()
    with pytest.raises(SystemExit, match=str(128 + signal.SIGTERM)):
        fleet.serve()
    assert not jvm.groups, "another may drive the group"
    assert signal.getsignal(signal.SIGTERM) is before, "it is the program's own business again"


def has_ended() -> Any:
    """A fleet that has ended."""
    closed = SimpleNamespace(wait=lambda seconds=None: True, is_set=lambda: True)
    queries = SimpleNamespace(in_batch=lambda: False)
    return SimpleNamespace(alive=lambda: False, queries=queries, stop=lambda grace: None, closed=closed, lost="")


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """A fleet whose `serve` returns at once, because it has already ended."""
    fleet = PlayedJvm().fleet(tmp_path, FleetSession())
    fleet._running = has_ended()
    monkeypatch.setattr(fleet, "_started", lambda: fleet._running)
    return fleet


def test_signal_handlers_are_restored_after_a_fleet_ended(ran: Fleet) -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        ran.serve()
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]


def test_a_signal_while_a_fleet_ends_ends_the_program(ran: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ran, "stop", lambda: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(SystemExit, match=str(128 + signal.SIGTERM)):
        ran.serve()


def test_a_program_that_reruns_its_fleet_ends_after_sigterm(ran: Fleet) -> None:
    def told(seconds: float | None = None) -> None:
        if seconds is None:  # not who stops it
            signal.raise_signal(signal.SIGTERM)

    running = has_ended()
    running.closed.is_set = lambda: False
    running.closed.wait = told
    ran._running = running
    ran.serve()
    with pytest.raises(SystemExit, match=str(128 + signal.SIGTERM)):
        ran.serve()


# -- A fleet at its start, and one whose JVM is killed or whose Spark is stopped while it runs.


def test_the_seconds_of_each_start_up_step_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
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


def test_a_long_wait_at_the_start_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
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
    assert after(1) == ["group orders has waited for 30 s"]
    assert after(LATE) == []
    times.done("executors")
    assert after(LATE + 1) == ["group orders has waited for 30 s"]
    assert "kubectl describe consumergroup orders" in caplog.text
    times.done("partitions")
    assert after(LATE + 1) == [], "a fleet without entries has nothing to do"


def life(answers: Iterator[bool | None]) -> SparkLife:
    """A fake JVM: each answer, or None for an error."""

    def stopped() -> bool:
        answer = next(answers)
        if answer is None:
            raise ConnectionRefusedError("no JVM listens")
        return answer

    return SparkLife(stopped)


def test_a_jvm_that_answers_again_is_alive() -> None:
    asked = life(iter([None, None, False, None, None, False]))
    for _ in range(6):
        asked.look()
        assert asked.runs
        assert not asked.gone


def test_a_jvm_that_stops_answering_is_gone() -> None:
    asked = life(iter([None, None, None]))
    for _ in range(3):
        assert asked.runs
        asked.look()
    assert not asked.runs
    assert asked.gone == "Spark's JVM is gone (no JVM listens)"


def test_a_stopped_spark_is_not_gone() -> None:
    asked = life(iter([True]))
    asked.look()
    assert (asked.runs, asked.gone) == (False, "")


ORDERS = frozenset({QueueName("orders")})


def test_a_fleet_that_reads_all_its_queues_has_no_trouble() -> None:
    assert unread_queues(set(), ORDERS) == ""
    assert unread_queues({a_partition("orders", 0), a_partition("orders", 1)}, ORDERS) == ""


def test_owned_queues_the_fleet_does_not_read_are_named_with_the_cure() -> None:
    said = unread_queues({a_partition(queue, 0) for queue in ("orders", "parcels", "letters")}, ORDERS)
    assert said.startswith("The fleet owns partitions of queues letters, parcels and does not read them: add each with its URL")


class Lease(FleetSession):
    def __init__(self) -> None:
        super().__init__()
        self.free = self.given_up = False
        self.waits = threading.Event()
        self.taken_by: str | None = None

    def lost(self) -> str | None:
        return self.taken_by

    def acquire(self, given_up: Callable[[], bool] = lambda: False) -> None:
        self.waits.set()
        until(lambda: self.free or given_up(), "it is free")

    def close(self) -> None:
        self.given_up = True


class Scene:
    def __init__(self, folder: Path) -> None:
        self.jvm, self.lease = PlayedJvm(), Lease()
        self.lease.free = True
        self.fleet = self.jvm.fleet(folder, self.lease)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setattr("baton.spark.running_fleet.ensure_callback_server_started", lambda gateway: None)
    made = Scene(tmp_path)
    yield made
    made.fleet.stop(0)


def raised(what: Callable[[], object]) -> BaseException | None:
    """What a call raises in another thread."""
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
    """What `serve` raises; `then` is called while it runs."""
    monkeypatch.setattr("signal.signal", lambda number, handler: None)  # it is not the main thread
    said = threading.Thread(target=lambda: (until(lambda: scene.fleet._running, "it runs"), then()), daemon=True)
    said.start()
    return raised(scene.fleet.serve)


def test_a_fleet_whose_jvm_is_killed_gives_the_group_up_with_an_error(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    error = served(scene, monkeypatch, lambda: setattr(scene.jvm, "killed", True))
    assert isinstance(error, RuntimeError)
    assert str(error) == "Spark's JVM is gone (no JVM listens): the driver of group orders ends"
    assert scene.lease.given_up


def test_a_fleet_whose_spark_is_stopped_gives_the_group_up(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    assert served(scene, monkeypatch, lambda: setattr(scene.jvm, "stopped", True)) is None
    assert scene.lease.given_up


def test_a_fleet_can_be_stopped_after_its_jvm_died(scene: Scene) -> None:
    running = scene.fleet.start()._running
    assert running is not None
    scene.jvm.killed = True
    assert raised(scene.fleet.stop) is None
    assert running.over() == "the fleet of group orders was stopped"
    assert scene.lease.given_up


def test_a_query_is_not_restarted_after_the_jvm_died(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    scene.fleet.start()
    scene.jvm.killed = True

    def start(rows: object) -> Any:
        raise AssertionError("there is no JVM to start it")

    error = raised(lambda: scene.fleet.run(start))
    assert isinstance(error, RuntimeError)
    assert str(error).startswith("Spark's JVM is gone")
    assert scene.lease.given_up


def test_a_query_does_not_begin_after_another_driver_took_the_group(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fleet's loop, which looks at the Lease every half second, may hang in a call of Spark."""
    hangs, go_on = threading.Event(), threading.Event()

    def registered() -> tuple[()]:
        hangs.set()
        assert go_on.wait(PATIENCE)
        return ()

    monkeypatch.setattr(scene.jvm, "registered", registered)
    running = scene.fleet.start()._running
    assert running is not None and hangs.wait(PATIENCE)
    scene.lease.taken_by = "uid-2"
    assert running.over() == "another driver has taken over group orders (uid-2): this driver ends"
    assert running.ending()
    go_on.set()


def test_a_fleet_stopped_while_waiting_for_the_lease_does_not_start(scene: Scene) -> None:
    scene.lease.free = False

    def stop() -> None:
        scene.lease.waits.wait()
        scene.fleet.stop()

    threading.Thread(target=stop, daemon=True).start()
    error = raised(scene.fleet.start)
    assert isinstance(error, RuntimeError)
    assert str(error) == "the fleet of group orders was stopped while it waited for the Lease"
    assert not scene.jvm.groups, "another may drive it"
    assert scene.lease.given_up


def test_a_fleet_stopped_while_starting_does_not_run(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("baton.spark.running_fleet.ensure_callback_server_started", lambda gateway: scene.fleet.stop())
    error = raised(scene.fleet.start)
    assert isinstance(error, RuntimeError)
    assert str(error) == "the fleet of group orders was stopped while it was starting"
    assert not scene.jvm.groups, "another may drive it"
    assert scene.lease.given_up


def test_a_stopped_fleet_can_be_started_again(scene: Scene) -> None:
    scene.fleet.start()
    scene.fleet.stop()
    scene.fleet.start()
    assert not scene.fleet._given_up.is_set()
