"""The check of a rebalance's moves against the least possible."""

from types import SimpleNamespace
from typing import Any

from baton.engine import Grant
from baton.engine.observation import ObservedQueue
from baton.model.ids import QueueName
from tests.simulation.seeds.checks import Moves
from tests.unit.engine.group import Group

ORDERS, PAY = QueueName("orders"), QueueName("pay")


def counted(group: Group) -> Moves:
    """The check, which sees each step of the group from now on."""
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
