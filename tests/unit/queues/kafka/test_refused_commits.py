"""Commits that the brokers have not taken are tried again, more and more seldom."""

import threading
from collections.abc import Iterator, Mapping, Set
from itertools import pairwise

import pytest

from baton.queues.kafka import background_commits
from baton.queues.kafka.background_commits import RefusedCommits
from baton.queues.protocol import PartitionUnavailable, QueueUnreachable
from tests.waiting import PATIENCE, until

WHY = PartitionUnavailable("its topic is not there")


class Broker:
    def __init__(self) -> None:
        self.asked: list[set[int]] = []
        self.pauses: list[float] = []
        self.open = threading.Event()
        self.open.set()
        self.refused: dict[int, QueueUnreachable] = {}
        self.commits = RefusedCommits(self.commit)

    def commit(self, partitions: Set[int]) -> Mapping[int, QueueUnreachable]:
        self.asked.append(set(partitions))
        self.pauses += [one.pause for one in self.commits._refused.values()]
        assert self.open.wait(PATIENCE)
        return {one: why for one, why in self.refused.items() if one in partitions}


@pytest.fixture
def broker() -> Iterator[Broker]:
    made = Broker()
    yield made
    made.open.set()
    made.commits.close()


def test_what_is_refused_is_tried_again_more_and_more_seldom_until_it_is_taken(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_commits, "LONGEST_PAUSE", 0.04)
    broker.refused = {1: WHY}
    broker.commits.add(broker.refused, 0.01)
    until(lambda: len(broker.pauses) >= 5)
    assert broker.pauses[:5] == [0.01, 0.02, 0.04, 0.04, 0.04]
    problem = broker.commits.problem(1)
    assert isinstance(problem, PartitionUnavailable) and str(problem) == str(WHY) and problem is not WHY
    broker.refused = {}
    until(lambda: broker.commits.problem(1) is None)


def test_each_has_its_own_time(broker: Broker) -> None:
    broker.commits.add({1: WHY, 2: WHY}, 0.02)
    broker.commits.add({3: WHY}, 0.04)
    until(lambda: all(broker.commits.problem(one) is None for one in (1, 2, 3)))
    assert broker.asked == [{1, 2}, {3}]
    assert all(before != after for before, after in pairwise(broker.asked))


def test_what_is_let_go_of_is_not_tried_nor_told_any_more(broker: Broker) -> None:
    broker.open.clear()
    broker.refused = {1: WHY, 2: WHY}
    broker.commits.add(broker.refused, 0.01)
    until(lambda: broker.asked == [{1, 2}])
    broker.commits.forget([1, 7])
    broker.open.set()
    until(lambda: len(broker.asked) >= 3)
    assert all(asked == {2} for asked in broker.asked[1:]) and broker.commits.problem(1) is None


def test_nothing_is_tried_after_the_end(broker: Broker) -> None:
    broker.commits.add({1: WHY}, 0.2)
    broker.commits.close()
    assert broker.asked == [] and not broker.commits._thread.is_alive()


def test_nothing_is_kept_of_what_nobody_would_try_again(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread() -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(broker.commits._thread, "start", no_thread)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            broker.commits.add({1: WHY}, 0.01)
    assert broker.commits.problem(1) is None
    broker.commits.add({1: WHY}, 0.01)
    until(lambda: broker.asked == [{1}])
