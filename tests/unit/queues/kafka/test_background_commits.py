"""Background commits of Kafka's reader."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Set
from functools import partial
from itertools import pairwise, repeat
from types import SimpleNamespace

import pytest

from baton.queues.kafka.background_commits import EVERY, LONGEST_PAUSE, SELDOM, BackgroundCommits
from baton.queues.kafka.event_loop import EventLoopThread
from baton.queues.protocol import PartitionUnavailable, QueueUnreachable
from tests.waiting import PATIENCE, eventually, until


class Broker:
    """Takes commits while it is `open`, one at a time, and refuses those that the test names."""

    def __init__(self) -> None:
        self.asked: list[set[int]] = []
        self.taken: list[int] = []
        self.open = threading.Event()
        self.open.set()
        self.refusal: Exception | None = None
        """Refuses all commits."""
        self.refused: dict[int, QueueUnreachable] = {}
        """Refuses the commits of these partitions."""
        self.leaving: set[int] = set()
        """Partitions that are about to be released."""
        self.loop = EventLoopThread().user()
        self.commits = BackgroundCommits(self.loop, self.commit, self.look, self.leaving.__contains__)

    async def look(self) -> None:
        raise QueueUnreachable("nobody asks it of this broker")

    async def commit(self, partitions: Set[int]) -> Mapping[int, QueueUnreachable]:
        if not partitions:
            return {}
        self.asked.append(set(partitions))
        await eventually(self.is_open)
        if self.refusal is not None:
            raise self.refusal
        refused = {one: why for one, why in self.refused.items() if one in partitions}
        self.taken += partitions - refused.keys()
        return refused

    async def is_open(self) -> bool:
        return self.open.is_set()


@pytest.fixture
def broker() -> Iterator[Broker]:
    made = Broker()
    yield made
    made.open.set()
    made.loop.close()


def test_partitions_due_during_a_commit_go_with_the_next_one(broker: Broker) -> None:
    broker.open.clear()
    broker.commits.due(1)
    until(lambda: broker.asked == [{1}])
    for partition in (2, 1, 3, 2):
        broker.commits.due(partition)
    broker.open.set()
    until(lambda: broker.asked == [{1}, {1, 2, 3}])


def test_a_partition_about_to_be_released_is_committed_later(broker: Broker) -> None:
    broker.leaving.add(1)
    for partition in (1, 2):
        broker.commits._due.add(partition)
    broker.commits.due(2)
    until(lambda: broker.asked == [{2}])
    broker.leaving.clear()
    until(lambda: broker.asked == [{2}, {1}])


def test_outputs_do_not_wait_for_a_partition_about_to_be_released(broker: Broker) -> None:
    broker.leaving.add(1)
    broker.commits.due(1, at_once=True)
    until(lambda: broker.asked == [{1}])


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (QueueUnreachable("no broker answers"), "no broker answers"),
        (KeyError(3), "a commit failed; retrying: 'KeyError(3)'"),
    ],
)
def test_a_refused_commit_is_retried_and_raised_to_callers_meanwhile(broker: Broker, refusal: Exception, said: str) -> None:
    broker.refusal = refusal
    broker.commits.due(1)

    def told() -> bool:
        try:
            broker.commits.due(1)
        except QueueUnreachable as problem:
            return str(problem) == said
        return False

    until(told)
    until(lambda: len(broker.asked) > 2)
    broker.refusal = None
    until(lambda: not told())
    assert all(asked == {1} for asked in broker.asked)


def test_a_refused_partition_does_not_delay_the_others(broker: Broker) -> None:
    broker.refused = {1: PartitionUnavailable("its topic is not there")}
    broker.commits.due(1, at_once=True)
    until(lambda: 1 in broker.commits._refused)
    asked = len(broker.asked)

    def asked_more(than: int) -> bool:
        return sum(2 in those for those in broker.asked) > than

    for number in range(10):
        broker.commits.due(2, at_once=True)
        until(partial(asked_more, number))
    assert all(those in ({1}, {2}) for those in broker.asked[asked:])
    with pytest.raises(PartitionUnavailable, match="its topic is not there"):
        broker.commits.due(1)
    broker.commits.due_again([1])
    broker.commits.due_again([1], to_mark=True)
    broker.commits.due(2, at_once=True)
    until(partial(asked_more, 10))
    assert {1, 2} not in broker.asked
    broker.refused = {}
    until(lambda: 1 not in broker.commits._refused)
    until(lambda: broker.taken.count(1) > 1, "nor is what fell due meanwhile forgotten")


class Clock:
    """A broker that takes the given time for each commit and look. No wait takes real time; before each, `while_it_waits` is
    called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, takes: float = 0.01, look_takes: float = 0.01) -> None:
        self.now = 1000.0
        self.begun: list[float] = []
        self.looked: list[float] = []
        self.refusals: list[Exception] = []
        """Errors of the first commits."""
        self.refused: list[tuple[set[int], float]] = []
        """Partitions that are tried again, and after how many seconds."""
        self.look_fails = False
        self.while_it_waits: Callable[[], object] = lambda: None
        self.commits = BackgroundCommits(EventLoopThread().user(), self._commit, self._look)
        self._takes, self._look_takes = takes, look_takes
        self._end = threading.Event()
        monkeypatch.setattr("baton.queues.kafka.background_commits.time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(self.commits, "_wait", self._wait)
        monkeypatch.setattr(self.commits, "_try_again", self._try_again)

    def of_three(self) -> list[float]:
        """Return the seconds between the first three commits."""
        self.commits.due(1)
        assert self._end.wait(PATIENCE)
        self.close()
        return [round(after - before, 2) for before, after in pairwise(self.begun)]

    def close(self) -> None:
        self.commits._loop.close()

    async def _commit(self, partitions: Set[int]) -> Mapping[int, QueueUnreachable]:
        self.begun.append(self.now)
        self.now += self._takes
        if len(self.begun) == 3:
            self.commits._closed = True
            self._end.set()
        if len(self.begun) <= len(self.refusals):
            raise self.refusals[len(self.begun) - 1]
        self.commits._due = {1}
        return {}

    async def _look(self) -> None:
        self.looked.append(self.now)
        self.now += self._look_takes
        if self.look_fails:
            raise ValueError("nobody expects it")

    async def _try_again(self, refused: Mapping[int, object], pause: float) -> None:
        self.refused.append((set(refused), pause))

    async def _wait(self, until: float, called: Callable[[], bool]) -> None:
        self.while_it_waits()
        if called() or self.commits._closed:
            return
        if until == float("inf"):
            await asyncio.Event().wait()
        self.now = max(self.now, until)


@pytest.mark.parametrize(("takes", "every"), [(0.01, EVERY), (0.1, 2.5), (1.0, SELDOM), (7.0, 7.0), (30.0, 30.0)])
def test_slow_commits_come_less_often(takes: float, every: float, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, takes)
    assert clock.of_three() == [every, every]
    asked = sorted([*clock.begun, *clock.looked])
    assert all(after - before <= max(EVERY, takes) + 0.001 for before, after in pairwise(asked)), "whose the partitions are"
    assert not clock.looked or takes < SELDOM


@pytest.mark.parametrize("refusal", [QueueUnreachable("it has just begun"), KeyError(3)])
@pytest.mark.parametrize(("hurried", "pause"), [(False, EVERY), (True, 0.5)])
def test_a_refused_commit_is_retried_sooner_if_a_caller_waits(
    refusal: Exception, hurried: bool, pause: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    clock.refusals = [refusal]
    clock.commits._hurried = hurried
    clock.commits.due(1)
    until(lambda: clock.refused)
    clock.close()
    assert clock.refused == [({1}, pause)]
    assert clock.looked == [], "a broker that refuses is not asked more"


def test_a_received_partition_is_marked_after_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, 0.5)

    def hand_over() -> None:
        if len(clock.begun) == 1:
            clock.commits.due_again([2], to_mark=True)

    clock.while_it_waits = hand_over
    assert clock.of_three() == [EVERY, SELDOM]


def test_an_urgent_commit_is_made_at_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, 0.5)

    def hurry() -> None:
        if clock.looked:
            clock.commits.due(2, at_once=True)

    clock.while_it_waits = hurry
    first, _ = clock.of_three()
    assert EVERY < first < EVERY + 0.1, "at the first look"


