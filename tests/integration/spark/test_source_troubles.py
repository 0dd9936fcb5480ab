"""Executors and servers that fail in the middle of a read, concurrent reads, and large entries."""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from baton.queues.redis.keys import partition_keys
from tests.integration.spark.slow_rows import NUMBERS, ROWS_IN_PAGES, both_wait, numbers, send_pages, slowly
from tests.integration.spark.stand_in import Owner, StandIn, drained, started, values
from tests.integration.spark.world import executor_pids
from tests.redis_server import RedisServer
from tests.waiting import until

NOBODY = Owner("", "")


@pytest.fixture
def source(spark: SparkSession, server: RedisServer) -> Iterator[StandIn]:
    with StandIn(spark, server.url) as made:
        yield made


def refusing(port: int, attempts: int) -> None:
    """Reject connections until there were this many attempts."""
    with socket.create_server(("127.0.0.1", port)) as listening:
        for _ in range(attempts):
            listening.accept()[0].close()


def test_what_a_killed_executor_was_reading_is_lent_on(source: StandIn, tmp_path: Path) -> None:
    source.producer.send_many([(f"key-{n}", f"{n}") for n in range(40_000)])
    read: list[list[str]] = []
    query = started(
        source.stream(), lambda rows, _: read.append(values(slowly(rows, tmp_path))), tmp_path / "checkpoint", available_now=True
    )
    both_wait(tmp_path, query)
    [pid] = executor_pids(source.owners[1].executor)
    os.kill(pid, signal.SIGKILL)
    until(lambda: not executor_pids(source.owners[1].executor), "it is gone")
    (tmp_path / "go").touch()
    query.awaitTermination()
    assert read == [sorted(str(n) for n in range(40_000))]
    assert {one["how"] for one in source.reports()} == {"owner", "lent"}


def test_a_function_that_evaluates_twice_sees_the_same_rows(source: StandIn, tmp_path: Path) -> None:
    source.producer.send_many([(f"key-{n}", f"{n}") for n in range(500)])
    seen: list[list[str]] = []

    def twice(rows: DataFrame, _: int) -> None:
        seen.append(values(rows))
        source.producer.send("key-1", "later")
        seen.append(values(rows))

    drained(source.stream(), twice, tmp_path)
    assert seen[0] == seen[1] == sorted(str(n) for n in range(500))


