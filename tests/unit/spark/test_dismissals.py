"""Executors whose pods are asked to stop."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest

from baton.model.ids import MemberId
from baton.spark.dismissals import LAST, Dismissals, LeavingPods, ends
from baton.spark.executors import Executor
from tests.ids import by_member
from tests.unit.spark.builders import executor


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}}


def test_a_pod_that_is_asked_again_with_less_time_is_killed_earlier_and_never_later() -> None:
    def asked(grace: int) -> list[dict[str, Any]]:
        return [pod("exec-1", deletionTimestamp="2026-01-01T00:00:00Z", deletionGracePeriodSeconds=grace), pod("exec-2")]

    assert ends({}, [pod("exec-3", deletionTimestamp="2026-01-01T00:00:00Z")], 100.0) == by_member({"exec-3": 100.0})
    first = ends({}, asked(60), 100.0)
    assert first == by_member({"exec-1": 160.0})
    assert ends(first, asked(60), 110.0) == first, "the same word, heard again"
    assert ends(first, asked(5), 110.0) == by_member({"exec-1": 115.0})


FLEET = (executor(1), executor(2))
LEAVES = MemberId("exec-2")


class Pods(LeavingPods):
    """Until when those that are asked to stop may live."""

    def __init__(self) -> None:
        self.leaving: dict[MemberId, float] = {}

    def until(self) -> dict[MemberId, float]:
        return self.leaving


class Scheduler:
    """Spark's side of the fleet: one that has a task does not end."""

    def __init__(self) -> None:
        self.running, self.at_work, self.ended = 0, frozenset[str](), list[str]()

    def registered(self) -> tuple[Executor, ...]:
        return FLEET

    def resize(self, total: int) -> None:
        raise AssertionError("the size is not theirs to say")

    def end(self, ids: Iterable[str], *, idle: bool = False) -> Collection[str]:
        now = [one for one in ids if not (idle and one in self.at_work)]
        self.ended += now
        return now

    def jobs(self) -> int:
        return self.running


class Scene:
    def __init__(self) -> None:
        self.now, self.pods, self.scheduler = 100.0, Pods(), Scheduler()
        self.dismissals = Dismissals(self.pods, self.scheduler, lambda: self.now)

    def staying(self) -> list[str]:
        return [one.id for one in self.dismissals.staying(FLEET)]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_who_is_asked_to_stop_works_on_until_its_last_seconds(scene: Scene) -> None:
    scene.pods.leaving[LEAVES] = scene.now + LAST + 10
    assert scene.staying() == ["1", "2"]
    scene.now += 10
    assert scene.staying() == ["1"]


def test_who_has_a_task_is_ended_later(scene: Scene) -> None:
    scene.scheduler.at_work = frozenset({"2"})
    assert not scene.dismissals.end(["2"], FLEET), "it is to be tried again soon"
    scene.scheduler.at_work = frozenset()
    assert scene.dismissals.end(["2"], FLEET)
    assert scene.scheduler.ended == ["2"]


def test_nobody_is_ended_while_a_job_may_need_what_it_has_but_in_its_last_seconds(scene: Scene) -> None:
    scene.scheduler.running = 1
    scene.pods.leaving[LEAVES] = scene.now + LAST + 10
    assert not scene.dismissals.end(["2"], FLEET)
    assert scene.scheduler.ended == []
    scene.now += 10
    assert scene.dismissals.end(["2"], FLEET)


def test_nobody_is_to_be_ended_where_nobody_leaves(scene: Scene) -> None:
    assert scene.dismissals.end([], FLEET)
    assert scene.scheduler.ended == []
