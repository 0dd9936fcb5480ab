import threading

import pytest

from baton.spark.executor_warm_up import ExecutorWarmUp, Warm
from baton.spark.locality import Executor
from tests.unit.spark.builders import executor
from tests.waiting import PATIENCE, until


@pytest.fixture
def clock() -> list[float]:
    return [100.0]


def executor_warm_up(warm: Warm, clock: list[float]) -> ExecutorWarmUp:
    return ExecutorWarmUp(warm, 30.0, lambda: clock[0])


def until_ready(found: ExecutorWarmUp, *fleet: Executor) -> tuple[Executor, ...]:
    return until(lambda: found.ready(fleet), "it is ready")


def test_an_executor_counts_once_its_empty_task_is_done(clock: list[float]) -> None:
    go_on = threading.Event()
    found = executor_warm_up(lambda one: go_on.wait(PATIENCE), clock)
    assert found.ready([executor(1)]) == ()
    go_on.set()
    assert until_ready(found, executor(1)) == (executor(1),)


def test_each_executor_is_warmed_once(clock: list[float]) -> None:
    warmed: list[str] = []
    found = executor_warm_up(lambda one: warmed.append(one.id), clock)
    until_ready(found, executor(1))
    until_ready(found, executor(1, active=1))
    assert warmed == ["1"]


def test_an_executor_that_cannot_be_warmed_counts_all_the_same(clock: list[float]) -> None:
    def fail(one: Executor) -> None:
        raise RuntimeError("it was killed")

    assert until_ready(executor_warm_up(fail, clock), executor(1)) == (executor(1),)


def test_an_executor_that_takes_too_long_is_not_waited_for(clock: list[float]) -> None:
    go_on = threading.Event()
    found = executor_warm_up(lambda one: go_on.wait(PATIENCE), clock)
    found.ready([executor(1)])
    clock[0] += 30
    assert found.ready([executor(1)]) == (executor(1),)
    go_on.set()
