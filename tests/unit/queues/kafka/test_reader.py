"""A reader hands out the entries beside those that become dead letters."""

import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Message

from baton.model.ids import Epoch, QueueName, Uid
from baton.queues.entry import Entries
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.commits import OwnerCommits
from baton.queues.kafka.dead_letters import DeadLetterTopic
from baton.queues.kafka.direct_handoffs import DirectHandoffs
from baton.queues.kafka.fetcher import Fetcher
from baton.queues.kafka.read_position import ReadPosition
from baton.queues.kafka.reader import KafkaReader
from baton.queues.kafka.record import Committed, Record, Token
from baton.queues.protocol import PartitionUnavailable
from tests.kafka_pod import shared

ADDRESS, GROUP, ONE = KafkaAddress(("127.0.0.1:1",)), "shop.orders", Epoch(1)


class Log(Fetcher):
    """The fetched messages of one partition: an offset and a key each."""

    def __init__(self, keys: dict[int, bytes | None]) -> None:
        self._left = [Message(topic="orders", partition=0, offset=offset, key=key, value=b"v") for offset, key in keys.items()]

    def next(self, partition: int) -> int | None:
        return self._left[0].offset() if self._left else None

    def end_of_log(self, partition: int) -> int | None:
        return None

    def has(self, partition: int) -> bool:
        return bool(self._left)

    def take(self, partition: int, count: int, most_bytes: int, before: int) -> list[Message]:
        taken, self._left = self._left[:count], self._left[count:]
        return taken

    def close(self) -> None: ...


class Letters(DeadLetterTopic):
    """Takes dead letters once its topic exists."""

    def __init__(self) -> None:
        super().__init__(ADDRESS)
        self.exists = True
        self.offsets: list[int | None] = []

    def put(self, topic: str, message: Message, why: str, group: str) -> None:
        if not self.exists:
            raise PartitionUnavailable(f"there is no topic {topic}: create it")
        self.offsets.append(message.offset())


class Taken(OwnerCommits):
    """Commits that the broker takes."""

    async def commit(self, partition: int, position: ReadPosition) -> None:
        position.commit_taken(position.offset, position.next_record(), time.monotonic())

    async def check_owner(self, partition: int, position: ReadPosition) -> None: ...


class Reading(KafkaReader):
    """Has partition 0, in which entry 11 has failed too often, as the record says."""

    def __init__(self) -> None:
        super().__init__(ADDRESS, GROUP, QueueName("orders"), Uid("a"), *shared(ADDRESS, GROUP))
        record = Record(
            group="g",
            queue="orders",
            uid=Uid("a"),
            epoch=ONE,
            topic_id="t",
            token=Token(1, 0),
            first=1,
            most=3,
            tries={11: 4},
            reserved=100,
            dead_letters="dead",
        )
        self.position = self._positions[0] = ReadPosition.begun(Committed(10, record), time.monotonic())
        self._fetcher = Log({10: b"k", 11: b"k", 12: None, 13: b"", 14: None})
        self.letters = self._dead_letters = Letters()
        self._commits = Taken(self._offsets, QueueName("orders"), Uid("a"), self._positions, DirectHandoffs())


@pytest.fixture
def reading() -> Iterator[Reading]:
    with closing(Reading()) as made:
        yield made


def test_entries_are_handed_out_even_if_the_dead_letter_beside_them_cannot_be_sent(reading: Reading) -> None:
    reading.letters.exists = False
    offsets = list(Entries.of(reading.read(0, ONE)).offsets)
    assert offsets == ["10", "12", "13", "14"]
    assert reading.ready(0, ONE), "to try the dead letter again"
    with pytest.raises(PartitionUnavailable, match="create it"):
        reading.read(0, ONE)
    reading.letters.exists = True
    assert (list(reading.read(0, ONE)), reading.letters.offsets) == ([], [11])
    reading.ack(0, ONE, offsets)
    assert (reading.position.offset, reading.position.progress.unfinished) == (15, 0)


def test_entries_without_a_key_are_told_from_an_empty_key_beside_a_dead_letter(reading: Reading) -> None:
    read = Entries.of(reading.read(0, ONE))
    assert [key == read.without_key for key in read.keys] == [False, True, False, True]
