"""The fleet's loop, with fakes of Spark's scheduler, the ledger and the session, and the warm-up of executors."""

import json
import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from baton.model import MemberId
from baton.model.ledger import LedgerError, MemberEntry
from baton.spark.dismissals import FORGOTTEN, LAST, Dismissals, ends
from baton.spark.executor_warm_up import ExecutorWarmUp, Warm
from baton.spark.executors import Executor
from baton.spark.fleet_loop import EVERY, SOON, FleetLoop, HoldUp, Resize, resize
from baton.spark.ledger import GrantsInUse, RequestedScale, parse_scale
from baton.spark.session import FleetSession
from baton.spark.statistics import Counts
from tests.ids import by_member
from tests.unit.spark.builders import entry, executor
from tests.waiting import PATIENCE, until
from tests.written_ledger import WrittenLedger

HELD_UP_FOR = 5.0


MISSED = frozenset({"1"})


Look = tuple[float, list[Executor], frozenset[str]]
"""The time in seconds, the executors, and the ids of those that missed a deadline."""


def killed_at(*looks: Look) -> list[set[str]]:
    """The executors to kill at each of these looks."""
    hold_up = HoldUp(HELD_UP_FOR)
    return [set(hold_up.look(fleet, missed, now)) for now, fleet, missed in looks]


def test_an_executor_that_missed_a_deadline_and_whose_task_does_not_end_is_killed() -> None:
    fleet = [executor(1, 7), executor(2)]
    kept = (0.0, fleet, frozenset[str]())
    assert killed_at(kept, (100.0, fleet, MISSED), (104.9, fleet, MISSED), (105.0, fleet, MISSED)) == [set(), set(), set(), {"1"}]


@pytest.mark.parametrize(
    "fleet",
    [
        pytest.param(lambda second: [executor(1, 7), *([executor(2, second)] if second % 2 else [])], id="in another executor"),
        pytest.param(lambda second: [executor(1, 7, 100 + second)], id="beside it in the same executor"),
    ],
)
def test_a_task_that_hangs_is_noticed_while_others_end(fleet: Callable[[int], list[Executor]]) -> None:
    assert killed_at(*[(second, fleet(second), MISSED) for second in range(6)]) == [set()] * 5 + [{"1"}]


