"""Partitions that are taken up one by one: one that cannot be keeps the others from that once, and not for good."""

from collections.abc import Mapping
from types import SimpleNamespace

import pytest

from baton.model.ids import Epoch, QueueName, Uid
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.commits import OwnerCommits
from baton.queues.kafka.direct_handoffs import DirectHandoffs
from baton.queues.kafka.fetcher import Fetcher
from baton.queues.kafka.group_offsets import GroupOffsets
from baton.queues.kafka.read_position import ReadPosition
from baton.queues.kafka.record import Committed, Record, Token
from baton.queues.kafka.take_up import TakeUpOrder
from baton.queues.protocol import PartitionUnavailable, QueueUnreachable

AWAY = QueueUnreachable("it has no leader")
RECORD = Record(group="g", queue="orders", uid=Uid("a"), epoch=Epoch(1), topic_id="t", token=Token(1, 0), first=9)


def nobody_fetches() -> Fetcher:
    raise AssertionError


class Restarted(TakeUpOrder):
    """An earlier process has read all its partitions, and some of them cannot be read now."""

    def __init__(self, *away: int) -> None:
        offsets = GroupOffsets(KafkaAddress(("nowhere:9092",)), "shop.orders", "orders")
        super().__init__(OwnerCommits(offsets, QueueName("orders"), Uid("a"), {}, DirectHandoffs()), nobody_fetches)
        self.begun: list[int] = []
        self.away = away

    async def takes_up(self, *partitions: int) -> set[int]:
        """Those that it cannot."""
        found = [one async for answer in self.take_up(dict.fromkeys(partitions, Epoch(1))) for one in answer.items()]
        return {number for number, one in found if one is AWAY}

    async def _begin_together(self, partitions: Mapping[int, Epoch]) -> Mapping[int, ReadPosition]:
        return {}

    async def _begin(self, partition: int, epoch: Epoch) -> ReadPosition:
        self.begun.append(partition)
        if partition in self.away:
            raise AWAY
        return ReadPosition.begun(Committed(0, RECORD), 0.0)


async def test_what_is_one_partitions_trouble_keeps_no_other_from_being_taken_up(monkeypatch: pytest.MonkeyPatch) -> None:
    pod = Restarted()
    problem = PartitionUnavailable("somebody else's transaction is open")

    async def begin(partition: int, epoch: Epoch) -> ReadPosition:
        if partition == 1:
            raise problem
        return ReadPosition.begun(Committed(0, RECORD), 0.0)

    monkeypatch.setattr(pod._commits, "begin", begin)
    monkeypatch.setattr(pod, "_fetching", lambda: SimpleNamespace(begin=lambda offsets: None))
    found = [await TakeUpOrder._begin(pod, number, Epoch(1)) for number in range(3)]
    assert found[1] is problem and all(isinstance(found[number], ReadPosition) for number in (0, 2))


async def test_what_cannot_be_taken_up_goes_behind_the_others() -> None:
    pod = Restarted(1, 3)
    assert await pod.takes_up(0, 1, 2, 3, 4) == {1, 2, 3, 4}, "the cluster may be away: it is not asked once for each"
    assert await pod.takes_up(1, 2, 3, 4) == {1, 3, 4}
    assert await pod.takes_up(1, 3, 4) == {1, 3}
    assert pod.begun == [0, 1, 2, 3, 4, 1]
    pod.away = ()
    assert await pod.takes_up(1, 3) == set()
