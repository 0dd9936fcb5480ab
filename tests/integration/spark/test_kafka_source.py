"""The source over topics of a real Kafka, on a real Spark: rows, failures, data loss, and the group's offsets."""

import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourceType
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from baton.queues.kafka.ranges import KafkaRanges
from tests.integration.kafka.test_security import Acls
from tests.integration.spark.kafka_world import KafkaWorld
from tests.integration.spark.world import numbers, read_twice_although_an_executor_is_killed, wait_for
from tests.kafka_broker import KafkaBroker
from tests.kafka_broker.jars import USERS
from tests.waiting import PATIENCE


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker({"log.cleaner.backoff.ms": "50", "log.retention.ms": "-1"}) as running:  # messages have old timestamps
        yield running


@pytest.fixture
def orders(spark: SparkSession, broker: KafkaBroker, tmp_path: Path) -> Iterator[KafkaWorld]:
    """Four partitions, owned by two executors in turn."""
    made = KafkaWorld(spark, broker, tmp_path / "orders", 4)
    made.share_out(4)
    yield made
    for query in spark.streams.active:
        query.stop()
    made.stop()


def test_all_rows_come_once_in_order_and_kafkas_own_command_shows_no_lag(orders: KafkaWorld) -> None:
    for nth, codec in enumerate(("gzip", "lz4", "snappy", "zstd")):
        orders.send(*numbers(100, 100 * nth), codec=codec)
    query = orders.start(maxRowsPerTrigger=100)
    wait_for(lambda: len(orders.rows) >= 400, "all rows came")
    orders.send(*numbers(100, 400))
    wait_for(lambda: len(orders.rows) >= 500, "the new rows came")
    wait_for(orders.committed, "all is committed")
    assert orders.values() == numbers(500)
    for partition in range(4):
        mine = [row for row in orders.rows if row.partition == partition]
        assert [row.number for row in mine] == list(range(125))
        assert [row.value for row in mine] == numbers(500)[partition::4]
    assert not any(row.redelivered for row in orders.rows)
    assert {row.epoch for row in orders.rows} == {1}
    assert orders.statistics.ranges_lent == 0
    assert max(int(one.numInputRows) for one in query.recentProgress) <= 100
    assert orders.described() == dict.fromkeys(range(4), (125, 125, 0))


def test_columns_hold_all_of_a_message_and_transaction_markers_are_no_rows(
    orders: KafkaWorld, spark: SparkSession, tmp_path: Path
) -> None:
    producer = Producer({"bootstrap.servers": orders.broker.servers, "transactional.id": orders.topic})
    producer.init_transactions(PATIENCE)
    headers: list[tuple[str, str | bytes | None]] = [("a", b"1"), ("a", b"2"), ("none", None)]
    for value in ("given up", "kept"):
        producer.begin_transaction()
        producer.produce(orders.topic, value, "k", 0, timestamp=1_700_000_000_123, headers=headers)
        if value == "kept":
            producer.produce(orders.topic, None, None, 0)
            producer.commit_transaction(PATIENCE)
        else:
            producer.flush(PATIENCE)
            producer.abort_transaction(PATIENCE)
    orders.fleet_here()
    rows = orders.load().drop("queue", "epoch", "redelivered").withColumn("at", F.unix_millis("timestamp")).drop("timestamp")
    writer = rows.writeStream.format("parquet").option("path", str(tmp_path / "table")).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(orders.checkpoint)).start()
    assert query.awaitTermination(240)
    kept, tombstone = sorted(spark.read.parquet(str(tmp_path / "table")).collect(), key=lambda row: row.offset)
    assert (kept.key, kept.value, kept.headers, kept.at) == (b"k", b"kept", {"a": b"2", "none": None}, 1_700_000_000_123)
    assert (kept.partition, kept.offset) == (0, 2)
    assert (tombstone.key, tombstone.value, tombstone.headers) == (None, None, {})
    wait_for(orders.committed, "the group stands behind the last mark")