@pytest.mark.parametrize(
    "looks",
    [
        pytest.param([(0.0, [executor(1, 7)], frozenset()), (1e9, [executor(1, 7)], frozenset())], id="it kept its deadlines"),
        pytest.param([(0.0, [executor(1)], MISSED), (1e9, [executor(1)], MISSED)], id="the function is busy in the driver"),
        pytest.param([(second, [executor(1, second // 4)], MISSED) for second in range(20)], id="its tasks end"),
    ],
)
def test_no_executor_holds_up_the_batch(looks: list[Look]) -> None:
    assert killed_at(*looks) == [set()] * len(looks)


NOBODY: frozenset[MemberId] = frozenset()


def victims(*numbers: int) -> frozenset[MemberId]:
    return frozenset(MemberId(f"exec-{number}") for number in numbers)


def test_a_ledger_without_a_size_requests_no_scaling() -> None:
    assert parse_scale(None) is None
    assert parse_scale(json.dumps({"generation": 3})) is None


def test_the_size_and_the_victims_are_read_from_the_group_key() -> None:
    assert parse_scale(json.dumps({"scale": {"replicas": 4, "victims": ["exec-3"]}})) == RequestedScale(4, victims(3))
    assert parse_scale(json.dumps({"scale": {"replicas": 0}})) == RequestedScale(0)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"scale": 3}',
        '{"scale": {"replicas": "4"}}',
        '{"scale": {"replicas": -1}}',
        '{"scale": {"replicas": 2147483648}}',
        '{"scale": {"replicas": 4, "victims": "exec-3"}}',
        '{"scale": {"replicas": 4, "victims": [["exec-3"]]}}',
    ],
)
def test_an_invalid_size_is_rejected(text: str) -> None:
    with pytest.raises(LedgerError):
        parse_scale(text)


ONE, TWO = entry("exec-1", {0: 1}), entry("exec-2")


@pytest.mark.parametrize(
    ("wanted", "numbers", "ledger", "busy", "found"),
    [
        pytest.param(RequestedScale(4), [1, 2], [], NOBODY, Resize(4), id="growing ends none"),
        pytest.param(RequestedScale(1, victims(2)), [1, 2], [ONE, entry("exec-2", {1: 1})], NOBODY, Resize(2), id="it owns"),
        pytest.param(RequestedScale(1, victims(2)), [1, 2], [ONE, entry("exec-2", {}, {1: 1})], NOBODY, Resize(2), id="releases"),
        pytest.param(RequestedScale(1, victims(2)), [1, 2], [TWO], victims(2), Resize(2), id="a batch has rows of it"),
        pytest.param(RequestedScale(1, victims(2)), [1, 2], [ONE, TWO], NOBODY, Resize(1, ("2",)), id="it has handed off"),
        pytest.param(RequestedScale(0, victims(2)), [2], [], NOBODY, Resize(0, ("2",)), id="it has no key"),
        pytest.param(RequestedScale(1, victims(9)), [1], [], NOBODY, Resize(1), id="it is gone already"),
        pytest.param(RequestedScale(2, victims(2)), [1, 2], [entry("exec-2", {0: 1})], NOBODY, Resize(3), id="another crashed"),
    ],
)
def test_a_victim_counts_until_it_has_handed_off(
    wanted: RequestedScale, numbers: list[int], ledger: list[MemberEntry], busy: frozenset[MemberId], found: Resize
) -> None:
    fleet = [executor(number) for number in numbers]
    assert resize(wanted, fleet, {entry.member: entry for entry in ledger}, busy, {}) == found


class Scheduler:
    """A fake of Spark's scheduler."""

    def __init__(self) -> None:
        self.fleet: tuple[Executor, ...] = ()
        self.totals: list[int] = []
        self.ended: list[str] = []
        self.running = 0

    def registered(self) -> tuple[Executor, ...]:
        return self.fleet

    def resize(self, total: int) -> None:
        self.totals.append(total)

    def end(self, ids: Iterable[str], *, idle: bool = False) -> list[str]:
        ended = [one.id for one in self.fleet if one.id in set(ids) and not (idle and one.tasks)]
        self.ended += ended
        return ended

    def jobs(self) -> int:
        return self.running


class Scene:
    def __init__(self, warm_up_patience: float = 0.0) -> None:
        self.go_on, self.warm, self.warm_up_patience = threading.Event(), threading.Event(), warm_up_patience
        """Once set, executors have run a first task, and are warm."""
        if not warm_up_patience:
            self.go_on.set()
            self.warm.set()
        self.scheduler, self.ledger, self.session = Scheduler(), WrittenLedger(), FleetSession()
        self.grants_in_use = GrantsInUse(self.ledger, lambda releases: None)
        self.ready: list[tuple[str, ...]] = []
        self.trouble = ""
        self.queues_answer = True
        self.now, self.until = 100.0, dict[MemberId, float]()
        self.loop = FleetLoop(
            alive=lambda: True,
            ended=lambda: None,
            ready=lambda fleet: self.ready.append(tuple(one.id for one in fleet)),
            ledger=self.ledger,
            grants_in_use=self.grants_in_use,
            executors=self.scheduler,
            session=self.session,
            counts=Counts(),
            executor_warm_up=ExecutorWarmUp(
                lambda executor: self.go_on.wait(PATIENCE),
                lambda: [lambda executor: self.warm.wait(PATIENCE)],
                self.warm_up_patience,
                begin=lambda name: None,
                cancel=lambda name: None,
            ),
            dismissals=Dismissals(lambda: self.until, self.scheduler, lambda: self.now),
            troubles=lambda: {"trouble": self.trouble},
            patience=0,
            queues_answer=lambda: self.queues_answer,
        )

    def speaks_for(self) -> tuple[str, ...]:
        return self.session.status.executors


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_the_lease_names_registered_executors(scene: Scene) -> None:
    scene.scheduler.fleet = (executor(1), executor(2))
    scene.loop.look()
    assert scene.speaks_for() == ("1", "2")
    scene.scheduler.fleet = (executor(2),)
    scene.loop.look()
    assert scene.speaks_for() == ("2",)


def test_an_executor_is_a_member_once_it_works_and_reads_once_warm() -> None:
    scene = Scene(warm_up_patience=PATIENCE)
    scene.scheduler.fleet = (executor(1),)
    assert (scene.loop.look(), scene.speaks_for()) == (SOON, ())
    scene.go_on.set()
    until(lambda: scene.loop.look() == SOON and scene.speaks_for() == ("1",), "it is a member")
    assert scene.ready == []
    scene.warm.set()
    until(lambda: scene.loop.look() == EVERY, "it is warm")
    assert (scene.speaks_for(), scene.ready) == (("1",), [("1",)])


def test_ready_executors_are_reported_only_when_they_change(scene: Scene) -> None:
    for scene.scheduler.fleet in ((executor(1),), (executor(1),), ()):
        scene.loop.look()
    assert scene.ready == [("1",), ()]


def test_a_size_is_asked_for_once(scene: Scene) -> None:
    scene.scheduler.fleet = (executor(1),)
    scene.ledger.write(scale=RequestedScale(4))
    scene.loop.look()
    scene.loop.look()
    assert scene.scheduler.totals == [4]


def test_a_victim_ends_after_its_hand_off_and_is_not_replaced(scene: Scene) -> None:
    victims = frozenset({MemberId("exec-2")})
    scene.scheduler.fleet = (executor(1), executor(2))
    scene.ledger.write(entry("exec-1", {0: 1}), entry("exec-2", {}, {1: 1}), scale=RequestedScale(1, victims))
    scene.loop.look()
    assert (scene.scheduler.totals, scene.scheduler.ended) == ([2], [])
    scene.ledger.write(entry("exec-1", {0: 1, 1: 2}), entry("exec-2"), scale=RequestedScale(1, victims))
    scene.loop.look()
    assert (scene.scheduler.totals, scene.scheduler.ended) == ([2, 1], ["2"])


def test_a_victim_that_was_ended_is_not_logged_as_terminating(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "baton.spark")
    scene.scheduler.fleet = (executor(1), executor(2))
    scene.ledger.write(entry("exec-1", {0: 1}), entry("exec-2"), scale=RequestedScale(1, victims(2)))
    scene.loop.look()
    scene.until[MemberId("exec-2")] = scene.now + 60
    scene.loop.look()
    assert "executors 2 have handed off and end" in caplog.text
    assert "is terminating" not in caplog.text
    assert scene.scheduler.totals == [1], "nor is it replaced"


def test_only_executors_spark_ended_count_as_ended(scene: Scene) -> None:
    scene.scheduler.fleet = (executor(1),)
    dismissals = Dismissals(lambda: scene.until, scene.scheduler, lambda: scene.now)
    dismissals.kill(["1", "2"], [executor(1), executor(2)])
    scene.until |= {MemberId("exec-1"): scene.now + 30, MemberId("exec-2"): scene.now + 30}
    assert dismissals.left() == {"exec-2": 30}, "Spark knew no executor 2: others ask it to stop"
    scene.until.clear()
    scene.now += FORGOTTEN
    dismissals.left()
    scene.until[MemberId("exec-1")] = scene.now + 30
    assert dismissals.left() == {"exec-1": 30}


def test_a_busy_executor_that_missed_a_deadline_is_ended(scene: Scene) -> None:
    scene.scheduler.fleet = (executor(1, 7), executor(2))
    scene.ledger.write(entry("exec-1", {0: 1}))
    scene.grants_in_use.take(lambda ownership: ownership.owned)
    scene.loop.look()
    assert scene.scheduler.ended == []
    scene.ledger.write(entry("exec-1"), entry("exec-2", {0: 2}))
    scene.loop.look()
    assert scene.scheduler.ended == ["1"]


def test_an_executor_that_may_wait_for_its_queue_is_not_ended(scene: Scene) -> None:
    scene.scheduler.fleet = (executor(1, 7), executor(2))
    scene.ledger.write(entry("exec-1", {0: 1}))
    scene.grants_in_use.take(lambda ownership: ownership.owned)
    scene.ledger.write(entry("exec-1"), entry("exec-2", {0: 2}))
    scene.queues_answer = False
    scene.loop.look()
    assert scene.scheduler.ended == []
    scene.queues_answer = True
    scene.loop.look()
    assert scene.scheduler.ended == ["1"]


def test_the_drivers_trouble_is_reported_until_it_is_over() -> None:
    scene = Scene()
    for scene.trouble in ("Redis does not answer", ""):
        scene.loop.look()
        assert scene.session.status.trouble == scene.trouble


def test_trouble_is_reported_even_if_spark_does_not_answer(scene: Scene) -> None:
    def gone() -> tuple[Executor, ...]:
        raise ConnectionRefusedError("there is no JVM")

    scene.scheduler.registered = gone  # type: ignore[method-assign]
    scene.trouble = "Redis does not answer"
    with pytest.raises(ConnectionRefusedError):
        scene.loop.look()
    assert scene.session.status.trouble == scene.trouble


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}}


