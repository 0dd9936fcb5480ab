import threading

import pytest

from baton.spark.executor_warm_up import ExecutorWarmUp, Warm
from baton.spark.locality import Executor
from tests.unit.spark.builders import executor
from tests.waiting import PATIENCE, until

ONE = (executor(1),)


@pytest.fixture
def clock() -> list[float]:
    return [100.0]


def executor_warm_up(clock: list[float], first: Warm = lambda one: None, batch: Warm = lambda one: None) -> ExecutorWarmUp:
    return ExecutorWarmUp(first, batch, 30.0, lambda: clock[0])


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


def test_an_executor_that_cannot_be_warmed_counts_all_the_same(clock: list[float]) -> None:
    def fail(one: Executor) -> None:
        raise RuntimeError("it was killed")

    until_seen(executor_warm_up(clock, fail, fail), ONE, ONE)


def test_an_executor_that_takes_too_long_is_not_waited_for(clock: list[float]) -> None:
    go_on = threading.Event()
    found = executor_warm_up(clock, lambda one: go_on.wait(PATIENCE))
    found.look(ONE)
    clock[0] += 30
    assert found.look(ONE) == (ONE, ONE)
    go_on.set()
