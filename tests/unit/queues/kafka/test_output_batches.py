"""How outputs become batches of records."""

import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from baton.queues.kafka.outputs import MOST_BYTES, encoded, partition_of, shared_out
from baton.queues.kafka.record import Token
from baton.queues.output import Output


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    ],
)
def test_a_key_has_the_partition_that_clients_in_java_give_it(key: bytes, hashed: int) -> None:
    """The hashes are those of Kafka's own test (UtilsTest.testMurmur2)."""
    assert partition_of(Output("out", b"v", key), 12, source=3) == (hashed & 0x7FFFFFFF) % 12


def test_without_a_key_all_that_comes_of_one_partition_goes_to_one_and_a_partition_that_is_named_is_taken() -> None:
    assert [partition_of(Output("out", b"v"), 4, source) for source in range(6)] == [0, 1, 2, 3, 0, 1]
    assert partition_of(Output("out", b"v", b"key", partition=3), 4, source=0) == 3


def test_outputs_keep_their_order_in_each_partition_and_a_batch_is_no_larger_than_brokers_take() -> None:
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


def test_a_batch_says_whose_it_is_and_where_in_the_sequence() -> None:
    batch = DefaultRecordBatch(encoded([Output("out", b"v", b"k", {"h": b"1"}), Output("out", None)], Token(77, 5), 2**31 + 4))
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.is_transactional) == (77, 5, 4, True)
    assert batch.validate_crc()
    assert [(record.key, record.value, record.headers) for record in batch] == [(b"k", b"v", [("h", b"1")]), (None, None, [])]