def test_a_repeated_deletion_can_only_shorten_a_pods_grace_period() -> None:
    def asked(grace: int) -> list[dict[str, Any]]:
        return [pod("exec-1", deletionTimestamp="2026-01-01T00:00:00Z", deletionGracePeriodSeconds=grace), pod("exec-2")]

    assert ends({}, [pod("exec-3", deletionTimestamp="2026-01-01T00:00:00Z")], 100.0) == by_member({"exec-3": 100.0})
    first = ends({}, asked(60), 100.0)
    assert first == by_member({"exec-1": 160.0})
    assert ends(first, asked(60), 110.0) == first, "the same word, heard again"
    assert ends(first, asked(5), 110.0) == by_member({"exec-1": 115.0})


LEAVES = MemberId("exec-2")


def leaving(scene: Scene) -> None:
    """The second of two executors is terminating, and still has a partition to release."""
    scene.scheduler.fleet = (executor(1), executor(2))
    scene.ledger.write(entry("exec-1", {0: 1}), entry("exec-2", {}, {1: 1}), scale=RequestedScale(2))
    scene.until[LEAVES] = scene.now + 60
    scene.loop.look()


def handed_off(scene: Scene) -> None:
    scene.ledger.write(entry("exec-1", {0: 1, 1: 2}), scale=RequestedScale(2))


