"""How long a partition that is called back may be finished with, as the ledger says."""

from pathlib import Path

import pytest

from baton.consumer.deadlines import LedgerDeadlines
from baton.engine.ledger import dump
from baton.engine.state import GroupState, Move
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.model.names import LEDGER_GROUP_KEY

ORDERS = QueueName("orders")
TWO = Epoch(2)


def state(deadline: float, length: float) -> GroupState:
    move = Move(MemberId("b"), Uid("uid-b"), Epoch(3), MemberId("a"), deadline=deadline, length=length)
    return GroupState("shop/orders", moves={Partition(ORDERS, number): move for number in (2, 3)})


def test_the_operators_own_word_is_read(tmp_path: Path) -> None:
    (tmp_path / LEDGER_GROUP_KEY).write_text(dump(state(1000.0, 3.0))[LEDGER_GROUP_KEY])
    left = LedgerDeadlines(tmp_path, lambda: 998.0).left
    assert left(Partition(ORDERS, 2), TWO) == left(Partition(ORDERS, 3), TWO) == 2.0
    assert left(Partition(ORDERS, 1), TWO) is None
    assert left(Partition(QueueName("parcels"), 2), TWO) is None
    assert left(Partition(ORDERS, 2), Epoch(3)) is None, "it is what this owner was given by"


@pytest.mark.parametrize(("now", "left"), [(0.0, 3.0), (2000.0, 0.0)])
def test_a_clock_that_is_wrong_gives_no_more_than_there_was_in_all_and_no_less_than_nothing(
    tmp_path: Path, now: float, left: float
) -> None:
    (tmp_path / LEDGER_GROUP_KEY).write_text(dump(state(1000.0, 3.0))[LEDGER_GROUP_KEY])
    assert LedgerDeadlines(tmp_path, lambda: now).left(Partition(ORDERS, 2), TWO) == left


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"moves": 1}', '{"moves": [1]}', '{"moves": [{"to": {"b": {"orders": "2@"}}}]}', "[" * 100_000]
)
def test_what_does_not_read_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / LEDGER_GROUP_KEY).write_text(text)
    assert LedgerDeadlines(tmp_path).left(Partition(ORDERS, 2), TWO) is None
    assert LedgerDeadlines(tmp_path / "nowhere").left(Partition(ORDERS, 2), TWO) is None
