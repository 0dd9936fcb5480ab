"""What users of Structured Streaming expect of any source, on a real Spark and a real Redis."""

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.errors import StreamingQueryException, UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.listener import QueryProgressEvent, StreamingQueryListener, StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from baton.spark import Directory, Fleet
from baton.spark.dismissals import Leaving
from baton.spark.session import FleetSession
from tests.integration.spark.world import World, Worlds, wait_for
from tests.redis_server import RedisServer
from tests.waiting import until


@pytest.fixture(autouse=True)
def no_query_is_left(spark: SparkSession) -> Iterator[None]:
    yield
    for query in spark.streams.active:
        query.stop()


def numbers(count: int, begin: int = 0) -> list[str]:
    return [f"{number:05}" for number in range(begin, begin + count)]


def at_work(partitions: int, world: Worlds, name: str = "orders") -> World:
    made = world(partitions, name)
    made.share_out(partitions)
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
    orders = world(2)
    wait_for(lambda: len(orders.ids()) >= 2, "two executors are registered")
    first, second = orders.ids()[:2]
    orders.give({0: first})
    orders.fleet_here()
    orders.send(*numbers(40))
    return orders, second


def test_available_now_reads_what_is_there_and_ends(world: Worlds, spark: SparkSession, tmp_path: Path) -> None:
    orders = at_work(4, world)
    orders.send(*numbers(300))
    query = orders.to_files(tmp_path / "table", now=True, maxRowsPerTrigger=100)
    assert query.awaitTermination(120)
    assert values(spark, tmp_path / "table") == numbers(300)
    assert len([one for one in query.recentProgress if one.numInputRows]) >= 3
    wait_for(orders.committed, "all is committed")
    assert orders.statistics.ranges_lent == 0


def test_available_now_waits_for_the_owner_of_what_has_none(world: Worlds, spark: SparkSession, tmp_path: Path) -> None:
    orders, other = half_owned(world)
    query = orders.to_files(tmp_path / "table", now=True)
    wait_for(lambda: query.lastProgress and query.lastProgress.numInputRows, "what has an owner is read")
    assert query.isActive
    orders.give({1: other})
    assert query.awaitTermination(120)
    assert values(spark, tmp_path / "table") == numbers(40)


