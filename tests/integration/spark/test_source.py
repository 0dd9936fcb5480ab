"""What users of Structured Streaming expect of any source, on a real Spark and a real Redis."""

import json
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException, UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from baton.spark import Directory, Fleet
from baton.spark.dismissals import Leaving
from baton.spark.session import FleetSession
from tests.file_sink import written
from tests.integration.spark.world import World, Worlds, numbers, wait_for
from tests.redis_server import RedisServer
from tests.waiting import until


@pytest.fixture(autouse=True)
def no_query_is_left(spark: SparkSession) -> Iterator[None]:
    yield
    for query in spark.streams.active:
        query.stop()


def at_work(partitions: int, world: Worlds, name: str = "orders") -> World:
    made = world(partitions, name)
    made.fleet_here()
    return made


def values(spark: SparkSession, table: Path) -> list[str]:
    return sorted(row.value for row in spark.read.parquet(str(table)).select("value").collect())


def failure(query: StreamingQuery) -> str:
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination(120)
    return str(raised.value)


def half_owned(world: Worlds) -> tuple[World, str]:
    """Forty entries in two partitions, one of which has an owner, and another executor."""
    orders = world(2, owned=False)
    wait_for(lambda: len(orders.ids()) >= 2, "two executors are registered")
    first, second = orders.ids()[:2]
    orders.give({0: first})
    orders.fleet_here()
    orders.send(*numbers(40))
    return orders, second


def test_available_now_reads_existing_entries_and_ends(world: Worlds, spark: SparkSession, tmp_path: Path) -> None:
    orders = at_work(4, world)
    orders.send(*numbers(300))
    query = orders.to_files(tmp_path / "table", now=True, maxRowsPerTrigger=100)
    assert query.awaitTermination(120)
    assert values(spark, tmp_path / "table") == numbers(300)
    assert len([one for one in query.recentProgress if one.numInputRows]) >= 3
    wait_for(orders.committed, "all is committed")
    assert orders.statistics.ranges_lent == 0


def test_available_now_waits_for_an_owner(world: Worlds, spark: SparkSession, tmp_path: Path) -> None:
    orders, other = half_owned(world)
    query = orders.to_files(tmp_path / "table", now=True)
    wait_for(lambda: query.lastProgress and query.lastProgress.numInputRows, "what has an owner is read")
    assert query.isActive
    orders.give({1: other})
    assert query.awaitTermination(120)
    assert values(spark, tmp_path / "table") == numbers(40)


def test_available_now_started_while_the_queue_is_away_still_ends(
    world: Worlds, server: RedisServer, spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    orders, other = half_owned(world)
    server.stop()
    query = orders.to_files(tmp_path / "table", now=True)
    wait_for(lambda: "is unreachable" in caplog.text, "the queue was asked")
    server.start()
    wait_for(lambda: not query.isActive or (query.lastProgress and query.lastProgress.numInputRows), "what has an owner is read")
    assert not query.awaitTermination(2), "the other partition has no owner yet"
    orders.give({1: other})
    assert query.awaitTermination(120)
    assert values(spark, tmp_path / "table") == numbers(40)


def test_a_batch_read_returns_existing_entries_and_commits_nothing(world: Worlds, spark: SparkSession) -> None:
    orders = at_work(2, world)
    orders.send(*numbers(50))
    rows = spark.read.format("baton").option("group", orders.name).load()
    assert sorted(row.value.decode() for row in rows.collect()) == numbers(50)
    first = rows.where("partition = 0").agg(F.min("offset")).first()
    assert first is not None
    ending = json.dumps({orders.name: {"0": first[0], "1": 0}})
    some = spark.read.format("baton").options(group=orders.name, endingOffsets=ending).load()
    assert some.count() == 1
    assert sum(orders.lag().values()) == 50


def test_a_window_with_a_watermark_counts_and_closes(world: Worlds, spark: SparkSession, tmp_path: Path) -> None:
    orders = at_work(2, world)
    counts = (
        orders.load()
        .withColumn("at", F.timestamp_seconds(F.col("value").cast("string").cast("long")))
        .withWatermark("at", "10 seconds")
        .groupBy(F.window("at", "10 seconds"))
        .count()
    )
    query = (
        counts.select(F.col("window.start").cast("long").alias("start"), "count")
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "table"))
        .option("checkpointLocation", str(orders.checkpoint))
        .start()
    )
    orders.send(*numbers(100))
    wait_for(lambda: query.lastProgress and query.lastProgress.numInputRows, "the first are read")
    wait_for(orders.committed, "all of them")
    orders.send_to(0, "1000")
    orders.send_to(1, "1000")

    def windows() -> list[tuple[int, int]]:
        assert query.exception() is None
        if not any((tmp_path / "table").glob("*.parquet")):
            return []
        return sorted((row["start"], row["count"]) for row in spark.read.parquet(str(tmp_path / "table")).collect())

    wait_for(lambda: len(windows()) == 10, "the windows before the watermark are closed")
    assert windows() == [(start, 10) for start in range(0, 100, 10)]
    assert query.lastProgress is not None
    assert query.lastProgress.eventTime["watermark"].startswith("1970-01-01T00:16:30")