def test_a_terminating_executor_is_replaced_at_once_and_ended_after_its_hand_off(scene: Scene) -> None:
    leaving(scene)
    assert (scene.scheduler.totals, scene.scheduler.ended) == ([3], [])
    handed_off(scene)
    scene.loop.look()
    assert scene.scheduler.ended == ["2"]
    scene.scheduler.fleet = (executor(1),)
    scene.loop.look()
    assert scene.scheduler.totals == [3, 2]


def test_a_terminating_executor_gets_work_until_its_last_seconds(scene: Scene) -> None:
    leaving(scene)
    scene.now = scene.until[LEAVES] - LAST
    scene.loop.look()
    assert scene.ready == [("1", "2"), ("1",)]


def test_a_terminating_executor_stays_while_a_job_or_task_needs_it(scene: Scene) -> None:
    leaving(scene)
    handed_off(scene)
    scene.scheduler.running = 1
    assert scene.loop.look() == SOON
    scene.scheduler.running, scene.scheduler.fleet = 0, (executor(1), executor(2, 7))
    assert scene.loop.look() == SOON
    assert scene.scheduler.ended == []


def test_a_terminating_executor_is_ended_when_idle_in_its_last_seconds(scene: Scene) -> None:
    leaving(scene)
    scene.scheduler.running = 1
    scene.now = scene.until[LEAVES] - LAST
    scene.loop.look()
    assert scene.scheduler.ended == ["2"]


