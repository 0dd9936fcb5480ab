"""The ledger's deadlines of revoked partitions."""

import json
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from baton.consumer import ending
from baton.consumer.api_server import ApiConnection, KubernetesLease, ServerClock
from baton.consumer.ending import LedgerDeadlines
from baton.dev.server import DevServer
from baton.engine.ledger import dump
from baton.engine.state import GroupState, Move
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.model.names import LEDGER_GROUP_KEY
from tests.waiting import PATIENCE

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


def test_the_ledger_is_read_once_for_all_partitions_until_it_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def loads(text: str) -> object:
        read.append(text)
        return json.loads(text)

    monkeypatch.setattr(ending, "json", SimpleNamespace(loads=loads))
    (tmp_path / LEDGER_GROUP_KEY).write_text(dump(state(1000.0, 3.0))[LEDGER_GROUP_KEY])
    ledger = LedgerDeadlines(tmp_path, lambda: 998.0)
    assert {ledger.left(Partition(ORDERS, number), TWO) for number in (2, 3)} == {2.0}
    assert len(read) == 1
    (tmp_path / LEDGER_GROUP_KEY).write_text(dump(state(1000.5, 3.0))[LEDGER_GROUP_KEY])
    assert {ledger.left(Partition(ORDERS, number), TWO) for number in (2, 3)} == {2.5}
    assert len(read) == 2


@pytest.mark.parametrize("hours", [-5, 0, 5])
def test_a_pod_goes_by_the_api_servers_clock_whatever_its_own_says(tmp_path: Path, hours: int) -> None:
    """On a node with a wrong clock, or after the machine slept, either no time was left or all of it until the end."""
    server = DevServer("dev", "orders", lambda: None, lambda: time.time() + 3600 * hours)
    server.start()
    api = ApiConnection.from_environment({"BATON_API_SERVER": server.url, "BATON_API_TOKEN": server.token})
    assert KubernetesLease(api, "dev", "baton-a").read() is None
    now = server.now()
    server.close()
    (tmp_path / LEDGER_GROUP_KEY).write_text(dump(state(now + 300.0, 600.0))[LEDGER_GROUP_KEY])
    left = LedgerDeadlines(tmp_path, api.clock.now).left(Partition(ORDERS, 2), TWO)
    assert left is not None
    assert 300 - 1 - PATIENCE < left < 300 + 1


def test_an_answer_without_a_time_changes_nothing() -> None:
    clock = ServerClock()
    before = clock.now()
    for date in (None, "", "yesterday", "Sat, 21 Nov 999999999 09:48:00 GMT"):
        clock.follow(date, time.monotonic())
    assert before <= clock.now() < before + PATIENCE
