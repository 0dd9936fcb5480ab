"""A pod prefetches partitions that it is about to receive, even if it has none yet."""

import time
from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.fetcher import AllAhead, Fetcher, PodFetchers
from baton.queues.protocol import QueueUnreachable
from tests.waiting import HOUR, until

# -- What is fetched of a partition, however librdkafka hands it over.


@pytest.fixture
def fetcher() -> Iterator[Fetcher]:
    """A fetcher without a broker, with two partitions assigned."""
    made = Fetcher(KafkaAddress(("127.0.0.1:1",)), "group", "orders")
    made.begin({0: 0, 1: 0})
    until(lambda: len(made._assigned) == 2)
    yield made
    made.close()


def of(partition: int, *offsets: int) -> list[Message]:
    return [Message(topic="orders", partition=partition, offset=offset, value=b"v") for offset in offsets]


def end(partition: int, offset: int) -> Message:
    return Message(topic="orders", partition=partition, offset=offset, error=KafkaError(KafkaError._PARTITION_EOF))


def taken(fetcher: Fetcher, partition: int) -> Sequence[int | None]:
    return [message.offset() for message in fetcher.take(partition, 100, 1_000_000, 1_000)]


class Silent:
    """A consumer of librdkafka without messages, which records what it should fetch."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.assigned: list[list[int]] = []
        """Partitions of each call."""

    def poll(self, timeout: float) -> Message | None:
        return None

    def consume(self, count: int, timeout: float) -> list[Message]:
        return []

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self.told += [f"{one.partition} from {one.offset}" for one in partitions]
        self.assigned.append(sorted(one.partition for one in partitions))

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        self.told += [f"no {one.partition}" for one in partitions]

    def close(self) -> None: ...


def test_messages_before_and_after_an_end_of_log_are_fetched(fetcher: Fetcher) -> None:
    fetcher._add_polled([*of(0, 0, 1), end(0, 2), *of(0, 2), end(0, 3), *of(1, 5, 6), *of(0, 3), end(1, 7)])
    assert fetcher.end_of_log(1) is None, "something is to be taken before it"
    assert [taken(fetcher, partition) for partition in (0, 1)] == [[0, 1, 2, 3], [5, 6]]
    assert [fetcher.end_of_log(partition) for partition in (0, 1)] == [None, 7]


def test_duplicates_are_skipped(fetcher: Fetcher) -> None:
    fetcher._add_polled(of(0, 0, 1, 2, 1, 2, 3))
    fetcher._add_polled(of(0, 2, 3, 4))
    assert taken(fetcher, 0) == [0, 1, 2, 3, 4]


def test_nothing_behind_a_corrupt_message_is_fetched_until_it_was_reported(fetcher: Fetcher) -> None:
    fetcher._consumer = Silent()  # type: ignore[assignment] # as the thread uses it
    corrupt = Message(topic="orders", partition=0, offset=2, error=KafkaError(KafkaError._BAD_MSG))
    beyond = Message(topic="orders", partition=0, offset=9, error=KafkaError(KafkaError._AUTO_OFFSET_RESET))
    fetcher._add_polled([*of(0, 0, 1), corrupt, *of(0, 5), *of(1, 3), *of(0, 6), beyond])
    assert [taken(fetcher, partition) for partition in (0, 1)] == [[0, 1], [3]]
    assert fetcher._assigned.keys() == {1}
    with pytest.raises(QueueUnreachable, match="orders/0 has messages that are corrupt"):
        taken(fetcher, 0)
    until(lambda: fetcher._assigned.keys() == {0, 1}, "it is tried again")
    fetcher._add_polled(of(0, 2, 3))
    assert taken(fetcher, 0) == [2, 3]


class FailsOnce(Silent):
    """Returns one message, then fails once, and has nothing after that."""

    messages = of(0, 7)

    def poll(self, timeout: float) -> Message | None:
        return self.messages.pop() if self.messages else None

    def consume(self, count: int, timeout: float) -> list[Message]:
        raise RuntimeError("once")


def test_messages_of_a_failed_poll_are_fetched_again(fetcher: Fetcher) -> None:
    fetcher._add_polled(of(0, *range(7)))
    consumer = FailsOnce()
    fetcher._consumer = consumer  # type: ignore[assignment] # as the thread uses it
    until(lambda: sorted(consumer.told) == ["0 from 7", "1 from 0", "no 0", "no 1"], "both go on behind what was taken in")


def test_partitions_above_their_share_rest_until_half_is_left(fetcher: Fetcher) -> None:
    def megabytes(partition: int, count: int) -> list[Message]:
        value = b"v" * 1_000_000
        return [Message(topic="orders", partition=partition, offset=offset, value=value) for offset in range(count)]

    def resting() -> list[int]:
        return [number for number, fetched in fetcher._fetched.items() if fetched.resting]

    fetcher._consumer = Silent()  # type: ignore[assignment] # as the thread uses it
    fetcher.begin({2: 0})
    until(lambda: len(fetcher._assigned) == 3)
    fetcher._add_polled([*megabytes(0, 31), *megabytes(1, 31)])
    assert resting() == []
    fetcher._add_polled(megabytes(2, 3))
    until(lambda: resting() == [0, 1], "nobody takes any of it")
    fetcher.take(0, 20, 10**9, 1_000)
    assert resting() == [0, 1]
    fetcher.take(0, 1, 10**9, 1_000)
    assert resting() == [1]


def test_the_total_fetched_is_tracked(fetcher: Fetcher) -> None:
    fetcher._consumer = Silent()  # type: ignore[assignment] # as the thread uses it
    fetcher._add_polled([*of(0, *range(10)), *of(1, *range(5))])
    taken(fetcher, 1)
    fetcher.take(0, 3, 1_000_000, 1_000)
    assert fetcher._ahead == AllAhead(2, 7, 7 * 301)
    fetcher.begin({0: 4})
    assert fetcher._ahead == AllAhead(2, 0, 0)
    until(lambda: fetcher._assigned.get(0) is fetcher._fetched[0])
    fetcher._add_polled(of(0, 4, 5, 4, 6))
    assert fetcher._ahead == AllAhead(2, 3, 3 * 301)
    fetcher.end(0)
    fetcher.end(0)
    assert fetcher._ahead == AllAhead(1, 0, 0)


class Endless(Silent):
    """A consumer with endless messages of partition 0."""

    def __init__(self) -> None:
        super().__init__()
        self.handed_over = 0
        self.polled_at = self.stopped_at = 0.0

    def poll(self, timeout: float) -> Message | None:
        if self.stopped_at:
            return None
        self.polled_at = time.monotonic()
        return self.consume(1, 0.0)[0]

    def consume(self, count: int, timeout: float) -> list[Message]:
        first, self.handed_over = self.handed_over, self.handed_over + count
        return of(0, *range(first, self.handed_over))

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        self.stopped_at = time.monotonic()


def test_a_full_fetcher_stops_polling_before_a_partition_rests(fetcher: Fetcher) -> None:
    fetcher._consumer = consumer = Endless()  # type: ignore[assignment] # as the thread uses it
    until(lambda: consumer.stopped_at > 0.0, "nobody takes any of it")
    assert consumer.handed_over < 50_000
    assert consumer.stopped_at - consumer.polled_at >= 0.2, "what librdkafka has of it is fetched again"


def test_partitions_taken_up_together_are_assigned_together(fetcher: Fetcher) -> None:
    fetcher._consumer = consumer = Silent()  # type: ignore[assignment] # as the thread uses it
    fetcher.begin({2: 0, 3: 0, 4: 0})
    until(lambda: len(fetcher._assigned) == 5)
    assert consumer.assigned == [[2, 3, 4]]


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Fetcher, Silent]]:
    """A fetcher that fetches nothing yet. Expected partitions stay expected: a busy machine may need long."""
    client = Silent()
    monkeypatch.setattr("baton.queues.kafka.fetcher._EXPECTED_FOR", HOUR)
    monkeypatch.setattr("baton.queues.kafka.fetcher.fetching_client", lambda *_, **__: client)
    made = Fetcher(KafkaAddress(("127.0.0.1:1",)), "group", "orders")
    yield made, client
    made.close()


@pytest.fixture
def expecting(idle: tuple[Fetcher, Silent]) -> tuple[Fetcher, Silent]:
    """A fetcher that prefetches partition 3 from offset 7."""
    fetcher, _ = idle
    fetcher.expect(3, 7)
    until(lambda: 3 in fetcher._assigned)
    return idle


def test_an_expected_partition_is_prefetched_once(expecting: tuple[Fetcher, Silent]) -> None:
    fetcher, client = expecting
    fetcher._add_polled([*of(3, *range(7, 20)), end(3, 20)])
    fetcher.expect(3, 7)
    fetcher.begin({3: 12, 4: 2})
    until(lambda: 4 in fetcher._assigned)
    assert client.told == ["3 from 7", "4 from 2"]
    assert (taken(fetcher, 3), fetcher.end_of_log(3)) == (list(range(12, 20)), 20)
    fetcher._add_polled(of(3, 20, 21))
    assert taken(fetcher, 3) == [20, 21]
    assert fetcher._ahead == AllAhead(2, 0, 0)


def test_prefetched_messages_before_the_start_are_skipped(expecting: tuple[Fetcher, Silent]) -> None:
    fetcher, client = expecting
    fetcher._add_polled([*of(3, 7, 8), end(3, 9)])
    fetcher.begin({3: 12})
    assert fetcher.end_of_log(3) is None, "there is more by now"
    fetcher._add_polled(of(3, *range(9, 15)))
    assert (taken(fetcher, 3), client.told) == ([12, 13, 14], ["3 from 7"])


@pytest.mark.parametrize("begins_at", [6, 2_000])
def test_a_prefetch_from_elsewhere_is_discarded(expecting: tuple[Fetcher, Silent], begins_at: int) -> None:
    fetcher, client = expecting
    fetcher._add_polled(of(3, 7, 8))
    fetcher.begin({3: begins_at})
    until(lambda: client.told == ["3 from 7", "no 3", f"3 from {begins_at}"])
    assert taken(fetcher, 3) == []


@pytest.mark.parametrize("end", [2_007, 50_007])
def test_a_prefetch_is_small_and_does_not_make_others_rest(idle: tuple[Fetcher, Silent], end: int) -> None:
    fetcher, client = idle
    fetcher.begin({4: 2})
    fetcher.expect(3, 7)
    until(lambda: fetcher._assigned.keys() == {3, 4})
    fetcher._add_polled(of(3, *range(7, end)))
    until(lambda: client.told[2:] == ["no 3"])
    assert (fetcher._has_enough(), fetcher._fetched[4].resting) == (False, False)
    fetcher.begin({3: 8})
    assert fetcher._fetched[3].resting, "there is enough for a while"
    assert fetcher.take(3, 60_000, 10**9, 10**9)[0].offset() == 8
    until(lambda: client.told[3:] == [f"3 from {end}"])


def test_an_exhausted_prefetch_resumes_at_once(expecting: tuple[Fetcher, Silent]) -> None:
    fetcher, client = expecting
    fetcher._add_polled(of(3, *range(7, 2_007)))
    until(lambda: client.told == ["3 from 7", "no 3"])
    fetcher.begin({3: 2_007})
    until(lambda: client.told[2:] == ["3 from 2007"])


def test_a_closed_fetcher_keeps_nothing(idle: tuple[Fetcher, Silent]) -> None:
    fetcher, _ = idle
    fetcher.begin({3: 7})
    until(lambda: 3 in fetcher._assigned)
    fetcher._add_polled(of(3, 7))
    fetcher.close()
    fetcher.expect(4, 1)
    assert (fetcher._fetched, fetcher._ahead, fetcher.closed) == ({}, AllAhead(0, 0, 0), True)


def test_a_failed_prefetch_is_fetched_again(expecting: tuple[Fetcher, Silent]) -> None:
    fetcher, client = expecting
    fetcher._add_polled([Message(topic="orders", partition=3, offset=7, error=KafkaError(KafkaError._AUTO_OFFSET_RESET))])
    fetcher.begin({3: 7})
    until(lambda: client.told == ["3 from 7", "no 3", "3 from 7"])


@pytest.mark.parametrize("code", [KafkaError._AUTO_OFFSET_RESET, KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._BAD_MSG])
def test_a_failed_fetch_resumes_from_its_offset_after_it_was_reported(idle: tuple[Fetcher, Silent], code: int) -> None:
    fetcher, client = idle
    fetcher.begin({3: 7, 4: 0})
    until(lambda: fetcher._assigned.keys() == {3, 4})
    del client.told[:]
    fetcher._add_polled([*of(3, 7, 8), Message(topic="orders", partition=3, offset=9, error=KafkaError(code))])
    assert taken(fetcher, 3) == [7, 8]
    with pytest.raises(QueueUnreachable, match="orders"):
        taken(fetcher, 3)
    until(lambda: client.told == ["no 3", "3 from 9"])
    until(lambda: fetcher._fetched[3].failure is None)
    fetcher._add_polled([end(3, 9), end(4, 0)])
    assert (taken(fetcher, 3), fetcher.end_of_log(3), fetcher.has(3)) == ([], 9, False), "it is idle, and nothing is wrong"
    fetcher._add_polled(of(3, 8, 9, 10))
    assert taken(fetcher, 3) == [9, 10]


def test_an_expected_partition_that_never_comes_is_dropped(idle: tuple[Fetcher, Silent], monkeypatch: pytest.MonkeyPatch) -> None:
    fetcher, _ = idle
    monkeypatch.setattr("baton.queues.kafka.fetcher._EXPECTED_FOR", 0.0)
    fetcher.expect(3, 7)
    fetcher.begin({4: 2})
    until(lambda: fetcher._fetched.keys() == {4})
    monkeypatch.setattr("baton.queues.kafka.fetcher._EXPECTED_FOR", HOUR)
    fetcher.expect(4, 9)
    assert not fetcher._expected, "it is read already"
    fetcher.expect(5, 1)
    fetcher.end(5)
    assert (bool(fetcher._expected), fetcher._ahead.partitions) == (False, 1)


def test_messages_of_an_earlier_assignment_are_ignored(fetcher: Fetcher) -> None:
    fetcher._assigned[0] = fetcher._assigned[1]  # as until the thread has assigned it again
    fetcher._add_polled([*of(0, 0, 1), *of(1, 0)])
    assert [taken(fetcher, partition) for partition in (0, 1)] == [[], [0]]


def test_a_waiting_reader_is_woken_once_by_its_partitions(fetcher: Fetcher) -> None:
    woken: list[str] = []
    fetcher.wait_for(frozenset({0}), lambda: woken.append("0"))
    fetcher._add_polled([*of(1, 0), end(0, 0)])
    assert woken == [], "there is nothing of it"
    fetcher._add_polled(of(0, 0))
    fetcher._add_polled(of(0, 1))
    assert woken == ["0"]
    fetcher.wait_for(frozenset({1}), lambda: woken.append("1"))
    assert woken == ["0", "1"], "there is something"
    taken(fetcher, 0)
    fetcher.wait_for(frozenset({0}), lambda: woken.append("0"))
    fetcher.wait_for(frozenset(), lambda: woken.append("nothing"))
    fetcher._add_polled(of(0, 2))
    assert woken == ["0", "1"], "the last word on what is waited for holds"


def test_a_waiting_reader_is_woken_by_a_failed_fetch(fetcher: Fetcher) -> None:
    class Refusing(Silent):
        def incremental_assign(self, partitions: list[TopicPartition]) -> None:
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG))

    woken: list[bool] = []
    fetcher.wait_for(frozenset({2}), lambda: woken.append(True))
    fetcher._consumer = Refusing()  # type: ignore[assignment] # as the thread uses it
    fetcher.begin({2: 0})
    until(lambda: woken)
    with pytest.raises(QueueUnreachable, match="cannot be read"):
        taken(fetcher, 2)


class Connecting(Fetcher):
    """Works without a broker."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.expected: list[tuple[int, int]] = []
        self.closed = False

    def expect(self, partition: int, offset: int) -> None:
        self.expected.append((partition, offset))

    def stop(self) -> None:
        self.closed = True

    close = stop


