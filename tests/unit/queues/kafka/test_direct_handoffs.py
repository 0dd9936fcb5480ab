"""Partitions that an owner hands directly to the next one."""

import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from types import SimpleNamespace

import pytest

from baton.model.ids import Epoch, Partition, QueueName, Uid
from baton.queues.kafka import direct_handoffs
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.direct_handoffs import DirectHandoffs, HandedOver
from baton.queues.kafka.read_position import ReadPosition
from baton.queues.kafka.reader import KafkaReader
from baton.queues.kafka.record import BY_GIVER, Committed, Record, Token
from baton.queues.kafka.take_up import Found
from baton.queues.protocol import Ownership, QueueUnreachable
from tests.kafka_pod import shared
from tests.waiting import HOUR, eventually, until

FIRST = Partition(QueueName("orders"), 0)
ONE, TWO, THREE = Epoch(1), Epoch(2), Epoch(3)
RECORD = Record(group="g", queue="orders", uid=Uid("a"), epoch=TWO, topic_id="t", token=Token(1, 0), first=9, reader=BY_GIVER)
HANDED_OVER = HandedOver("orders-topic", Committed(7, RECORD), 0.0)


def seen(*epochs: Epoch) -> DirectHandoffs:
    """The first partition was seen at these epochs."""
    handoffs = DirectHandoffs()
    for epoch in epochs:
        handoffs.saw(FIRST, epoch)
    return handoffs


def test_a_partition_seen_at_a_lower_epoch_is_new() -> None:
    assert seen(ONE).is_new(FIRST, TWO)
    assert seen(ONE, TWO).is_new(FIRST, TWO)
    assert not seen(TWO).is_new(FIRST, TWO)
    assert not seen(TWO, THREE).is_new(FIRST, TWO)
    assert not DirectHandoffs().is_new(FIRST, TWO), "nothing is known yet"


def test_a_partition_already_being_read_is_not_new() -> None:
    handoffs = seen(ONE)
    handoffs.begins(FIRST, TWO)
    assert not handoffs.is_new(FIRST, TWO)
    assert handoffs.is_new(FIRST, THREE)


def test_a_hand_over_is_taken_once_and_under_its_epoch() -> None:
    handoffs = seen(ONE)
    handoffs.handed_over(FIRST, HANDED_OVER)
    assert (handoffs.take(FIRST, TWO), handoffs.take(FIRST, TWO)) == (HANDED_OVER, None)
    handoffs = seen(ONE)
    handoffs.handed_over(FIRST, HANDED_OVER)
    assert handoffs.take(FIRST, THREE) is None


@pytest.mark.parametrize("begins", [lambda handoffs: handoffs.take(FIRST, TWO), lambda handoffs: handoffs.begins(FIRST, TWO)])
def test_a_hand_over_seen_after_reading_began_is_ignored(begins: Callable[[DirectHandoffs], object]) -> None:
    handoffs = seen(ONE)
    handoffs.handed_over(FIRST, HANDED_OVER)
    begins(handoffs)
    handoffs.handed_over(FIRST, HANDED_OVER)
    assert handoffs.take(FIRST, TWO) is None


def test_an_owner_with_a_known_successor_is_about_to_release_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    now, handoffs = [100.0], seen(ONE)
    monkeypatch.setattr(direct_handoffs, "time", SimpleNamespace(monotonic=lambda: now[0]))
    assert not handoffs.is_about_to_release(FIRST, ONE)
    handoffs.set_next_owner(FIRST, ONE, Ownership(Uid("b"), TWO))
    assert handoffs.is_about_to_release(FIRST, ONE)
    assert not handoffs.is_about_to_release(FIRST, TWO), "another has it by then"
    now[0] += 1.5
    assert not handoffs.is_about_to_release(FIRST, ONE), "it is in a long handler"
    assert handoffs.next_owner(FIRST, ONE) == Ownership(Uid("b"), TWO)
    handoffs.set_next_owner(FIRST, ONE, Ownership(Uid("b"), TWO))
    handoffs.set_next_owner(FIRST, ONE, None)
    assert not handoffs.is_about_to_release(FIRST, ONE)


def test_a_hand_over_that_an_earlier_process_may_have_taken_is_ignored() -> None:
    handoffs = seen(TWO)
    handoffs.handed_over(FIRST, HANDED_OVER)
    assert handoffs.take(FIRST, TWO) is None


def test_a_plan_applies_to_the_owner_at_its_epoch() -> None:
    handoffs, b = DirectHandoffs(), Ownership(Uid("b"), TWO)
    handoffs.set_next_owner(FIRST, ONE, b)
    assert (handoffs.next_owner(FIRST, ONE), handoffs.next_owner(FIRST, TWO)) == (b, None)
    handoffs.set_next_owner(FIRST, ONE, None)
    assert handoffs.next_owner(FIRST, ONE) is None


# -- What a reader says of partitions that it releases, while others of them are still taken up.


SHORT = 0.05


class Reading(KafkaReader):
    """Has partition 0; partition 1 is taken up once it is `open`."""

    def __init__(self) -> None:
        address, group = KafkaAddress(("nowhere:9092",)), "shop.orders"
        super().__init__(address, group, QueueName("orders"), Uid("a"), *shared(address, group))
        self._taking_up.take_up = self._take_up  # type: ignore[method-assign]
        self.open = threading.Event()
        self.said: list[set[int]] = []
        self._commits.release = self._say  # type: ignore[method-assign]
        self.waited: list[float] = []
        """Seconds of each wait for partitions that are still being taken up."""
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
def test_a_release_waits_briefly_for_a_partition_being_taken_up(reading: Reading, give_up: bool) -> None:
    assert reading.release(BOTH, HOUR, give_up=give_up).keys() == {1}
    assert (reading.waited, reading.said, reading.held()) == ([0.5], [{0}], set())


def test_a_partition_taken_up_meanwhile_gets_its_last_commit(reading: Reading) -> None:
    assert reading.release(BOTH, HOUR).keys() == {1}
    reading.open.set()
    until(lambda: not reading.release(BOTH, HOUR), "it has its last word")
    assert (reading.said, reading.held()) == ([{0}, {1}], set())


def test_at_the_end_other_partitions_still_get_their_last_commit(reading: Reading) -> None:
    assert reading.release(BOTH, SHORT, give_up=True).keys() == {1}
    assert (reading.said, reading.held()) == ([{0}], set())


def test_partitions_that_are_not_read_get_no_last_commit(reading: Reading) -> None:
    assert not reading.release({2: ONE, 0: Epoch(2)}, HOUR)
    assert (reading.said, reading.held()) == ([], {0})
