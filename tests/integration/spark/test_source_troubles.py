"""Executors and servers that fail in the middle of a read, concurrent reads, large entries, and ranges that are lent."""

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from baton.queues.redis.keys import partition_keys
from tests.integration.redis.logged import Task
from tests.integration.spark.slow_rows import NUMBERS, ROWS_IN_PAGES, numbers, read_slowly, send_pages
from tests.integration.spark.stand_in import Owner, StandIn, drained, values
from tests.integration.spark.world import executor_pids
from tests.redis_server import RedisServer
from tests.waiting import until

NOBODY = Owner("", "")


def refusing(port: int, attempts: int) -> None:
    """Reject connections until there were this many attempts."""
    with socket.create_server(("127.0.0.1", port)) as listening:
        for _ in range(attempts):
            listening.accept()[0].close()


def test_a_killed_executors_range_is_lent_to_another(source: StandIn, tmp_path: Path) -> None:
    sent = source.send(40_000)
    query, read = read_slowly(source, tmp_path)
    [pid] = executor_pids(source.owners[1].executor)
    os.kill(pid, signal.SIGKILL)
    until(lambda: not executor_pids(source.owners[1].executor), "it is gone")
    (tmp_path / "go").touch()
    query.awaitTermination()
    assert read == [sent]
    assert {one["how"] for one in source.reports()} == {"owner", "lent"}


def test_a_function_that_evaluates_twice_sees_the_same_rows(source: StandIn, tmp_path: Path) -> None:
    sent = source.send(500)
    seen: list[list[str]] = []

    def twice(rows: DataFrame, _: int) -> None:
        seen.append(values(rows))
        source.producer.send("key-1", "later")
        seen.append(values(rows))

    drained(source.stream(), twice, tmp_path)
    assert seen == [sent] * 2


def test_two_concurrent_evaluations_share_a_loan(source: StandIn, tmp_path: Path) -> None:
    source.owners = [NOBODY, NOBODY]
    sent = source.send(3000)
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
    assert seen == [sent] * 2
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


def test_a_python_function_gets_large_entries_in_bounded_parts(source: StandIn, tmp_path: Path) -> None:
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
        query, read = read_slowly(source, tmp_path, numbers)
        own.kill()
        (tmp_path / "go").touch()
        refusing(own.port, 16)
        own.start()
        query.awaitTermination()
        assert read == [NUMBERS]


def test_a_later_query_ends_this_one_with_a_clear_error(source: StandIn, tmp_path: Path) -> None:
    source.send(100)

    def overtaken(rows: DataFrame, _: int) -> None:
        source.ranges.begin()
        rows.collect()

    with pytest.raises(StreamingQueryException, match=r"of queue orders .* now belongs to query \d+") as raised:
        drained(source.stream(), overtaken, tmp_path)
    assert f"this is {source.query}" in str(raised.value)
    assert {one["how"] for one in source.reports()} == {"refused"}


def test_a_task_that_was_held_up_delivers_no_further_rows(source: StandIn, tmp_path: Path) -> None:
    """As in an executor that was stopped and wakes up: its next page has already arrived."""
    send_pages(source)
    query, counted = read_slowly(source, tmp_path, DataFrame.count)
    later = time.monotonic()
    source.ranges.begin()
    until(lambda: time.monotonic() - later > 1, "what was checked before is old")
    (tmp_path / "go").touch()
    with pytest.raises(StreamingQueryException, match=r"of queue orders .* now belongs to query \d+"):
        query.awaitTermination()
    assert not counted and sum(one["rows"] for one in source.reports()) < ROWS_IN_PAGES


def test_a_finished_batch_cannot_be_read_again(source: StandIn, tmp_path: Path) -> None:
    source.send(100)

    def finished(rows: DataFrame, _: int) -> None:
        source.commit(source.group, source.asked[-1][3])
        rows.collect()

    with pytest.raises(StreamingQueryException, match="must not be read any more: its batch is done"):
        drained(source.stream(), finished, tmp_path)


def reads_in_spite_of(error: str, source: StandIn, folder: Path, begin: Callable[[], object], end: Callable[[], object]) -> None:
    """All is read, by first attempts, although the server answers with this error for a while."""
    sent, read = source.send(100), list[str]()

    def refused() -> bool:
        with source.raw() as raw:
            return f"errorstat_{error}" in raw.info("errorstats")

    def over() -> None:
        until(refused, "the server has refused a request")
        end()

    def collect(rows: DataFrame, _: int) -> None:
        begin()
        again = threading.Thread(target=over)
        again.start()
        read.extend(values(rows))
        again.join()

    with source.raw() as raw:
        raw.config_resetstat()
    drained(source.stream(), collect, folder)
    assert sorted(read) == sent
    assert {one["how"] for one in source.reports()} == {"owner"}, "no task has failed"