class Pod:
    """A pod's fetchers, in the order in which they were made."""

    def __init__(self) -> None:
        self.made: list[Connecting] = []
        self.fetchers = PodFetchers(self._make)

    def _make(self, topic: str) -> Fetcher:
        self.made.append(Connecting(topic))
        return self.made[-1]


@pytest.fixture
def pod() -> Pod:
    return Pod()


def test_a_reader_takes_the_fetcher_that_has_prefetched(pod: Pod) -> None:
    pod.fetchers.expect("orders", 3, 7)
    pod.fetchers.expect("orders", 4, 8)
    (ready,) = pod.made
    assert (ready.expected, pod.fetchers.take("orders")) == ([(3, 7), (4, 8)], ready)
    pod.fetchers.expect("orders", 5, 9)
    assert (ready.expected[2:], ready.closed) == ([(5, 9)], False)


def test_a_fetcher_that_prefetched_another_topic_is_closed(pod: Pod) -> None:
    pod.fetchers.expect("orders", 0, 1)
    pod.fetchers.expect("payments", 0, 1)
    taken = pod.fetchers.take("payments")
    ready, other = pod.made
    assert (ready.expected, ready.closed) == ([(0, 1)], True)
    assert (taken, taken.topic, other.expected, other.closed) == (other, "payments", [], False)


def test_each_topic_has_its_own_fetcher(pod: Pod) -> None:
    orders, payments = pod.fetchers.take("orders"), pod.fetchers.take("payments")
    pod.fetchers.expect("orders", 1, 2)
    pod.fetchers.expect("payments", 3, 4)
    pod.fetchers.expect("refunds", 5, 6)
    assert [one.expected for one in pod.made] == [[(1, 2)], [(3, 4)]]
    assert pod.made == [orders, payments]


def test_a_pod_without_fetchers_prefetches_again(pod: Pod) -> None:
    pod.fetchers.take("orders").close()
    pod.fetchers.expect("orders", 1, 2)
    assert [one.expected for one in pod.made] == [[], [(1, 2)]]
    assert pod.fetchers.take("orders") is pod.made[1]


def test_an_unused_fetcher_is_closed_with_the_pod(pod: Pod) -> None:
    pod.fetchers.expect("orders", 0, 1)
    pod.fetchers.close()
    pod.fetchers.expect("orders", 1, 1)
    assert [one.closed for one in pod.made] == [True]
