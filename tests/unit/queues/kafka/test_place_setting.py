"""The owners of a large topic are taken out over several looks; the operator stays in the group until the last is out."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from baton.model.ids import Epoch, Uid
from baton.queues.kafka import each
from baton.queues.kafka.place_setting import PlaceSetting
from baton.queues.kafka.record import Committed, Record, Token
from baton.queues.protocol import Owner

PARTITIONS = 4 * each.AT_ONCE
OWNED = Record(group="g", queue="orders", uid=Uid("a"), epoch=Epoch(1), topic_id="t", token=Token(1, 1), first=PARTITIONS)


class Coordinator:
    """Answers one request after the other, each in a hundredth of a second, and has the records of all partitions."""

    def __init__(self) -> None:
        self.records = dict.fromkeys(range(PARTITIONS), Committed(5, OWNED))
        self.under_way = self.most = 0
        self.now = 0.0
        self._one = asyncio.Lock()
        self.left = False
        """The operator has left the group."""

    async def renewed(self, partition: int, change: Callable[[Committed], Record | None]) -> Committed:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        for _ in range(4):
            async with self._one:
                await asyncio.sleep(0)
                self.now += 0.01
        self.records[partition] = self.records[partition]._replace(record=change(self.records[partition]))
        self.under_way -= 1
        return self.records[partition]

    async def close(self) -> None:
        self.left = True

    @property
    def owned(self) -> int:
        return sum(one.record is not None and one.record.uid is not None for one in self.records.values())


async def test_each_look_takes_some_owners_out_and_the_last_one_leaves_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator: Any = Coordinator()
    monkeypatch.setattr(each, "time", SimpleNamespace(monotonic=lambda: coordinator.now))
    setting = PlaceSetting(coordinator, coordinator)
    setting.shown = dict.fromkeys(range(PARTITIONS), Owner(Uid("a"), Epoch(1)))
    setting.want(True)
    looks = 0
    while not coordinator.left:
        begun, owned = coordinator.now, coordinator.owned
        await setting.begin(coordinator.records.copy())
        looks += 1
        assert coordinator.owned < owned
        assert coordinator.left == (coordinator.owned == 0)
        assert coordinator.now - begun < 5.0, "the operator asks no longer for an answer"
    assert looks > 2
    assert coordinator.most == each.AT_ONCE