def test_available_now_that_begins_while_the_queue_is_away_still_knows_where_it_ends(
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


def test_a_batch_read_has_what_is_there_and_commits_nothing(world: Worlds, spark: SparkSession) -> None:
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


def test_state_in_python_is_kept_for_each_key(world: Worlds, spark: SparkSession, tmp_path: Path) -> None:
    orders = at_work(2, world)

    def count(key: tuple[str], frames: Iterator[pd.DataFrame], state: object) -> Iterator[pd.DataFrame]:
        before = state.get[0] if state.exists else 0  # type: ignore[attr-defined]
        total = before + sum(len(frame) for frame in frames)
        state.update((total,))  # type: ignore[attr-defined]
        yield pd.DataFrame({"key": [key[0]], "total": [total]})

    totals = (
        orders.load()
        .select(F.col("key").cast("string").alias("key"))
        .groupBy("key")
        .applyInPandasWithState(count, "key string, total long", "total long", "update", "NoTimeout")
    )
    seen: dict[str, int] = {}

    def keep(rows: DataFrame, batch: int) -> None:
        seen.update({row.key: row.total for row in rows.collect()})

    query = (
        totals.writeStream.outputMode("update").foreachBatch(keep).option("checkpointLocation", str(orders.checkpoint)).start()
    )
    for begin in (0, 80):
        orders.send(*numbers(80, begin))
        wait_for(lambda: orders.committed() or query.exception(), "it is counted")
    wait_for(lambda: sum(seen.values()) == 160, "all are counted")
    assert set(seen.values()) == {4}


def test_a_file_sink_has_every_row_once_though_executors_are_killed(world: Worlds, spark: SparkSession, tmp_path: Path) -> None:
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


def test_partitions_that_appear_are_read_from_their_beginning(world: Worlds) -> None:
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


def test_the_progress_tells_rows_offsets_and_who_owns_what(world: Worlds) -> None:
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


class Heard(StreamingQueryListener):
    """A user's listener."""

    def __init__(self) -> None:
        self.progress: list[StreamingQueryProgress] = []

    def onQueryStarted(self, event: object) -> None: ...  # noqa: N802 - Spark's name
    def onQueryIdle(self, event: object) -> None: ...  # noqa: N802 - likewise
    def onQueryTerminated(self, event: object) -> None: ...  # noqa: N802 - likewise

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - likewise
        self.progress.append(event.progress)


def test_a_listener_in_python_hears_rows_offsets_and_who_owns_what(world: Worlds, spark: SparkSession) -> None:
    orders, listener = at_work(2, world), Heard()
    spark.streams.addListener(listener)
    try:
        orders.query_here()
        orders.send(*numbers(40))
        wait_for(lambda: sum(one.numInputRows for one in listener.progress) == 40, "it has heard of all rows")
    finally:
        spark.streams.removeListener(listener)
    (source,) = next(one for one in reversed(listener.progress) if one.numInputRows).sources
    assert json.loads(source.endOffset)[orders.name].keys() == {"0", "1"}
    assert (source.metrics["partitionsOwned"], source.metrics["rowsBehind"]) == ("2", "0")


def test_a_stream_is_asked_by_sql(world: Worlds, spark: SparkSession, tmp_path: Path) -> None:
    orders = at_work(2, world)
    orders.send(*numbers(40))
    orders.load().createOrReplaceTempView("orders_as_they_come")
    some = spark.sql("SELECT CAST(value AS STRING) AS value FROM orders_as_they_come WHERE CAST(value AS STRING) < '00010'")
    writer = some.writeStream.format("parquet").option("checkpointLocation", str(orders.checkpoint)).trigger(availableNow=True)
    assert writer.start(str(tmp_path / "table")).awaitTermination(120)
    assert values(spark, tmp_path / "table") == numbers(10)


def test_a_table_of_the_catalog_is_a_sink(world: Worlds, spark: SparkSession, tmp_path: Path) -> None:
    orders = at_work(2, world)
    orders.send(*numbers(40))
    some = orders.load().select(F.col("value").cast("string").alias("value"))
    writer = some.writeStream.option("checkpointLocation", str(orders.checkpoint)).trigger(availableNow=True)
    assert writer.toTable("orders_taken", path=str(tmp_path / "table")).awaitTermination(120)
    assert sorted(row.value for row in spark.table("orders_taken").collect()) == numbers(40)


def test_a_limit_of_bytes_bounds_each_batch(world: Worlds) -> None:
    orders = at_work(2, world)
    orders.send(*("." * 1000 + one for one in numbers(80)))
    query = orders.query_here(maxBytesPerTrigger=12_000)
    wait_for(lambda: len(orders.rows) == 80, "all rows came")
    wait_for(lambda: sum(int(one.numInputRows) for one in query.recentProgress) == 80, "the last batch is told, too")
    assert max(int(one.numInputRows) for one in query.recentProgress) <= 12


def test_a_queue_that_is_not_there_is_named_and_waited_for(world: Worlds) -> None:
    orders = world(2)
    orders.share_out(2)
    parcels = orders.name + "-parcels"
    fleet = orders.another_fleet(orders.name, others=(parcels,))
    orders.fleet = fleet.start()
    query = orders.query_here()
    wait_for(lambda: parcels in orders.session.status.trouble, "the group says which queue is not there")
    assert "lists the queues" in orders.session.status.trouble
    assert orders.session.status.query_failure == ""
    assert query.isActive


def test_an_offset_that_is_gone_fails_the_query_with_the_cure_or_is_passed_over(
    world: Worlds, caplog: pytest.LogCaptureFixture
) -> None:
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


def test_a_second_query_on_the_group_is_refused_while_one_reads(world: Worlds) -> None:
    orders = at_work(1, world)
    first = orders.query_here()
    orders.send(*numbers(10))
    wait_for(orders.committed, "the first reads")
    orders.checkpoint = orders.checkpoint.with_name("another")
    assert "reads group" in failure(orders.query_here())
    assert first.isActive
    first.stop()
    orders.query_here()
    orders.send(*numbers(10, 10))
    wait_for(orders.committed, "now the second reads")
    assert orders.values() == numbers(20)


def test_queries_of_another_session_are_of_the_same_application(world: Worlds, spark: SparkSession, tmp_path: Path) -> None:
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


def test_a_query_that_fails_before_it_has_all_of_its_sources_leaves_no_listener(
    world: Worlds, spark: SparkSession, tmp_path: Path
) -> None:
    orders = at_work(1, world)
    session: Any = spark.newSession()  # nobody else's queries are here

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


def test_a_fleet_that_cannot_start_keeps_nothing(world: Worlds, spark: SparkSession, tmp_path: Path) -> None:
    class Lease(FleetSession):
        given_up = False

        def close(self) -> None:
            self.given_up = True

    class WithoutPods(Directory):
        def leaving(self, group: str, closing: ExitStack) -> Leaving:
            raise ConnectionError("the API server does not answer")

    orders, lease, threads = world(1), Lease(), set(threading.enumerate())
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


def test_a_second_fleet_of_the_group_is_refused_while_one_runs(world: Worlds) -> None:
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


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"startingOffset": "latest"}, "a stream has no option 'startingoffset'"),
        ({"maxRowsPerTrigger": "many"}, "maxRowsPerTrigger is 'many': set it to a whole number"),
        ({"startingOffsets": '{"parcels": {"0": 1}}'}, "startingOffsets names queue 'parcels'"),
    ],
)
def test_what_is_wrong_with_options_is_said(world: Worlds, options: dict[str, str], why: str) -> None:
    assert why in failure(at_work(1, world).query_here(None, **options))


@pytest.mark.parametrize(
    ("options", "trigger", "why"),
    [
        ({"asyncProgressTrackingEnabled": "true"}, {"processingTime": "0 seconds"}, "Remove this option from writeStream"),
        ({}, {"once": True}, "Use trigger(availableNow=True)"),
    ],
)
def test_a_query_that_would_lose_rows_or_read_none_is_refused(
    world: Worlds, tmp_path: Path, options: dict[str, str], trigger: dict[str, Any], why: str
) -> None:
    orders = at_work(1, world)
    orders.send("one")
    writer = orders.load().writeStream.format("console").options(**options).trigger(**trigger)
    assert why in failure(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start())


def test_the_continuous_trigger_is_refused(world: Worlds) -> None:
    writer = at_work(1, world).load().writeStream.format("console").trigger(continuous="1 second")
    with pytest.raises(UnsupportedOperationException, match="baton does not support continuous processing"):
        writer.start()


def test_a_checkpoint_of_another_group_is_refused(world: Worlds) -> None:
    orders = at_work(1, world)
    orders.query_here()
    orders.send(*numbers(10))
    wait_for(orders.committed, "it is read")
    orders.stop()
    parcels = at_work(1, world, "parcels")
    parcels.checkpoint = orders.checkpoint
    assert "use another checkpoint" in failure(parcels.query_here())


def test_queries_that_come_and_go_leave_no_threads_in_the_driver(spark: SparkSession, world: Worlds, tmp_path: Path) -> None:
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
