"""What a reader says of partitions that it lets go of, while others of them are still taken up."""

import threading
from collections.abc import AsyncIterator, Iterator, Mapping

import pytest

from baton.model.ids import Epoch, QueueName, Uid
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.read_position import ReadPosition
from baton.queues.kafka.reader import KafkaReader
from baton.queues.kafka.record import Committed, Record, Token
from baton.queues.kafka.take_up import Found
from baton.queues.protocol import QueueUnreachable
from tests.kafka_pod import shared
from tests.waiting import HOUR, eventually, until

ONE = Epoch(1)
SHORT = 0.05


class Reading(KafkaReader):
    """Has the partition 0; the partition 1 is taken up when it is `open`."""

    def __init__(self) -> None:
        address, group = KafkaAddress(("nowhere:9092",)), "shop.orders"
        super().__init__(address, group, QueueName("orders"), Uid("a"), *shared(address, group))
        self._taking_up.take_up = self._take_up  # type: ignore[method-assign]
        self.open = threading.Event()
        self.said: list[set[int]] = []
        self._commits.last_words = self._say  # type: ignore[method-assign]
        self.waited: list[float] = []
        """Seconds, for what is still taken up."""
        self._withdraw, self._taking_up.withdraw = self._taking_up.withdraw, self._wait  # type: ignore[method-assign]
        self._positions[0] = position()
        assert not self.ready(1, ONE)
        until(lambda: self._taking_up._under_way)

    def held(self) -> set[int]:
        return set(self._positions)

    async def _is_open(self) -> bool:
        return self.open.is_set()

    async def _take_up(self, partitions: Mapping[int, Epoch]) -> AsyncIterator[Mapping[int, Found]]:
        await eventually(self._is_open)
        yield dict.fromkeys(partitions, position())

    def _wait(
        self, partitions: Mapping[int, Epoch], within: float, *, give_up: bool = False
    ) -> tuple[dict[int, ReadPosition], set[int]]:
        self.waited.append(within)
        return self._withdraw(partitions, min(within, SHORT), give_up=give_up)

    async def _say(self, positions: Mapping[int, ReadPosition], within: float) -> Mapping[int, QueueUnreachable]:
        if within <= 0:
            return dict.fromkeys(positions, QueueUnreachable("too late"))
        self.said.append(set(positions))
        return {}


def position() -> ReadPosition:
    record = Record(group="g", queue="orders", uid=Uid("a"), epoch=ONE, topic_id="t", token=Token(1, 0), first=2)
    return ReadPosition.begun(Committed(0, record), 0.0)


@pytest.fixture
def reading() -> Iterator[Reading]:
    made = Reading()
    yield made
    made.open.set()
    made.close()


BOTH = {0: ONE, 1: ONE}


@pytest.mark.parametrize("give_up", [False, True])
def test_whoever_reads_does_not_wait_for_long_for_what_is_still_taken_up(reading: Reading, give_up: bool) -> None:
    assert reading.let_go(BOTH, HOUR, give_up=give_up).keys() == {1}
    assert (reading.waited, reading.said, reading.held()) == ([0.5], [{0}], set())


def test_what_is_taken_up_by_the_time_that_it_is_let_go_of_once_more_has_its_last_word(reading: Reading) -> None:
    assert reading.let_go(BOTH, HOUR).keys() == {1}
    reading.open.set()
    until(lambda: not reading.let_go(BOTH, HOUR), "it has its last word")
    assert (reading.said, reading.held()) == ([{0}, {1}], set())


def test_at_the_end_what_is_still_taken_up_leaves_the_others_time_for_their_last_words(reading: Reading) -> None:
    assert reading.let_go(BOTH, SHORT, give_up=True).keys() == {1}
    assert (reading.said, reading.held()) == ([{0}], set())


def test_nothing_is_said_where_nothing_is_read(reading: Reading) -> None:
    assert not reading.let_go({2: ONE, 0: Epoch(2)}, HOUR)
    assert (reading.said, reading.held()) == ([], {0})
