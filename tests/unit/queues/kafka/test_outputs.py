"""Outputs reach their partitions in order, even if a broker is lost."""

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.default_records import DefaultRecordBatch
from confluent_kafka import KafkaError as Code
from hypothesis import given
from hypothesis import strategies as st

from baton.queues.kafka import outputs
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.client import BrokerLost, KafkaClient
from baton.queues.kafka.outputs import MOST_BYTES, PendingOutputs, TransactionOutputs, encoded, partition_of, shared_out
from baton.queues.kafka.read_position import FinishedOffsets
from baton.queues.kafka.record import Token
from baton.queues.output import EACH, MOST_IN_TRANSACTION, Output

# -- What goes into the transaction of a commit.


def out(value: str) -> Output:
    return Output("out", value.encode())


def test_a_commit_has_the_outputs_before_it_in_order_of_completion() -> None:
    pending = PendingOutputs()
    pending.add([3], [out("three")])
    pending.add([1], [out("one"), out("again")])
    pending.add([5], [out("five")])
    assert pending.due(1) == [] and pending.due(2) == [out("one"), out("again")]
    assert pending.due(5) == [out("three"), out("one"), out("again")]
    assert (len(pending), pending.weight) == (3, 17 + 4 * EACH)
    pending.committed(5)
    assert pending.due(9) == [out("five")] and (len(pending), pending.weight) == (1, 4 + EACH)


def test_a_commit_never_splits_entries_finished_together() -> None:
    pending = PendingOutputs()
    pending.add([4, 6, 9], [out("all")])
    pending.add([2, 5], [out("both")])
    assert [pending.reached(offset) for offset in range(1, 12)] == [1, 2, 2, 2, 2, 2, 2, 2, 2, 10, 11]
    pending.committed(10)
    assert pending.reached(5) == 5
    otherwise = PendingOutputs()
    for group in ([2, 5], [4, 9]):
        otherwise.add(group, [])
    assert otherwise.reached(8) == 2, "in whichever order they were finished"


HALF = [Output("out", b"." * (MOST_IN_TRANSACTION // 2 - EACH))]
"""Two of these fit in one transaction."""


def test_a_commit_stays_within_a_transaction_and_between_blocks() -> None:
    pending = PendingOutputs()
    for block in ([5], [0], [3], [1], [2], [4]):
        pending.add(block, HALF)
    assert [pending.reached(offset) for offset in (7, 6, 3, 2, 1)] == [2, 2, 2, 2, 1]
    pending.committed(2)
    assert [pending.reached(offset) for offset in (7, 4)] == [4, 4]
    pending.committed(4)
    assert pending.reached(7) == 7


def test_entries_finished_together_stay_together_despite_large_outputs() -> None:
    pending = PendingOutputs()
    for block in ([0, 2], [1, 4], [3, 5], [6]):
        pending.add(block, HALF)
    assert [pending.reached(offset) for offset in (7, 6, 5)] == [6, 6, 0]


@given(st.permutations(range(6)), st.lists(st.integers(0, 5), max_size=4))
def test_each_output_is_committed_once_with_all_its_entries(order: list[int], sizes: list[int]) -> None:
    """Entries are finished in groups, in any order; a commit comes after each."""
    groups: list[list[int]] = []
    left = list(order)
    for size in [*sizes, 6]:
        if left:
            group, left = sorted(left[: max(1, size)]), left[max(1, size) :]
            groups.append(group)
    progress, pending = FinishedOffsets(0), PendingOutputs()
    progress.handed_out(range(6))
    sent: list[Output] = []
    done: list[list[int]] = []
    for group in groups:
        pending.add(group, [out(str(group))])
        progress.finish(group)
        done.append(group)
        offset = pending.reached(progress.offset)
        sent += pending.due(offset)
        pending.committed(offset)
        for one in done:
            inside = [entry < offset for entry in one]
            assert all(inside) or not any(inside)
            assert (out(str(one)) in sent) == all(inside)
    assert sorted(output.value or b"" for output in sent) == sorted(str(group).encode() for group in groups)


# -- How outputs become batches of records.


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    ],
)
def test_a_key_has_the_partition_that_java_clients_choose(key: bytes, hashed: int) -> None:
    """The hashes are those of Kafka's own test (UtilsTest.testMurmur2)."""
    assert partition_of(Output("out", b"v", key), 12, source=3) == (hashed & 0x7FFFFFFF) % 12


def test_keyless_outputs_follow_their_source_or_named_partition() -> None:
    assert [partition_of(Output("out", b"v"), 4, source) for source in range(6)] == [0, 1, 2, 3, 0, 1]
    assert partition_of(Output("out", b"v", b"key", partition=3), 4, source=0) == 3


def test_batches_keep_the_order_and_the_brokers_size_limit() -> None:
    outputs = [Output("out", bytes([number]) * (MOST_BYTES // 3), partition=number % 2) for number in range(8)]
    large = Output("other", b"x" * 2 * MOST_BYTES)
    found = shared_out([*outputs, large], {"out": 2, "other": 1}, source=0)
    assert found.keys() == {("out", 0), ("out", 1), ("other", 0)}
    assert [output for batch in found["out", 0] for output in batch] == outputs[::2]
    assert [len(batch) for batch in found["out", 1]] == [2, 2]
    assert found["other", 0] == [[large]]
    assert all(len(encoded(batch, Token(1, 1), 0)) <= MOST_BYTES for batch in found["out", 0])


def test_many_small_outputs_with_headers_fit_as_well() -> None:
    outputs = [Output("out", b"", b"", {str(number): b"" for number in range(40)}) for _ in range(20_000)]
    for batch in shared_out(outputs, {"out": 1}, source=0)["out", 0]:
        assert len(encoded(batch, Token(1, 1), 0)) <= MOST_BYTES


def test_a_batch_has_its_producer_and_sequence() -> None:
    batch = DefaultRecordBatch(encoded([Output("out", b"v", b"k", {"h": b"1"}), Output("out", None)], Token(77, 5), 2**31 + 4))
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.is_transactional) == (77, 5, 4, True)
    assert batch.validate_crc()
    assert [(record.key, record.value, record.headers) for record in batch] == [(b"k", b"v", [("h", b"1")]), (None, None, [])]


class Brokers(KafkaClient):
    """The first broker has ended, and the second leads since."""

    def __init__(self) -> None:
        super().__init__(KafkaAddress(("nowhere:9092",)), "shop.orders", "baton")
        self.described = 0
        self.asked: list[int] = []

    async def topic(self, *_: object) -> Any:
        self.described += 1
        return SimpleNamespace(partitions=1, leaders={0: self.described})

    async def to_transactions(self, transactional_id: str, request: Any) -> Any:
        return SimpleNamespace(errors=[("paid", [(0, Code.NO_ERROR)])])

    async def to_broker(self, node: int, request: Any, lane: int = 0) -> Any:
        assert isinstance(request, ProduceRequest)
        self.asked.append(node)
        if node == 1:
            raise BrokerLost("its broker 1 does not answer")
        return SimpleNamespace(topics=[("paid", [(0, Code.NO_ERROR)])])


async def test_a_lost_leader_is_looked_up_again(monkeypatch: Any) -> None:
    brokers = Brokers()
    monkeypatch.setattr(outputs, "describe", brokers.topic)
    await TransactionOutputs(brokers).send("baton.g/orders/0", Token(1, 0), 0, [Output("paid", b"1")])
    assert brokers.asked == [1, 2]
