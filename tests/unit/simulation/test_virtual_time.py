"""Virtual time passes when all tasks sleep."""

import asyncio
import math
from types import SimpleNamespace
from typing import Any

import pytest

from baton.engine import Grant
from baton.engine.observation import ObservedQueue
from baton.model.ids import QueueName
from baton.simulation.virtual_time import NothingToWaitForError, run
from tests.simulation.seeds.checks import Moves
from tests.unit.engine.group import Group


def test_an_hour_passes_at_once() -> None:
    async def sleeps() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    assert run(sleeps()) == 3600


def test_timers_fire_in_order_and_on_time() -> None:
    async def timed() -> list[tuple[str, float]]:
        loop = asyncio.get_running_loop()
        fired: list[tuple[str, float]] = []

        async def one(name: str, after: float) -> None:
            await asyncio.sleep(after)
            fired.append((name, loop.time()))

        await asyncio.gather(one("late", 0.3), one("early", 0.1), one("also early", 0.1))
        return fired

    assert run(timed()) == [("early", 0.1), ("also early", 0.1), ("late", 0.3)]


def test_a_timeout_ends_in_virtual_time() -> None:
    async def waits() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run(waits()) == 10


def test_work_for_a_thread_runs_at_once_and_its_error_is_raised() -> None:
    assert run(asyncio.to_thread(lambda: 42)) == 42
    with pytest.raises(ValueError, match="invalid literal"):
        run(asyncio.to_thread(int, "no"))


def test_a_deadlock_is_an_error_and_not_a_hang() -> None:
    async def stuck() -> None:
        await asyncio.Event().wait()

    with pytest.raises(NothingToWaitForError):
        run(stuck())


def test_no_timer_fires_early_by_the_smallest_fraction() -> None:
    async def sets_it_for_the_rest() -> list[float]:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(81.05)
        fired: list[float] = []
        done = asyncio.Event()
        due = math.nextafter(loop.time(), math.inf)

        def fire() -> None:
            fired.append(loop.time())
            done.set()

        loop.call_later(due - loop.time(), fire)
        for _ in range(10):  # work goes on, so that time stands still
            await asyncio.sleep(0)
        assert not fired
        await done.wait()
        return [at - due for at in fired]

    assert run(sets_it_for_the_rest()) == [0.0]


# -- The check of a rebalance's moves against the lower bound.


ORDERS, PAY = QueueName("orders"), QueueName("pay")


def counted(group: Group) -> Moves:
    """Return the check, which sees each step of the group from now on."""
    tenant: Any = SimpleNamespace(spec={"assignors": ["solace"]}, session_timeout=0.0)
    moves, step = Moves(tenant), group.step

    def checked(*arguments: Any, **named: Any) -> Any:
        made = step(*arguments, **named)
        moves.written(made)
        return made

    group.step = checked  # type: ignore[method-assign]
    return moves


def test_moves_that_filled_a_slot_are_begun_before_the_plan_that_ends_the_imbalance() -> None:
    """d takes the slot of c, and the plan after it redirects partition 5, which the queue had granted to d by then."""
    group = Group(7)
    group.queues[PAY] = ObservedQueue(5)
    moves = counted(group)
    group.join("a").join("b", "c", subscribed=frozenset({ORDERS})).settle()
    group.settle(60)
    assert (group.owners("orders"), group.owners("pay")) == ("bcbcbcb", "aaaaa")
    took = group.leave("c").join("d").step(70)
    granted = frozenset(group.carry_out(effect) for effect in took.effects if isinstance(effect, Grant))
    assert {outcome.partition.number for outcome in granted} == {1, 3, 5}
    group.step(80)
    group.step(81, outcomes=granted)
    group.settle(200)
    group.settle(300)
    assert group.state.rebalance is None
    assert (moves.least, group.state.totals.lower_bound) == (6, 5)
