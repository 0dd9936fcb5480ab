"""A pod that is to get its first partition connects before it has it, once."""

import pytest

from baton.queues.kafka.fetcher import Fetcher
from baton.queues.kafka.ready_fetcher import ReadyFetcher


class Connecting(Fetcher):
    """Without a broker."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self.ready_for: list[int] = []
        self.closed = False

    def get_ready(self, partition: int) -> None:
        self.ready_for.append(partition)

    def close(self) -> None:
        self.closed = True


class Pod:
    """Its fetchers, in the order in which they were made."""

    def __init__(self) -> None:
        self.made: list[Connecting] = []
        self.fetcher = ReadyFetcher(self._make)

    def _make(self, topic: str) -> Fetcher:
        self.made.append(Connecting(topic))
        return self.made[-1]


@pytest.fixture
def pod() -> Pod:
    return Pod()


def test_whoever_reads_takes_the_one_that_has_connected_for_the_partition_that_was_heard_of_first(pod: Pod) -> None:
    pod.fetcher.get_ready("orders", 3)
    pod.fetcher.get_ready("orders", 4)
    (ready,) = pod.made
    assert (ready.ready_for, pod.fetcher.take("orders")) == ([3], ready)
    assert not ready.closed


def test_one_that_has_connected_for_another_topic_is_closed(pod: Pod) -> None:
    pod.fetcher.get_ready("orders", 0)
    taken = pod.fetcher.take("payments")
    ready, other = pod.made
    assert (ready.closed, taken, taken.topic, other.closed) == (True, other, "payments", False)


def test_a_pod_that_fetches_already_gets_no_other_ready(pod: Pod) -> None:
    pod.fetcher.take("orders")
    pod.fetcher.get_ready("payments", 0)
    assert [one.topic for one in pod.made] == ["orders"]


def test_what_nobody_has_taken_is_closed_and_none_is_made_any_more(pod: Pod) -> None:
    pod.fetcher.get_ready("orders", 0)
    pod.fetcher.close()
    pod.fetcher.get_ready("orders", 1)
    assert [one.closed for one in pod.made] == [True]
