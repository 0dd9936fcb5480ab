"""Transactional ids, and late commits that reach the broker after their transaction has ended."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.protocol.transaction import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)
from confluent_kafka import KafkaError as Code

from baton.model.ids import Epoch, Uid
from baton.queues.kafka import fence
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.announcements import announcing_group
from baton.queues.kafka.client import KafkaClient
from baton.queues.kafka.fence import GRANTED_WITHIN, PartitionTransactions, Unsettled, granted_within, transactional_id
from baton.queues.kafka.record import Committed, Record, Token

# -- Transactional ids are distinct; and an operator has time to write a grant.


@pytest.mark.parametrize("other", [("orders.eu", "pay", 1), ("orders", "eu.pay.1", 1), ("orders", "eu.pay", 11)])
def test_transactional_ids_stay_distinct_with_dots_in_names(other: tuple[str, str, int]) -> None:
    assert transactional_id("orders", "eu.pay", 1) != transactional_id(*other)


def test_an_acl_on_a_groups_prefix_covers_no_other_group() -> None:
    assert transactional_id("orders", "pay", 0).startswith("baton.orders/")
    assert not transactional_id("orders.eu", "pay", 0).startswith("baton.orders/")


def test_no_queues_group_has_the_id_of_an_announcing_group() -> None:
    assert announcing_group("shop.orders") != "shop.orders.announcements"


def test_at_a_slow_broker_a_grant_may_take_two_answers() -> None:
    assert granted_within(0.005) == GRANTED_WITHIN
    assert granted_within(1.5) == 3.0


RECORD = Record(group="g", queue="orders", uid=Uid("a"), epoch=Epoch(1), topic_id="t", token=Token(7, 0), first=1)
SOMEBODY_ELSE = 8


class Coordinator(KafkaClient):
    """The coordinator of partition 0 and of its transactional id, in brokers that do not check whether a commit's transaction is
    open."""

    def __init__(self) -> None:
        super().__init__(KafkaAddress(("nowhere:9092",)), "shop.orders", "baton")
        self.committed = 5, RECORD.to_text()
        self.epoch = 0
        self.open = False
        self.under_way: dict[int, tuple[int, str]] = {}
        """Offset and text of each commit under way, by producer."""

    async def to_transactions(self, transactional_id: str, request: Any) -> Any:
        match request:
            case InitProducerIdRequest():
                self._over(commit=False)
                self.epoch += 1
                return SimpleNamespace(error_code=0, producer_id=7, producer_epoch=self.epoch)
            case AddOffsetsToTxnRequest():
                self.open = True
            case EndTxnRequest():
                self._over(commit=request._transaction_result)
            case _:
                raise AssertionError(request)
        return SimpleNamespace(error_code=0)

    async def to_group(self, request: Any, *, transactional_id: str = "") -> Any:
        if isinstance(request, TxnOffsetCommitRequest):
            ((_, ((_, offset, text),)),) = request._topics
            self.under_way[request._producer_id] = offset, text
            return SimpleNamespace(errors=[("orders", [(0, 0)])])
        code = Code.UNSTABLE_OFFSET_COMMIT if self.under_way and not request._beside_pending else Code.NO_ERROR
        offset, text = self.committed
        return SimpleNamespace(error_code=0, topics=[("orders", [(0, offset, 0, text, code, {})], {})])

    def _over(self, *, commit: bool) -> None:
        """End what its producer has under way, in this transaction or in none."""
        if self.open:
            found = self.under_way.pop(7, None)
            self.committed = found if found is not None and commit else self.committed
        self.open = False


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    for name in ("PASSES_WITHIN", "ENDS_WITHIN"):
        monkeypatch.setattr(fence, name, 0.0)
    monkeypatch.setattr(PartitionTransactions.all_stable, "__defaults__", (0.0,))
    return Coordinator()


LATE = 3, replace(RECORD, reader="p-1").to_text()


async def test_a_commit_after_its_transaction_is_aborted_with_the_next(coordinator: Coordinator) -> None:
    transactions = PartitionTransactions(coordinator, "orders")
    coordinator.under_way[7] = LATE
    assert await transactions.committed((0,)) == {0: Committed(5, replace(RECORD, token=Token(7, 1)))}
    assert (transactions.unsettled, coordinator.under_way) == (frozenset(), {})
    coordinator.under_way[7] = LATE
    assert (await transactions.renewed(0)).offset == 5


async def test_a_foreign_late_commit_is_left_alone(coordinator: Coordinator) -> None:
    transactions = PartitionTransactions(coordinator, "orders")
    coordinator.under_way[SOMEBODY_ELSE] = LATE
    with pytest.raises(Unsettled):
        await transactions.renewed(0)
    assert await transactions.committed((0,)) == {0: Committed(5, RECORD)}
    assert (set(transactions.unsettled), set(coordinator.under_way)) == ({0}, {SOMEBODY_ELSE})
    assert not coordinator.open, "nothing is left for the broker to abort"
