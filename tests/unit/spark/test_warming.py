import threading

import pytest
from tests.waiting import PATIENCE, until

from baton.spark.warming import Warming


@pytest.fixture
def clock():
    return [100.0]


def warming(warm, clock) -> Warming:
    return Warming(warm, 30.0, lambda: clock[0])


def until_ready(found: Warming, *fleet):
    return until(lambda: found.ready(fleet), "it is ready")


def test_an_executor_counts_once_its_empty_task_is_done(executor, clock):
    go_on = threading.Event()
    found = warming(lambda one: go_on.wait(PATIENCE), clock)
    assert found.ready([executor(1)]) == ()
    go_on.set()
    assert until_ready(found, executor(1)) == (executor(1),)


def test_each_executor_is_warmed_once(executor, clock):
    warmed = []
    found = warming(lambda one: warmed.append(one.id), clock)
    until_ready(found, executor(1))
    until_ready(found, executor(1, active=1))
    assert warmed == ["1"]


def test_an_executor_that_cannot_be_warmed_counts_all_the_same(executor, clock):
    def fail(one):
        raise RuntimeError("it was killed")

    assert until_ready(warming(fail, clock), executor(1)) == (executor(1),)


def test_an_executor_that_takes_too_long_is_not_waited_for(executor, clock):
    go_on = threading.Event()
    found = warming(lambda one: go_on.wait(PATIENCE), clock)
    found.ready([executor(1)])
    clock[0] += 30
    assert found.ready([executor(1)]) == (executor(1),)
    go_on.set()
