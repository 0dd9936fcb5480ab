"""What a fleet is told of itself."""

import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.connect.session import SparkSession

from baton.spark import Directory, Fleet
from baton.spark.session import FleetSession


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"group": ""}, "group is '': give the name of the ConsumerGroup"),
        ({"group": 5}, "group is 5: give the name of the ConsumerGroup"),
        ({"queues": {}}, "queues is empty: name the queues of group orders"),
        ({"queues": "redis://:hunter2@redis"}, "queues is a str: give the queues of group orders as a dict of names and URLs"),
        ({"queues": {"orders": None}}, "queues has no URL for 'orders': see whether the environment variable"),
        ({"metrics_port": 99_999}, "metrics_port is 99999: set it to a whole number, 0 to 65,535"),
        ({"grace": -1}, "grace is -1: set it to 0 to 86,400"),
        ({"repeat_wait": "5"}, "repeat_wait is '5': set it to a number, 0 or more"),
    ],
)
def test_what_cannot_be_meant_so_is_refused_by_its_name(tmp_path: Path, arguments: dict[str, Any], why: str) -> None:
    known = {"group": "orders", "queues": {"orders": "redis://redis"}, **arguments}
    unused: Any = None
    with pytest.raises((TypeError, ValueError), match=f"^{why}"):
        Fleet(unused, environment=Directory(tmp_path), **known)


def test_a_client_of_spark_connect_is_told_who_starts_a_fleet() -> None:
    client: Any = SparkSession.__new__(SparkSession)
    with pytest.raises(TypeError, match="a fleet is of the driver: start it in the program that starts the server"):
        Fleet(client, group="orders", queues={"orders": "redis://redis.shop"})


class ToldToStop(FleetSession):
    """While another driver's Lease is waited for."""

    def acquire(self, given_up: Callable[[], bool] = lambda: False) -> None:
        signal.raise_signal(signal.SIGTERM)
        raise AssertionError("it would wait for ever")


@pytest.mark.parametrize("again", [False, True])
def test_a_program_that_waits_for_the_lease_ends_on_a_signal_also_when_its_fleet_has_run_before(
    tmp_path: Path, again: bool
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    claimed: set[str] = set()

    def claim(group: str) -> bool:
        claimed.add(group)
        return True

    groups = SimpleNamespace(claim=claim, release=claimed.discard)
    jvm = SimpleNamespace(dev=SimpleNamespace(baton=SimpleNamespace(spark=SimpleNamespace(Group=groups))))
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jvm=jvm, applicationId="spark-1"), _jsparkSession=None)
    unused: Any = object()
    place = Directory(tmp_path, session=ToldToStop())
    fleet = Fleet(spark, group="orders", queues={"orders": "redis://127.0.0.1:1"}, environment=place, executors=unused)
    if again:
        fleet._running = has_ended()
    with pytest.raises(SystemExit, match=str(128 + signal.SIGTERM)):
        fleet.serve()
    assert not claimed, "another may drive the group"
    assert signal.getsignal(signal.SIGTERM) is before, "it is the program's own business again"


def has_ended() -> Any:
    """What is left of a fleet that has run."""
    closed = SimpleNamespace(wait=lambda seconds=None: True, is_set=lambda: True)
    queries = SimpleNamespace(in_batch=lambda: False)
    return SimpleNamespace(alive=lambda: False, queries=queries, stop=lambda grace: None, closed=closed, lost="")


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """One whose `serve` returns at once: it has ended already."""
    spark: Any = SimpleNamespace(sparkContext=None)
    unused: Any = object()
    fleet = Fleet(spark, group="orders", queues={"orders": "redis://redis"}, environment=Directory(tmp_path), executors=unused)
    fleet._running = has_ended()
    monkeypatch.setattr(fleet, "_begun", lambda: fleet._running)
    return fleet


def test_a_signal_is_the_programs_own_business_when_the_fleet_has_ended(ran: Fleet) -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        ran.serve()
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]


def test_a_signal_behind_the_end_of_the_fleet_ends_the_program(ran: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ran, "stop", lambda: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(SystemExit, match=str(128 + signal.SIGTERM)):
        ran.serve()


def test_a_program_that_runs_its_fleet_again_and_again_ends_behind_the_run_that_was_told_to_stop(ran: Fleet) -> None:
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