def test_a_failed_batch_is_read_again_unchanged_after_a_restart(orders: KafkaWorld) -> None:
    orders.send(*numbers(200))
    failed: list[list[tuple[int, int]]] = []

    def fail(rows: DataFrame, batch: int) -> None:
        orders.keep(rows, batch)
        if batch == 2:
            failed.append(sorted((row.partition, row.number) for row in orders.rows if row.batch == 2))
            raise RuntimeError("as asked")

    query = orders.start(fail, maxRowsPerTrigger=50)
    with pytest.raises(StreamingQueryException, match="as asked"):
        query.awaitTermination(240)
    orders.rows.clear()
    orders.send(*numbers(40, 200))
    orders.query_here(maxRowsPerTrigger=200)
    wait_for(lambda: len(orders.rows) >= 190, "the rest came")
    wait_for(orders.committed, "all is committed")
    assert len(orders.rows) == 190
    again = [row for row in orders.rows if row.batch == 2]
    assert sorted((row.partition, row.number) for row in again) == failed[0]
    assert all(row.redelivered for row in again)
    assert orders.values() == numbers(240)[50:]


def test_a_killed_executors_range_is_read_by_another_with_the_same_rows(orders: KafkaWorld) -> None:
    read_twice_although_an_executor_is_killed(orders)


def test_a_query_ends_when_a_later_one_reads_the_group(orders: KafkaWorld) -> None:
    query = orders.start()
    orders.send(*numbers(10))
    wait_for(lambda: len(orders.rows) >= 10, "the rows came")
    other = KafkaRanges(f"kafka://{orders.broker.servers}/?group={orders.group}", f"shop/{orders.topic}", "shop/group")
    try:
        later = other.begin()
    finally:
        other.close()
    orders.send(*numbers(10, 10))
    with pytest.raises(StreamingQueryException, match=rf"a later query \(number {later}\) reads this group's queues"):
        query.awaitTermination(240)


def test_a_query_fails_if_its_queue_changes_topic_and_a_new_checkpoint_reads_it(orders: KafkaWorld) -> None:
    orders.send(*numbers(40))
    query = orders.start()
    wait_for(lambda: len(orders.rows) >= 40, "the rows came")
    wait_for(orders.committed, "all is committed")
    orders.replace_queue()
    with pytest.raises(StreamingQueryException, match="Use a new checkpoint"):
        query.awaitTermination(240)
    orders.send(*numbers(40, 40))
    orders.rows.clear()
    with pytest.raises(StreamingQueryException, match=r"positions in another topic of queue .* Use a new checkpoint"):
        orders.query_here().awaitTermination(240)
    orders.checkpoint = orders.folder / "another"
    orders.query_here()
    wait_for(lambda: len(orders.rows) >= 40, "the new topic is read")
    assert orders.values() == numbers(40, 40)


@pytest.mark.long
def test_a_file_sink_has_every_row_once_although_executors_and_queries_end(
    orders: KafkaWorld, spark: SparkSession, tmp_path: Path
) -> None:
    def read_a_part(victim: str) -> None:
        query = orders.to_files(tmp_path / "table", maxRowsPerTrigger=100)
        orders.signal(victim, signal.SIGKILL)
        wait_for(lambda: victim not in orders.ids() and len(orders.ids()) >= 2, "it is replaced")
        orders.replace(victim)
        wait_for(lambda: sum(one.numInputRows for one in query.recentProgress) >= 200, "it reads")
        query.stop()  # in a batch, perhaps

    orders.fleet_here()
    for round_ in range(2):
        orders.send(*numbers(400, 400 * round_))
        read_a_part(orders.owner(round_))
    query = orders.to_files(tmp_path / "table", now=True)
    assert query.awaitTermination(240)
    assert sorted(row.value for row in spark.read.parquet(str(tmp_path / "table")).collect()) == numbers(800)
    wait_for(orders.committed, "all is committed")


