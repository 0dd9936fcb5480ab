"""Full collections do not take ever longer."""

import gc
from collections.abc import Iterator

import pytest

from baton.controller import collector as collector_module
from baton.controller.collector import Collector


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    monkeypatch.setattr(collector_module, "LONG", 0.0)
    gc.unfreeze()
    one = Collector(lambda: False)
    one.begin()
    yield one
    one.end()
    gc.unfreeze()


class Ring:
    """Goes only where it is collected."""

    def __init__(self) -> None:
        self.me = self


def test_what_has_survived_a_long_collection_is_left_out_of_the_next(collector: Collector) -> None:
    kept = [[number] for number in range(1000)]
    gc.collect()
    assert gc.get_freeze_count() > len(kept)
    assert not any(one is kept for one in gc.get_objects())


def test_what_became_garbage_since_is_found_when_all_is_looked_at(collector: Collector) -> None:
    rings = [Ring() for _ in range(10)]
    gc.collect()
    del rings
    gc.collect()
    collector.look_at_all()
    gc.unfreeze()
    assert not any(type(one) is Ring for one in gc.get_objects())


def test_a_short_collection_leaves_everything_as_it_was(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector_module, "LONG", 1000.0)
    gc.collect()
    assert gc.get_freeze_count() == 0


def test_a_leader_puts_off_what_holds_up_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    leads = True
    one = Collector(lambda: leads)

    def due() -> bool:
        return one.due

    gc.freeze()
    try:
        monkeypatch.setattr(collector_module, "MANY", gc.get_freeze_count() * 3 // 4)
        assert not due()
        leads = False
        assert due()
        leads = True
        monkeypatch.setattr(collector_module, "MANY", gc.get_freeze_count() // 4)
        assert due(), "but not for good"
    finally:
        gc.unfreeze()
