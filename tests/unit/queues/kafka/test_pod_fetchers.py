"""A pod fetches what it is to get in a moment, also where it has nothing yet."""

import pytest

from baton.queues.kafka.fetcher import Fetcher, PodFetchers


class Connecting(Fetcher):
    """Without a broker."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self.expected: list[tuple[int, int]] = []
        self.is_closed = False

    @property
    def closed(self) -> bool:
        return self.is_closed

    def expect(self, partition: int, offset: int) -> None:
        self.expected.append((partition, offset))

    def stop(self) -> None:
        self.is_closed = True

    close = stop


class Pod:
    """Its fetchers, in the order in which they were made."""

    def __init__(self) -> None:
        self.made: list[Connecting] = []
        self.fetchers = PodFetchers(self._make)

    def _make(self, topic: str) -> Fetcher:
        self.made.append(Connecting(topic))
        return self.made[-1]


@pytest.fixture
def pod() -> Pod:
    return Pod()


def test_whoever_reads_takes_the_one_that_has_begun_with_what_was_expected(pod: Pod) -> None:
    pod.fetchers.expect("orders", 3, 7)
    pod.fetchers.expect("orders", 4, 8)
    (ready,) = pod.made
    assert (ready.expected, pod.fetchers.take("orders")) == ([(3, 7), (4, 8)], ready)
    pod.fetchers.expect("orders", 5, 9)
    assert (ready.expected[2:], ready.closed) == ([(5, 9)], False)


def test_one_that_has_begun_with_another_topic_is_closed(pod: Pod) -> None:
    pod.fetchers.expect("orders", 0, 1)
    pod.fetchers.expect("payments", 0, 1)
    taken = pod.fetchers.take("payments")
    ready, other = pod.made
    assert (ready.expected, ready.closed) == ([(0, 1)], True)
    assert (taken, taken.topic, other.expected, other.closed) == (other, "payments", [], False)


def test_each_topic_that_is_read_has_its_own(pod: Pod) -> None:
    orders, payments = pod.fetchers.take("orders"), pod.fetchers.take("payments")
    pod.fetchers.expect("orders", 1, 2)
    pod.fetchers.expect("payments", 3, 4)
    pod.fetchers.expect("refunds", 5, 6)
    assert [one.expected for one in pod.made] == [[(1, 2)], [(3, 4)]]
    assert pod.made == [orders, payments]


def test_a_pod_that_has_nothing_left_begins_once_more_with_what_is_expected(pod: Pod) -> None:
    pod.fetchers.take("orders").close()
    pod.fetchers.expect("orders", 1, 2)
    assert [one.expected for one in pod.made] == [[], [(1, 2)]]
    assert pod.fetchers.take("orders") is pod.made[1]


def test_what_nobody_has_taken_is_closed_and_none_is_made_any_more(pod: Pod) -> None:
    pod.fetchers.expect("orders", 0, 1)
    pod.fetchers.close()
    pod.fetchers.expect("orders", 1, 1)
    assert [one.closed for one in pod.made] == [True]