def test_an_unexpected_failed_look_is_logged_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock(monkeypatch, 0.5)
    clock.look_fails = True
    assert clock.of_three() == [SELDOM, SELDOM]
    assert len(clock.looked) == 8 and len(caplog.messages) == 1


def test_an_unexpected_failure_ends_nothing(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("baton.queues.kafka.background_commits.EVERY", 0.01)
    fails = [True, True]

    def is_about_to_release(partition: int) -> bool:
        if fails and fails.pop():
            raise ValueError("it is unexpected")
        return False

    broker.commits._is_about_to_release = is_about_to_release
    broker.commits.due(1)
    until(lambda: broker.asked == [{1}])
    assert caplog.messages == ["background commits failed; continuing"]


def test_looks_start_once_a_second_even_if_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, 0.5, look_takes=0.4)
    clock.of_three()
    assert [round(at - 1000.0, 2) for at in clock.looked[:4]] == [1.0, 2.0, 3.0, 4.0]


def test_a_refused_commit_is_retried_with_growing_pauses(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[tuple[float, float]] = []

    def at_once(first: float, longest: float) -> Iterator[float]:
        pauses.append((first, longest))
        return repeat(0.001)

    monkeypatch.setattr("baton.queues.kafka.background_commits.doubling", at_once)
    broker.refused = {1: PartitionUnavailable("its topic is not there")}
    broker.commits.due(1)
    until(lambda: len(broker.asked) >= 5)
    assert pauses == [(EVERY, LONGEST_PAUSE)]
    broker.refused = {}
    until(lambda: 1 not in broker.commits._refused)


def test_a_released_partition_is_not_retried(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("baton.queues.kafka.background_commits.doubling", lambda *_: repeat(0.001))
    broker.refused = {one: PartitionUnavailable("its topic is not there") for one in (1, 2)}
    broker.commits.due(1)
    broker.commits.due(2)
    until(lambda: 1 in broker.commits._refused and 2 in broker.commits._refused)
    broker.open.clear()
    asked = len(broker.asked)
    until(lambda: len(broker.asked) > asked)
    broker.commits.forget([1, 7])
    asked = len(broker.asked)
    broker.open.set()
    until(lambda: any(those == {2} for those in broker.asked[asked:]))
    assert 1 not in broker.commits._refused, "a refusal meanwhile says nothing about the next owner"
    broker.commits.due(1)  # raises nothing


def test_nothing_is_committed_after_the_end(broker: Broker) -> None:
    broker.commits.due(1)
    until(lambda: broker.asked == [{1}])
    broker.commits.close()
    broker.commits.due(2)
    assert broker.asked == [{1}]