def test_two_groups_are_joined_in_one_query(world: Worlds, spark: SparkSession, tmp_path: Path) -> None:
    orders, parcels = at_work(2, world), at_work(2, world, "parcels")
    left = orders.load().select(F.col("value").cast("string").alias("value"), "partition", "offset")
    right = parcels.load().select(F.col("value").cast("string").alias("value"))
    writer = left.join(right, "value").writeStream.format("parquet").option("path", str(tmp_path / "table"))
    query = writer.option("checkpointLocation", str(orders.checkpoint)).start()
    orders.send(*numbers(30))
    parcels.send(*numbers(30, 10))
    wait_for(lambda: orders.committed() and parcels.committed() and query.lastProgress, "both are read")
    query.processAllAvailable()
    assert values(spark, tmp_path / "table") == numbers(20, 10)


def test_two_groups_have_a_query_each(world: Worlds) -> None:
    both = [at_work(2, world, name) for name in ("orders", "parcels")]
    for place, one in enumerate(both):
        one.query_here()
        one.send(*numbers(40, 1000 * place))
    for place, one in enumerate(both):
        wait_for(one.committed, "all is committed")
        assert one.values() == numbers(40, 1000 * place)


def test_a_file_sink_has_every_row_once_although_executors_are_killed(world: Worlds, spark: SparkSession, tmp_path: Path) -> None:
    orders = at_work(4, world)
    query = orders.to_files(tmp_path / "table", maxRowsPerTrigger=200)
    for round_ in range(3):
        orders.send(*numbers(400, 400 * round_))
        victim = orders.owner(round_)
        orders.signal(victim, signal.SIGKILL)
        wait_for(lambda victim=victim: victim not in orders.ids() and len(orders.ids()) >= 2, "it is replaced")  # type: ignore[misc]
        ids = orders.ids()
        orders.give({number: ids[number % len(ids)] for number in range(4) if orders.owner(number) == victim})
    wait_for(lambda: orders.committed() or query.exception(), "all is committed")
    assert query.exception() is None
    assert values(spark, tmp_path / "table") == numbers(1200)


def test_new_partitions_are_read_from_their_beginning(world: Worlds) -> None:
    orders = at_work(2, world)
    orders.query_here()
    orders.send(*numbers(40))
    wait_for(orders.committed, "the first are read")
    orders.grow(4)
    ids = orders.ids()
    orders.give({2: ids[0], 3: ids[1]})
    orders.send(*numbers(200, 40))
    wait_for(lambda: len(orders.rows) >= 240 and orders.committed(), "all are read")
    assert orders.values() == numbers(240)
    assert {row.partition for row in orders.rows} == {0, 1, 2, 3}


def test_progress_has_rows_offsets_and_owned_partitions(world: Worlds) -> None:
    orders = at_work(2, world)
    query = orders.query_here()
    orders.send(*numbers(40))
    wait_for(orders.committed, "all is read")
    orders.revoke(1)
    orders.send_to(0, *numbers(5, 40))
    orders.send_to(1, *numbers(7, 45))
    wait_for(lambda: len(orders.rows) == 45, "what is owned is read")
    wait_for(lambda: sum(one.numInputRows for one in query.recentProgress) == 45, "it is told")
    progress = next(one for one in reversed(query.recentProgress) if one.numInputRows)
    (source,) = progress.sources
    assert source.description.startswith("baton[")
    assert set(json.loads(source.endOffset)[orders.name]) == {"0", "1"}
    metrics = source.metrics
    assert (metrics["rowsBehind"], metrics["maxRowsBehind"]) == ("7", "7")
    assert (metrics["partitionsOwned"], metrics["partitionsRevoking"], metrics["partitionsWaiting"]) == ("1", "1", "0")