def test_a_terminating_executor_stays_while_the_batch_has_its_rows(scene: Scene) -> None:
    scene.ledger.write(entry("exec-2", {1: 1}))
    scene.grants_in_use.take(lambda ownership: ownership.owned)
    leaving(scene)
    scene.now = scene.until[LEAVES] - 1
    scene.loop.look()
    assert scene.scheduler.ended == []


def test_a_terminating_executor_is_ended_without_a_wanted_size(scene: Scene) -> None:
    scene.scheduler.fleet = (executor(1), executor(2))
    scene.until[LEAVES] = scene.now + 60
    scene.loop.look()
    assert (scene.scheduler.totals, scene.scheduler.ended) == ([], ["2"])


# -- New executors are warmed up before they read.


FIRST = (executor(1),)


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
    until(lambda: found.look(FIRST) == (working, warm), "it has come so far")


def test_an_executor_works_after_a_first_task_and_is_warm_after_a_batch(clock: list[float]) -> None:
    first, batch = threading.Event(), threading.Event()
    found = executor_warm_up(clock, lambda one: first.wait(PATIENCE), lambda one: batch.wait(PATIENCE))
    assert found.look(FIRST) == ((), ())
    first.set()
    until_seen(found, FIRST, ())
    batch.set()
    until_seen(found, FIRST, FIRST)


def test_each_executor_is_warmed_once(clock: list[float]) -> None:
    warmed: list[str] = []
    found = executor_warm_up(clock, lambda one: warmed.append(one.id), lambda one: warmed.append(f"batch {one.id}"))
    until_seen(found, FIRST, FIRST)
    found.look([executor(1, 7)])
    assert warmed == ["1", "batch 1"]


def import_fails(one: Executor) -> None:
    raise RuntimeError("its import fails")


def test_an_executor_whose_warm_up_fails_still_reads_with_a_warning(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "baton.spark"):
        until_seen(executor_warm_up(clock, lambda one: None, import_fails), FIRST, FIRST)
    (said,) = caplog.records
    assert (said.levelname, said.message) == (
        "WARNING",
        "executor 1 could not be warmed up, and starts reading anyway: its import fails",
    )


def test_a_failing_part_of_a_warm_up_batch_stops_no_other(clock: list[float]) -> None:
    warmed: list[str] = []
    until_seen(executor_warm_up(clock, import_fails, import_fails, lambda one: warmed.append(one.id)), FIRST, FIRST)
    assert warmed == ["1"]


def test_a_warm_up_that_takes_too_long_is_cancelled_once(clock: list[float]) -> None:
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
    assert found.look(FIRST) == ((), ())
    (thread,) = [one for one in threading.enumerate() if one.name == "baton-warm-1"]
    clock[0] += 30
    assert found.look(FIRST) == found.look(FIRST) == (FIRST, FIRST)
    thread.join(PATIENCE)
    assert began == [("baton-warm-1", "baton-warm-1")]
    assert cancelled == ["baton-warm-1"]
    assert batch == [], "nothing more is begun there"


def test_a_warm_executor_is_not_cancelled_later(clock: list[float]) -> None:
    cancelled: list[str] = []
    found = executor_warm_up(clock, cancel=cancelled.append)
    until_seen(found, FIRST, FIRST)
    clock[0] += 30
    assert found.look(FIRST) == (FIRST, FIRST)
    assert cancelled == []


def test_an_executor_counts_even_if_its_warm_up_cannot_be_cancelled(clock: list[float]) -> None:
    go_on = threading.Event()

    def gone(name: str) -> None:
        raise ConnectionRefusedError("no JVM listens")

    found = executor_warm_up(clock, lambda one: go_on.wait(PATIENCE), cancel=gone)
    found.look(FIRST)
    clock[0] += 30
    assert found.look(FIRST) == (FIRST, FIRST)
    go_on.set()