def test_a_server_that_takes_no_writes_for_now_is_waited_for(source: StandIn, tmp_path: Path) -> None:
    def replicas(least: int) -> None:
        with source.raw() as raw:
            raw.config_set("min-replicas-to-write", least)

    reads_in_spite_of("NOREPLICAS", source, tmp_path, lambda: replicas(1), lambda: replicas(0))


def test_a_server_whose_disk_is_full_is_waited_for(spark: SparkSession, tmp_path: Path) -> None:
    with RedisServer(append_only=False) as own, StandIn(spark, own.url) as source:
        reads_in_spite_of("MISCONF", source, tmp_path, own.fill_disk, own.free_disk)


def test_reports_of_a_failed_query_are_dropped(source: StandIn, tmp_path: Path) -> None:
    source.send(100)

    def failing(rows: DataFrame, _: int) -> None:
        rows.collect()
        raise RuntimeError("the function fails")

    source.drains = False
    with pytest.raises(StreamingQueryException, match="the function fails"):
        drained(source.stream(), failing, tmp_path)
    assert ("stop", source.group) in source.asked
    assert source.reports() == [], "nothing is left of it"


def test_an_invalid_largest_entry_size_is_ignored(source: StandIn, tmp_path: Path) -> None:
    sent = source.send(100)
    with source.raw() as raw:
        for partition in (0, 1):
            raw.hset(partition_keys(source.queue, partition).progress, "largest", "1e6")
    read: list[str] = []
    drained(source.stream(), lambda rows, _: read.extend(values(rows)), tmp_path)
    assert sorted(read) == sent


def test_entries_deleted_at_the_server_fail_the_query(source: StandIn, tmp_path: Path) -> None:
    source.send(100)

    def deleted(rows: DataFrame, _: int) -> None:
        stream = source.entries_of(0)
        with source.raw() as raw:
            raw.xdel(stream, *(number for number, _ in raw.xrevrange(stream, count=3)))
        rows.collect()

    with pytest.raises(StreamingQueryException, match=r"those after .* were deleted at the server"):
        drained(source.stream(), deleted, tmp_path)


# -- A range that is lent several times: borrowers die in the middle, and earlier readers wake up.


class Loan(NamedTuple):
    """A loan, as the queue records it."""

    evaluation: str
    attempt: int
    executor: str


def loan(source: StandIn, partition: int) -> Loan:
    """The last loan of the partition."""
    with source.raw() as raw:
        found = json.loads(str(raw.hget(partition_keys(source.queue, partition).progress, "loans"), "utf-8"))
    [(evaluation, (attempt, executor, _))] = found.items()
    return Loan(evaluation, attempt, executor.rpartition("/")[2])


@pytest.mark.long
def test_rows_are_the_same_although_owner_and_borrowers_die_while_reading(source: StandIn, tmp_path: Path) -> None:
    sent = source.send(40_000)
    query, read = read_slowly(source, tmp_path)
    readers = [loan(source, 1).executor]
    for _ in range(2):
        (tmp_path / "waits-1").unlink()
        [pid] = executor_pids(readers[-1])
        os.kill(pid, signal.SIGKILL)
        until(lambda: (tmp_path / "waits-1").exists() or query.exception(), "another one is in the middle")
        readers.append(loan(source, 1).executor)
    assert len(set(readers)) == 3
    (tmp_path / "go").touch()
    query.awaitTermination()
    assert read == [sent]
    assert {one["how"] for one in source.reports()} == {"owner", "lent"}


def test_a_reader_that_wakes_up_after_a_loan_is_rejected(source: StandIn, tmp_path: Path) -> None:
    send_pages(source)
    query, read = read_slowly(source, tmp_path, numbers)
    later = time.monotonic()
    first = min((0, 1), key=lambda partition: loan(source, partition).attempt)
    evaluation, attempt, _ = loan(source, first)
    with source.raw() as raw:
        start, end = map(int, raw.hmget(partition_keys(source.queue, first).progress, "logged", "loggedTo"))
        borrower = Task(
            source.query, start, end, evaluation=evaluation, attempt=attempt + 1, executor="elsewhere", partition=first
        )
        how, entries = borrower.page(raw, source.queue, b"%d-0" % start)
    assert (how, len(entries)) == ("lent", 100)
    until(lambda: time.monotonic() - later > 1, "what was checked before is old")
    (tmp_path / "go").touch()
    query.awaitTermination()
    assert read == [NUMBERS]
    assert sorted(one["how"] for one in source.reports()) == ["owner", "owner", "refused"]
