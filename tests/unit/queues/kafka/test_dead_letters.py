"""A topic that refuses dead letters."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message

from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.dead_letters import DeadLetterTopic
from baton.queues.protocol import PartitionUnavailable

NO_TOPIC, TOO_LARGE, SLOW = KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.MSG_SIZE_TOO_LARGE, KafkaError._MSG_TIMED_OUT
POISON = Message(topic="orders", partition=0, offset=7, value=b"v")


class Cluster:
    """Answers each dead letter with an error code after `takes` seconds. No wait takes real time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.takes = 1.0
        self.code: int | None = None
        self.asked: list[str] = []
        self._told: Callable[[KafkaError | None, object], None]
        monkeypatch.setattr("baton.queues.kafka.dead_letters.time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr("baton.queues.kafka.dead_letters.Producer", lambda settings: self)
        self._letters = DeadLetterTopic(KafkaAddress(("broker:9092",)))

    def produce(self, topic: str, on_delivery: Callable[[KafkaError | None, object], None], **_: Any) -> None:
        self.asked.append(topic)
        self._told = on_delivery

    def flush(self, timeout: float) -> None:
        self.now += self.takes
        self._told(None if self.code is None else KafkaError(self.code), None)

    def put(self, topic: str = "dead") -> str:
        """Return the error for a dead letter."""
        try:
            self._letters.put(topic, POISON, "it fails", "group")
        except PartitionUnavailable as problem:
            return str(problem)
        return "taken"

    def pauses(self, count: int) -> list[float]:
        """Seconds from the end of a try to the next."""
        found = []
        for _ in range(count):
            self.put()
            ended, asked = self.now, len(self.asked)
            while len(self.asked) == asked:
                self.now += 0.25
                before = self.now
                self.put()
            found.append(before - ended)
        return found


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


def test_a_refusing_topic_fails_further_letters_at_once(cluster: Cluster) -> None:
    cluster.code = NO_TOPIC
    first, at = cluster.put(), cluster.now
    assert "there is no topic dead for dead letters: create it" in first
    assert [cluster.put() for _ in range(3)] == [first] * 3
    assert (cluster.asked, cluster.now) == (["dead"], at)
    cluster.code = None
    assert cluster.put("another") == "taken"
    cluster.now += 30.0
    assert [cluster.put(), cluster.put()] == ["taken", "taken"], "it is tried again, and what was refused is forgotten"


@pytest.mark.parametrize(
    ("takes", "expected"),
    [(0.0, [0.5, 1.0, 2.0, 4.0]), (1.0, [4.0, 8.0, 16.0, 30.0]), (10.0, [30.0] * 4)],
)
def test_the_pause_grows_with_the_duration_of_attempts(cluster: Cluster, takes: float, expected: list[float]) -> None:
    cluster.code, cluster.takes = SLOW, takes
    assert cluster.pauses(4) == expected


def test_a_letter_that_is_too_large_does_not_block_others(cluster: Cluster) -> None:
    cluster.code = TOO_LARGE
    assert "a dead letter is larger than the topic dead takes" in cluster.put()
    cluster.code = None
    assert cluster.put() == "taken"
