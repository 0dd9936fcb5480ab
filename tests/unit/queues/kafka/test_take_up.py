"""Partitions are taken up while others are read."""

import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from baton.model.ids import Epoch, QueueName, Uid
from baton.queues.fence import StaleOwner
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.commits import OwnerCommits
from baton.queues.kafka.direct_handoffs import DirectHandoffs
from baton.queues.kafka.event_loop import EventLoopThread
from baton.queues.kafka.fetcher import Fetcher
from baton.queues.kafka.group_offsets import GroupOffsets
from baton.queues.kafka.read_position import ReadPosition
from baton.queues.kafka.record import Committed, Record, Token
from baton.queues.kafka.take_up import Found, TakingUp
from baton.queues.protocol import Ownership, PartitionUnavailable, QueueUnreachable
from tests.waiting import HOUR, PATIENCE, eventually, until

# -- Partitions are taken up one by one: one that fails delays the others once, and not for good.

AWAY = QueueUnreachable("it has no leader")
RECORD = Record(group="g", queue="orders", uid=Uid("a"), epoch=Epoch(1), topic_id="t", token=Token(1, 0), first=9)


def fetches_nothing() -> Fetcher:
    raise AssertionError


class Restarted(TakingUp):
    """A pod whose earlier process has read all partitions, some of which cannot be read now."""

    def __init__(self, *away: int) -> None:
        offsets = GroupOffsets(KafkaAddress(("nowhere:9092",)), "shop.orders", "orders")
        commits = OwnerCommits(offsets, QueueName("orders"), Uid("a"), {}, DirectHandoffs())
        super().__init__(EventLoopThread().user(), commits, fetches_nothing, lambda _: None, lambda: None)
        self.begun: list[int] = []
        self.away = away

    async def takes_up(self, *partitions: int) -> set[int]:
        """Partitions that cannot be taken up."""
        found = [one async for answer in self.take_up(dict.fromkeys(partitions, Epoch(1))) for one in answer.items()]
        return {number for number, one in found if one is AWAY}

    async def _begin_together(self, partitions: Mapping[int, Epoch]) -> Mapping[int, ReadPosition]:
        return {}

    async def _begin(self, partition: int, epoch: Epoch) -> ReadPosition:
        self.begun.append(partition)
        if partition in self.away:
            raise AWAY
        return ReadPosition.begun(Committed(0, RECORD), 0.0)


async def test_one_partitions_error_does_not_hold_up_others(monkeypatch: pytest.MonkeyPatch) -> None:
    pod = Restarted()
    problem = PartitionUnavailable("somebody else's transaction is open")

    async def begin(partition: int, epoch: Epoch) -> ReadPosition:
        if partition == 1:
            raise problem
        return ReadPosition.begun(Committed(0, RECORD), 0.0)

    monkeypatch.setattr(pod._commits, "begin", begin)
    monkeypatch.setattr(pod, "_fetching", lambda: SimpleNamespace(begin=lambda offsets: None))
    found = [await TakingUp._begin(pod, number, Epoch(1)) for number in range(3)]
    assert found[1] is problem and all(isinstance(found[number], ReadPosition) for number in (0, 2))


async def test_a_partition_that_cannot_be_taken_up_goes_behind_the_others() -> None:
    pod = Restarted(1, 3)
    assert await pod.takes_up(0, 1, 2, 3, 4) == {1, 2, 3, 4}, "the cluster may be away: it is not asked once for each"
    assert await pod.takes_up(1, 2, 3, 4) == {1, 3, 4}
    assert await pod.takes_up(1, 3, 4) == {1, 3}
    assert pod.begun == [0, 1, 2, 3, 4, 1]
    pod.away = ()
    assert await pod.takes_up(1, 3) == set()


NOTHING: tuple[dict[int, ReadPosition], set[int]] = {}, set()


class Broker:
    """Lets partitions be taken up while it is `open`, and refuses those that the test names."""

    def __init__(self) -> None:
        self.asked: list[Mapping[int, Epoch]] = []
        self.open = threading.Event()
        self.open.set()
        self.refusals: dict[int, Exception] = {}
        self.ended: list[int] = []
        self.told = threading.Event()
        self.loop = EventLoopThread().user()
        commits: Any = None
        self.taking_up = TakingUp(self.loop, commits, fetches_nothing, self.ended.append, self.told.set)
        self.taking_up.take_up = self.begin  # type: ignore[method-assign]

    async def is_open(self) -> bool:
        return self.open.is_set()

    async def begin(self, partitions: Mapping[int, Epoch]) -> AsyncIterator[Mapping[int, Found]]:
        self.asked.append(partitions)
        await eventually(self.is_open)
        yield {number: self.refusals.get(number) or position(epoch) for number, epoch in partitions.items()}

    def asks(self, *partitions: int, epoch: int = 1) -> list[bool]:
        return [self.taking_up.ready(number, Epoch(epoch)) for number in partitions]

    def shut(self) -> None:
        """Close it with partition 0 under way."""
        self.open.clear()
        self.asks(0)
        until(lambda: self.asked)


