"""`make bench-engine` works: its figures in process, at its smallest size. What they are is not asked here."""

import pytest

from tests.bench import engine


@pytest.mark.parametrize("work", [engine.at_rest, engine.in_a_rebalance, engine.memory])
def test_the_figures_in_process_can_be_had(work: engine.Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "ENOUGH", 0.0)
    found = work(*engine.SIZES[0])
    assert found and all(value >= 0 for value in found.values())
