"""What-if: one plan at a time, and none that nobody waits for."""

import asyncio
import threading
from typing import Any

import pytest

from baton.console import what_if
from baton.console.guard import RefusedRequestError
from baton.console.what_if import MOST_WAITING, Rehearsals
from baton.engine import GroupState
from tests.waiting import until


async def test_a_plan_that_is_given_up_before_its_turn_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    may_end = threading.Event()

    async def compare(_group: str, _state: GroupState, _seen: Any, wanted: int, _now: float) -> int:
        made.append(wanted)
        may_end.wait()
        return wanted

    monkeypatch.setattr(what_if, "compare", compare)
    monkeypatch.setattr(what_if, "with_pods", lambda _state, _seen, pods: pods)
    monkeypatch.setattr(what_if, "pods_of", lambda _seen: 1)
    monkeypatch.setattr(what_if, "answer", lambda of, _now, _pods: {"pods": of})
    rehearsals, state, seen = Rehearsals(), GroupState.new("shop/orders"), object()

    def ask(pods: int) -> asyncio.Task[dict[str, Any]]:
        return asyncio.create_task(rehearsals.rehearse("shop/orders", state, seen, pods, 0.0))  # type: ignore[arg-type]

    first = ask(1)
    await asyncio.to_thread(until, lambda: made == [1])
    others = [ask(pods) for pods in range(2, MOST_WAITING + 1)]
    await asyncio.sleep(0)
    with pytest.raises(RefusedRequestError) as refused:
        await ask(99)
    assert refused.value.status == 503
    *given_up, last = others
    for one in given_up:
        one.cancel()
    await asyncio.wait(given_up)
    may_end.set()
    assert [await first, await last] == [{"pods": 1}, {"pods": MOST_WAITING}]
    assert made == [1, MOST_WAITING]