def test_a_limit_of_bytes_bounds_each_batch(world: Worlds) -> None:
    orders = at_work(2, world)
    orders.send(*("." * 1000 + one for one in numbers(80)))
    query = orders.query_here(maxBytesPerTrigger=12_000)
    wait_for(lambda: len(orders.rows) == 80, "all rows came")
    wait_for(lambda: sum(int(one.numInputRows) for one in query.recentProgress) == 80, "the last batch is told, too")
    assert max(int(one.numInputRows) for one in query.recentProgress) <= 12


def test_a_missing_queue_is_named_and_waited_for(world: Worlds) -> None:
    orders = world(2)
    parcels = orders.name + "-parcels"
    fleet = orders.another_fleet(orders.name, others=(parcels,))
    orders.fleet = fleet.start()
    query = orders.query_here()
    wait_for(lambda: parcels in orders.session.status.trouble, "the group says which queue is not there")
    assert "lists the queues" in orders.session.status.trouble
    assert orders.session.status.query_failure == ""
    assert query.isActive


def test_a_lost_offset_fails_the_query_unless_data_loss_is_allowed(world: Worlds, caplog: pytest.LogCaptureFixture) -> None:
    orders = at_work(1, world)
    orders.query_here()
    orders.send(*numbers(10))
    wait_for(orders.committed, "they are read")
    orders.stop()
    orders.send(*numbers(10, 10))
    behind = json.dumps({orders.name: {"0": max(row.number for row in orders.rows) - 5}})
    orders.checkpoint = orders.checkpoint.with_name("another")
    orders.fleet_here()
    why = failure(orders.query_here(startingOffsets=behind))
    assert f"{orders.name}/0" in why
    assert "set the option failOnDataLoss to false" in why
    orders.checkpoint = orders.checkpoint.with_name("a-third")
    orders.query_here(startingOffsets=behind, failOnDataLoss=False)
    wait_for(orders.committed, "it goes on with what is there")
    assert orders.values() == numbers(20)
    assert orders.statistics.positions_lost == 5


def test_queries_of_another_session_share_the_group(world: Worlds, spark: SparkSession, tmp_path: Path) -> None:
    orders = at_work(1, world)
    first = orders.query_here()
    orders.send(*numbers(10))
    wait_for(orders.committed, "the first reads")
    rows = spark.newSession().readStream.format("baton").option("group", orders.name).load()
    elsewhere = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "elsewhere"))
    assert "reads group" in failure(elsewhere.start())
    assert first.isActive
    first.stop()
    second = elsewhere.start()
    orders.send(*numbers(10, 10))
    wait_for(orders.committed, "now the other session's reads")
    second.stop()
    orders.send(*numbers(20, 10))
    second = elsewhere.trigger(processingTime="1 hour").start()
    wait_for(orders.committed, "its own session has told that the batch is done: the next question comes in an hour")
    assert orders.fleet is not None
    orders.fleet.stop()
    assert not second.isActive, "it is stopped with its fleet"


def test_a_query_that_fails_to_open_a_source_leaves_no_listener(world: Worlds, spark: SparkSession, tmp_path: Path) -> None:
    orders = at_work(1, world)
    session: Any = spark.newSession()  # without other queries

    def listening() -> int:
        return len(session._jsparkSession.streams().listListeners())

    def rows() -> DataFrame:
        found: DataFrame = session.readStream.format("baton").option("group", orders.name).load()
        return found

    writer = rows().writeStream.format("noop").option("checkpointLocation", str(tmp_path / "first"))
    first = writer.start()
    wait_for(lambda: listening() == 1, "its stream listens")
    first.stop()
    wait_for(lambda: listening() == 0, "it does no more")
    twice = rows().union(rows()).writeStream.format("noop").option("checkpointLocation", str(tmp_path / "second"))
    assert f"reads group {orders.name} twice" in failure(twice.start())
    wait_for(lambda: listening() == 0, "nor does the one that was there when the other was refused")