def test_two_evaluations_at_once_read_what_is_lent_to_both(source: StandIn, tmp_path: Path) -> None:
    source.owners = [NOBODY, NOBODY]
    source.producer.send_many([(f"key-{n}", f"{n}") for n in range(3000)])
    source.answers["latestOffset"] = lambda: {
        "orders": {str(number): one.last for number, one in source.ranges.positions().items()}
    }
    seen: list[list[str]] = []

    def both(rows: DataFrame, _: int) -> None:
        threads = [threading.Thread(target=lambda: seen.append(values(rows))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    drained(source.stream(), both, tmp_path)
    assert seen == [sorted(str(n) for n in range(3000))] * 2
    assert [one["how"] for one in source.reports()] == ["lent"] * 4


def test_large_entries_fit_into_small_executors(source: StandIn, tmp_path: Path) -> None:
    large = b"x" * 5_000_000
    for n in range(50):
        source.producer.send(f"key-{n}", large + b"%d" % n)
    seen: list[int] = []

    def lengths(rows: DataFrame, _: int) -> None:
        [row] = rows.selectExpr("sum(length(value)) as bytes", "count(*) as rows").collect()
        seen.extend((row.rows, row.bytes))

    drained(source.stream(), lengths, tmp_path)
    assert seen == [50, sum(len(large) + len(str(n)) for n in range(50))]
    assert {one["how"] for one in source.reports()} == {"owner"}


def test_a_python_function_is_given_large_entries_in_parts_that_fit(source: StandIn, tmp_path: Path) -> None:
    for n in range(40):
        source.producer.send(f"key-{n}", b"x" * 2_000_000)
    seen: list[int] = []

    def sizes(batches):  # type: ignore[no-untyped-def] # its types would be looked for in the executor
        import pyarrow

        for batch in batches:
            yield pyarrow.RecordBatch.from_pydict({"rows": [batch.num_rows], "bytes": [batch.nbytes]})

    def measure(rows: DataFrame, _: int) -> None:
        found = rows.select("value").mapInArrow(sizes, "rows long, bytes long").collect()
        seen.extend((sum(row.rows for row in found), max((row.bytes for row in found), default=0)))

    drained(source.stream(), measure, tmp_path)
    assert seen[0] == 40
    assert seen[1] <= (32 << 20) + 2_000_000, "of 80 MB in two partitions"


def test_a_redis_that_restarts_is_waited_for(spark: SparkSession, tmp_path: Path) -> None:
    with RedisServer(fsync="always") as own, StandIn(spark, own.url) as source:
        send_pages(source)
        read: list[list[str]] = []

        query = started(
            source.stream(),
            lambda rows, _: read.append(numbers(slowly(rows, tmp_path))),
            tmp_path / "checkpoint",
            available_now=True,
        )
        both_wait(tmp_path, query)
        own.kill()
        (tmp_path / "go").touch()
        refusing(own.port, 16)
        own.start()
        query.awaitTermination()
        assert read == [NUMBERS]


def test_a_later_query_ends_this_one_with_a_clear_word(source: StandIn, tmp_path: Path) -> None:
    source.producer.send_many([(f"key-{n}", f"{n}") for n in range(100)])

    def overtaken(rows: DataFrame, _: int) -> None:
        source.ranges.begin()
        rows.collect()

    with pytest.raises(StreamingQueryException, match=r"of queue orders .* now belongs to query \d+") as raised:
        drained(source.stream(), overtaken, tmp_path)
    assert f"this is {source.query}" in str(raised.value)
    assert {one["how"] for one in source.reports()} == {"refused"}


def test_a_task_that_was_held_up_gets_nothing_more_of_the_pages_that_it_has(source: StandIn, tmp_path: Path) -> None:
    """As in an executor that was stopped and wakes up: its next page has already arrived."""
    send_pages(source)
    counted: list[int] = []
    query = started(
        source.stream(),
        lambda rows, _: counted.append(slowly(rows, tmp_path).count()),
        tmp_path / "checkpoint",
        available_now=True,
    )
    both_wait(tmp_path, query)
    later = time.monotonic()
    source.ranges.begin()
    until(lambda: time.monotonic() - later > 1, "what was checked before is old")
    (tmp_path / "go").touch()
    with pytest.raises(StreamingQueryException, match=r"of queue orders .* now belongs to query \d+"):
        query.awaitTermination()
    assert not counted and sum(one["rows"] for one in source.reports()) < ROWS_IN_PAGES


def test_a_batch_that_is_done_is_not_read_again(source: StandIn, tmp_path: Path) -> None:
    source.producer.send_many([(f"key-{n}", f"{n}") for n in range(100)])

    def finished(rows: DataFrame, _: int) -> None:
        source.commit(source.group, source.asked[-1][3])
        rows.collect()

    with pytest.raises(StreamingQueryException, match="must not be read any more: its batch is done"):
        drained(source.stream(), finished, tmp_path)


def test_a_server_that_takes_no_writes_for_now_is_waited_for(source: StandIn, tmp_path: Path) -> None:
    source.producer.send_many([(f"key-{n}", f"{n}") for n in range(100)])
    read: list[list[str]] = []

    def refused() -> int:
        with source.raw() as raw:
            return sum(int(one["count"]) for name, one in raw.info("errorstats").items() if name == "errorstat_NOREPLICAS")

    def with_a_replica_again() -> None:
        until(lambda: refused() > 0, "the server has refused somebody")
        with source.raw() as raw:
            raw.config_set("min-replicas-to-write", 0)

    def without_replicas(rows: DataFrame, _: int) -> None:
        with source.raw() as raw:
            raw.config_resetstat()
            raw.config_set("min-replicas-to-write", 1)
        again = threading.Thread(target=with_a_replica_again)
        again.start()
        read.append(values(rows))
        again.join()

    drained(source.stream(), without_replicas, tmp_path)
    assert sorted(value for rows in read for value in rows) == sorted(f"{n}" for n in range(100))
    assert {one["how"] for one in source.reports()} == {"owner"}, "by first attempts: no task has failed"


def test_a_server_whose_disk_is_full_is_waited_for(spark: SparkSession, tmp_path: Path) -> None:
    with RedisServer(append_only=False) as own, StandIn(spark, own.url) as source:
        source.producer.send_many([(f"key-{n}", f"{n}") for n in range(100)])
        read: list[list[str]] = []

        def refused() -> int:
            with own.client() as raw:
                return sum(int(one["count"]) for name, one in raw.info("errorstats").items() if name == "errorstat_MISCONF")

        def with_room_again() -> None:
            until(lambda: refused() > 0, "the server has refused somebody")
            own.free_disk()

        def without_room(rows: DataFrame, _: int) -> None:
            own.fill_disk()
            again = threading.Thread(target=with_room_again)
            again.start()
            read.append(values(rows))
            again.join()

        drained(source.stream(), without_room, tmp_path)
        assert sorted(value for rows in read for value in rows) == sorted(f"{n}" for n in range(100))
        assert {one["how"] for one in source.reports()} == {"owner"}, "by first attempts: no task has failed"


def test_reports_of_a_query_that_has_failed_are_not_kept(source: StandIn, tmp_path: Path) -> None:
    source.producer.send_many([(f"key-{n}", f"{n}") for n in range(100)])

    def failing(rows: DataFrame, _: int) -> None:
        rows.collect()
        raise RuntimeError("the function fails")

    source.drains = False
    with pytest.raises(StreamingQueryException, match="the function fails"):
        drained(source.stream(), failing, tmp_path)
    assert ("stop", source.group) in source.asked
    assert source.reports() == [], "nothing is left of it"


def test_the_size_of_the_largest_entry_that_is_none_holds_up_nobody(source: StandIn, tmp_path: Path) -> None:
    source.producer.send_many([(f"key-{n}", f"{n}") for n in range(100)])
    with source.raw() as raw:
        for partition in (0, 1):
            raw.hset(partition_keys(source.queue, partition).progress, "largest", "1e6")
    read: list[str] = []
    drained(source.stream(), lambda rows, _: read.extend(values(rows)), tmp_path)
    assert sorted(read) == sorted(f"{n}" for n in range(100))


def test_entries_that_somebody_deletes_are_missed(source: StandIn, tmp_path: Path) -> None:
    source.producer.send_many([(f"key-{n}", f"{n}") for n in range(100)])

    def deleted(rows: DataFrame, _: int) -> None:
        stream = source.entries_of(0)
        with source.raw() as raw:
            raw.xdel(stream, *(number for number, _ in raw.xrevrange(stream, count=3)))
        rows.collect()

    with pytest.raises(StreamingQueryException, match=r"those after .* were deleted at the server"):
        drained(source.stream(), deleted, tmp_path)