def test_gaps_from_compaction_and_aborted_transactions_stop_no_range(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    """Ranges begin and end in gaps of the log, and some have no message."""
    often = {"cleanup_policy": "compact", "segment_ms": "100", "min_cleanable_dirty_ratio": "0.01"}
    orders = KafkaWorld(spark, broker, tmp_path / "orders", 2, topic=often)
    producer = Producer({"bootstrap.servers": broker.servers, "transactional.id": orders.topic})
    producer.init_transactions(PATIENCE)
    for nth in range(12):
        producer.begin_transaction()
        for number in range(30):
            producer.produce(
                orders.topic, str(100 * nth + number) if number < 28 else None, f"key-{number % 7}-{nth // 4}", nth % 2
            )
        producer.flush(PATIENCE)
        producer.abort_transaction(PATIENCE) if nth % 3 == 2 else producer.commit_transaction(PATIENCE)

    def compacted() -> bool:
        orders.send("to the first", "to the second")  # a segment that is written to is not compacted
        return len(orders.messages_there()) < 120

    wait_for(compacted, "the log is compacted")
    orders.share_out(2)
    orders.fleet_here()
    try:
        query = orders.to_files(tmp_path / "table", now=True, maxRowsPerTrigger=30)
        assert query.awaitTermination(240)
        rows = spark.read.parquet(str(tmp_path / "table")).collect()
        read = [(row.partition, row.offset, row.value and row.value.encode()) for row in rows]
        assert len(read) == len({one[:2] for one in read}) < 240, "so many were sent in transactions that were not given up"
        left = {(partition, offset, value) for partition, offset, _, value in orders.messages_there()}
        assert left <= set(read), "it may be compacted further meanwhile"
        assert any(value is None for *_, value in left)
        wait_for(orders.committed, "the group stands at the end")
    finally:
        orders.stop()


def test_executors_use_a_password_or_a_certificate_with_a_key_in_any_form(
    orders: KafkaWorld, broker: KafkaBroker, spark: SparkSession, tmp_path: Path
) -> None:
    acls = Acls(broker)
    for user in ("pod", "CN=nobody"):
        acls.allow(user, ResourceType.TOPIC, orders.topic, AclOperation.READ)
        acls.allow(user, ResourceType.GROUP, orders.group, AclOperation.READ)
        acls.allow(user, ResourceType.TRANSACTIONAL_ID, f"baton.{orders.group}/", AclOperation.WRITE, prefixed=True)
    pem = broker.keys.read_bytes()
    key = load_pem_private_key(pem, None).private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    (tmp_path / "key.pem").write_bytes(key)
    by_password = f"kafkas://pod:{quote(USERS['pod'])}@127.0.0.1:{broker.tls_port}/?ca={broker.ca}"
    by_key = f"kafkas://127.0.0.1:{broker.mutual_port}/?ca={broker.ca}&cert={broker.keys}&key={tmp_path / 'key.pem'}"
    for nth, url in enumerate((by_password, by_key)):
        orders.send(*numbers(40, 40 * nth))
        orders.url = f"{url}&group={orders.group}"
        orders.fleet_here()
        query = orders.to_files(tmp_path / "table", now=True)
        assert query.awaitTermination(240)
        orders.stop()
    assert sorted(row.value for row in spark.read.parquet(str(tmp_path / "table")).collect()) == numbers(80)


def test_a_limit_of_bytes_holds_by_estimated_sizes(orders: KafkaWorld) -> None:
    orders.send(*("." * 1000 + one for one in numbers(80)))
    query = orders.start(maxBytesPerTrigger=12_000)
    wait_for(lambda: len(orders.rows) >= 80, "all rows came")
    sizes = [int(one.numInputRows) for one in query.recentProgress if one.numInputRows]
    assert sizes[0] == 4, "one of each partition: their sizes are unknown"
    assert 8 <= max(sizes) <= 12, "each partition has one more at most"


def test_messages_deleted_unread_fail_the_query_unless_loss_is_allowed(orders: KafkaWorld) -> None:
    orders.send(*numbers(200))

    def forget(rows: DataFrame, batch: int) -> None:
        orders.forget({0: 40})  # of a range that is logged
        orders.keep(rows, batch)

    query = orders.start(forget, maxRowsPerTrigger=80)
    with pytest.raises(StreamingQueryException, match="has lost messages: the topic's retention, or a user, has deleted"):
        query.awaitTermination(240)
    query = orders.query_here(maxRowsPerTrigger=80)
    with pytest.raises(StreamingQueryException, match=r"from 1 to 20, and its first entry is 41"):
        query.awaitTermination(240)
    assert not orders.rows
    orders.query_here(maxRowsPerTrigger=80, failOnDataLoss=False)
    wait_for(orders.committed, "what is there is committed")
    assert orders.values() == sorted(numbers(200)[160::4] + [one for nth in (1, 2, 3) for one in numbers(200)[nth::4]])