def test_a_fleet_that_fails_to_start_leaves_nothing_behind(world: Worlds, spark: SparkSession, tmp_path: Path) -> None:
    class Lease(FleetSession):
        given_up = False

        def close(self) -> None:
            self.given_up = True

    class WithoutPods(Directory):
        def leaving(self, group: str, closing: ExitStack) -> Leaving:
            raise ConnectionError("the API server does not answer")

    orders, lease, threads = world(1, owned=False), Lease(), set(threading.enumerate())
    (tmp_path / "ledger").mkdir()
    fleet = Fleet(
        spark,
        group=orders.name,
        queues={orders.name: "redis://127.0.0.1:1"},
        environment=WithoutPods(tmp_path / "ledger", session=lease),
    )
    with pytest.raises(ConnectionError):
        fleet.start()
    assert lease.given_up
    until(lambda: set(threading.enumerate()) <= threads, "its threads have ended")
    orders.share_out(1)
    orders.fleet_here()
    orders.query_here()
    orders.send(*numbers(10))
    wait_for(orders.committed, "another fleet of the group reads")


def test_a_second_fleet_of_the_group_is_rejected_while_one_runs(world: Worlds) -> None:
    orders = at_work(1, world)
    another = orders.another_fleet(orders.name)
    with pytest.raises(RuntimeError, match=r"another fleet of group .* runs in this application: use that fleet"):
        another.start()
    orders.query_here()
    orders.send(*numbers(10))
    wait_for(orders.committed, "the first one still reads")
    assert orders.fleet is not None
    orders.fleet.stop()
    with another:
        orders.query_here()
        orders.send(*numbers(10, 10))
        wait_for(orders.committed, "now the other one reads")
    assert orders.values() == numbers(20)


def test_an_invalid_option_fails_the_query_by_its_name(world: Worlds) -> None:
    assert "a stream has no option 'startingoffset'" in failure(at_work(1, world).query_here(startingOffset="latest"))


@pytest.mark.parametrize(
    ("options", "trigger", "why"),
    [
        ({"asyncProgressTrackingEnabled": "true"}, {"processingTime": "0 seconds"}, "Remove this option from writeStream"),
        ({}, {"once": True}, "Use trigger(availableNow=True)"),
    ],
)
def test_unsupported_triggers_and_options_are_rejected(
    world: Worlds, tmp_path: Path, options: dict[str, str], trigger: dict[str, Any], why: str
) -> None:
    orders = at_work(1, world)
    orders.send("one")
    writer = orders.load().writeStream.format("console").options(**options).trigger(**trigger)
    assert why in failure(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start())


def test_the_continuous_trigger_is_rejected(world: Worlds) -> None:
    writer = at_work(1, world).load().writeStream.format("console").trigger(continuous="1 second")
    with pytest.raises(UnsupportedOperationException, match="baton does not support continuous processing"):
        writer.start()


def test_a_checkpoint_of_another_group_is_rejected(world: Worlds) -> None:
    orders = at_work(1, world)
    orders.query_here()
    orders.send(*numbers(10))
    wait_for(orders.committed, "it is read")
    orders.stop()
    parcels = at_work(1, world, "parcels")
    parcels.checkpoint = orders.checkpoint
    assert "use another checkpoint" in failure(parcels.query_here())


def test_ended_queries_leave_no_threads_in_the_driver(spark: SparkSession, world: Worlds, tmp_path: Path) -> None:
    orders = at_work(2, world)

    def run(nth: int) -> None:
        orders.send(*numbers(2, 10 * nth))
        writer = orders.load().writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert writer.trigger(availableNow=True).start().awaitTermination(120)

    run(0)
    before = threading.active_count()
    for nth in range(1, 6):
        run(nth)
    assert threading.active_count() < before + 5, [thread.name for thread in threading.enumerate()]


def test_a_query_whose_file_sink_would_skip_rows_is_rejected(world: Worlds, tmp_path: Path) -> None:
    orders = world(1)
    orders.fleet_here()
    table, known, older = tmp_path / "table", orders.checkpoint, tmp_path / "older"
    orders.send("one")
    orders.to_files(table, now=True).awaitTermination()
    shutil.copytree(known, older)
    orders.send("two")
    orders.to_files(table, now=True).awaitTermination()
    orders.send("three")
    for checkpoint in (tmp_path / "new", older):
        orders.checkpoint = checkpoint
        with pytest.raises(StreamingQueryException, match=r"rows would be lost\. Use another path"):
            orders.to_files(table, now=True).awaitTermination()
    wait_for(lambda: orders.lag() == {0: 1}, "what was read is done with, and the rest is there")
    orders.checkpoint = known
    orders.to_files(table, now=True).awaitTermination()
    assert sum(written(table).values()) == 3
    orders.checkpoint = tmp_path / "newer"
    orders.send("four")
    orders.to_files(tmp_path / "another", now=True).awaitTermination()
    assert sum(written(tmp_path / "another").values()) == 1