def position(epoch: Epoch) -> ReadPosition:
    record = Record(group="g", queue="q", uid=Uid("a"), epoch=epoch, topic_id="t", token=Token(1, 0), first=1)
    return ReadPosition.begun(Committed(0, record), 0.0)


@pytest.fixture
def broker() -> Iterator[Broker]:
    made = Broker()
    yield made
    made.open.set()
    made.taking_up.close()
    made.loop.close()


def test_reading_goes_on_during_taking_up_and_later_requests_are_taken_up_together(broker: Broker) -> None:
    broker.shut()
    assert broker.asks(0, 1, 2, 1) == [False] * 4 and not broker.told.is_set()
    assert all(map(broker.taking_up.under_way, (0, 1, 2)))
    broker.open.set()
    until(lambda: broker.asks(0, 1, 2) == [True] * 3)
    assert broker.told.is_set() and not broker.taking_up.under_way(1)
    assert broker.asked == [{0: 1}, {1: 1, 2: 1}]
    assert broker.taking_up.take(1, Epoch(1)).epoch == 1
    assert broker.asks(1) == [False], "it was taken"


def test_a_release_waits_for_a_partition_being_taken_up_and_commits_its_last_record(broker: Broker) -> None:
    broker.shut()
    broker.asks(1)
    with ThreadPoolExecutor() as threads:
        withdrawn = threads.submit(broker.taking_up.withdraw, {0: Epoch(1), 1: Epoch(1)}, HOUR)
        until(lambda: not broker.taking_up.under_way(1))
        broker.open.set()
        taken_up, under_way = withdrawn.result(PATIENCE)
    assert (set(taken_up), under_way) == ({0}, set())
    assert broker.asked == [{0: 1}] and not broker.ended
    assert broker.taking_up.withdraw({0: Epoch(1)}, HOUR) == NOTHING


def test_a_partition_taken_up_after_it_was_given_up_is_not_read(broker: Broker) -> None:
    broker.shut()
    assert broker.taking_up.withdraw({0: Epoch(1)}, 0.0, give_up=True) == ({}, {0})
    broker.open.set()
    until(lambda: broker.ended == [0])
    assert broker.taking_up.withdraw({0: Epoch(1)}, 0.0) == NOTHING


def test_a_partition_still_being_taken_up_is_withdrawn_again(broker: Broker) -> None:
    broker.shut()
    assert broker.taking_up.withdraw({0: Epoch(1)}, 0.0) == ({}, {0})
    broker.open.set()
    taken_up, under_way = broker.taking_up.withdraw({0: Epoch(1)}, HOUR)
    assert (set(taken_up), under_way, broker.ended) == ({0}, set(), [])


def test_a_position_under_another_epoch_is_dropped(broker: Broker) -> None:
    until(lambda: broker.asks(0) == [True])
    assert broker.taking_up.withdraw({0: Epoch(2)}, HOUR) == NOTHING
    assert broker.asks(0, epoch=2) == [False]
    assert broker.taking_up.take(0, Epoch(2)).epoch == 2
    assert broker.taking_up.withdraw({0: Epoch(1)}, HOUR) == NOTHING


def test_an_outage_is_raised_once_and_all_partitions_are_tried_again(broker: Broker) -> None:
    broker.shut()
    broker.refusals = {number: QueueUnreachable("away") for number in (1, 2)}
    broker.asks(1, 2)
    broker.open.set()
    with pytest.raises(QueueUnreachable, match="away"):
        broker.taking_up.take(1, Epoch(1))
    broker.refusals = {}
    assert broker.asks(2) == [False], "it may be over"
    assert [broker.taking_up.take(number, Epoch(1)).epoch for number in (0, 1, 2)] == [1, 1, 1]


def test_a_refusal_is_raised_for_its_partition(broker: Broker) -> None:
    broker.refusals[0] = StaleOwner(0, Uid("a"), Epoch(1), Ownership(Uid("b"), Epoch(2)))
    broker.shut()
    broker.asks(1)
    broker.open.set()
    until(lambda: broker.asks(0, 1) == [True, True])
    with pytest.raises(StaleOwner):
        broker.taking_up.take(0, Epoch(1))
    assert broker.taking_up.take(1, Epoch(1)).epoch == 1


def test_after_close_no_call_waits(broker: Broker) -> None:
    broker.taking_up.close()
    with pytest.raises(QueueUnreachable):
        broker.taking_up.take(0, Epoch(1))
    assert broker.taking_up.withdraw({0: Epoch(1)}, HOUR) == NOTHING and broker.asked == []
