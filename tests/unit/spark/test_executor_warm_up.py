import logging
import threading
from collections.abc import Callable

import pytest

from baton.spark.executor_warm_up import ExecutorWarmUp, Warm
from baton.spark.executors import Executor
from tests.unit.spark.builders import executor
from tests.waiting import PATIENCE, until

ONE = (executor(1),)


@pytest.fixture
def clock() -> list[float]:
    return [100.0]


def executor_warm_up(
    clock: list[float],
    first: Warm = lambda one: None,
    *batch: Warm,
    begin: Callable[[str], object] = lambda name: None,
    cancel: Callable[[str], object] = lambda name: None,
) -> ExecutorWarmUp:
    return ExecutorWarmUp(first, lambda: batch, 30.0, begin=begin, cancel=cancel, clock=lambda: clock[0])


def until_seen(found: ExecutorWarmUp, working: tuple[Executor, ...], warm: tuple[Executor, ...]) -> None:
    until(lambda: found.look(ONE) == (working, warm), "it has come so far")


def test_an_executor_works_once_its_first_task_is_done_and_is_warm_once_a_batch_is(clock: list[float]) -> None:
    first, batch = threading.Event(), threading.Event()
    found = executor_warm_up(clock, lambda one: first.wait(PATIENCE), lambda one: batch.wait(PATIENCE))
    assert found.look(ONE) == ((), ())
    first.set()
    until_seen(found, ONE, ())
    batch.set()
    until_seen(found, ONE, ONE)


def test_each_executor_is_warmed_once(clock: list[float]) -> None:
    warmed: list[str] = []
    found = executor_warm_up(clock, lambda one: warmed.append(one.id), lambda one: warmed.append(f"batch {one.id}"))
    until_seen(found, ONE, ONE)
    found.look([executor(1, active=1)])
    assert warmed == ["1", "batch 1"]


def fail(one: Executor) -> None:
    raise RuntimeError("its import fails")


def test_an_executor_that_cannot_be_warmed_counts_all_the_same_and_is_not_said_to_be_warm(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "baton.spark"):
        until_seen(executor_warm_up(clock, lambda one: None, fail), ONE, ONE)
    (said,) = caplog.records
    assert (said.levelname, said.message) == (
        "WARNING",
        "executor 1 could not be warmed up, and starts reading anyway: its import fails",
    )


def test_a_part_of_a_batch_that_fails_keeps_no_other_from_being_run(clock: list[float]) -> None:
    warmed: list[str] = []
    until_seen(executor_warm_up(clock, fail, fail, lambda one: warmed.append(one.id)), ONE, ONE)
    assert warmed == ["1"]


def test_an_executor_that_takes_too_long_is_not_waited_for_and_what_runs_there_is_cancelled_once(clock: list[float]) -> None:
    began, cancelled, ended = list[tuple[str, str]](), list[str](), threading.Event()
    batch: list[str] = []

    def begin(name: str) -> None:
        began.append((name, threading.current_thread().name))

    def cancel(name: str) -> None:
        cancelled.append(name)
        ended.set()

    def first(one: Executor) -> None:
        assert ended.wait(PATIENCE)
        raise RuntimeError("the job was cancelled")

    found = executor_warm_up(clock, first, lambda one: batch.append(one.id), begin=begin, cancel=cancel)
    assert found.look(ONE) == ((), ())
    (thread,) = [one for one in threading.enumerate() if one.name == "baton-warm-1"]
    clock[0] += 30
    assert found.look(ONE) == found.look(ONE) == (ONE, ONE)
    thread.join(PATIENCE)
    assert began == [("baton-warm-1", "baton-warm-1")]
    assert cancelled == ["baton-warm-1"]
    assert batch == [], "nothing more is begun there"


def test_an_executor_that_is_warm_is_not_cancelled_later(clock: list[float]) -> None:
    cancelled: list[str] = []
    found = executor_warm_up(clock, cancel=cancelled.append)
    until_seen(found, ONE, ONE)
    clock[0] += 30
    assert found.look(ONE) == (ONE, ONE)
    assert cancelled == []


def test_an_executor_counts_also_where_nothing_can_be_cancelled_any_more(clock: list[float]) -> None:
    go_on = threading.Event()

    def gone(name: str) -> None:
        raise ConnectionRefusedError("no JVM listens")

    found = executor_warm_up(clock, lambda one: go_on.wait(PATIENCE), cancel=gone)
    found.look(ONE)
    clock[0] += 30
    assert found.look(ONE) == (ONE, ONE)
    go_on.set()
