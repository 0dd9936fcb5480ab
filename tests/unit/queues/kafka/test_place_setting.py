"""The owners of a large topic are taken out over several looks; the operator stays in the group until the last is out."""

from types import SimpleNamespace
from typing import Any

import pytest

from baton.model.ids import Epoch, Uid
from baton.queues.kafka import each
from baton.queues.kafka.place_setting import PlaceSetting
from baton.queues.kafka.record import Record
from baton.queues.protocol import Owner
from tests.unit.queues.kafka.slow_coordinator import PARTITIONS, SlowCoordinator


class Guard:
    left = False
    """The group."""

    async def leave(self) -> None:
        self.left = True


def owned(record: Record) -> bool:
    return record.uid is not None


async def test_each_look_takes_some_owners_out_and_the_last_one_leaves_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator, guard = SlowCoordinator(), Guard()
    monkeypatch.setattr(each, "time", SimpleNamespace(monotonic=lambda: coordinator.now))
    fakes: tuple[Any, Any] = coordinator, guard
    setting = PlaceSetting(*fakes)
    setting.shown = dict.fromkeys(range(PARTITIONS), Owner(Uid("a"), Epoch(1)))
    setting.want(True)
    looks = 0
    while not guard.left:
        begun, before = coordinator.now, coordinator.count(owned)
        await setting.begin(coordinator.records.copy())
        looks += 1
        assert coordinator.count(owned) < before
        assert guard.left == (coordinator.count(owned) == 0)
        assert coordinator.now - begun < 5.0, "the operator asks no longer for an answer"
    assert looks > 2
    assert coordinator.most == each.AT_ONCE
