"""The source's rows, columns, batches and errors in Spark."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException, StreamingQueryException
from pyspark.sql import Row, SparkSession

from baton.spark import jar_file
from tests.integration.spark.stand_in import Kept, StandIn, drained, started
from tests.waiting import until

COLUMNS = ["queue", "partition", "offset", "key", "value", "headers", "timestamp", "epoch", "redelivered"]


def test_a_row_has_all_columns_as_sent(source: StandIn, tmp_path: Path) -> None:
    sent = source.producer.send("a", b"\x00first", {"trace": b"\xff\x00", "name": "gr\u00f6\u00dfe"}, partition=0)
    source.producer.send(None, "second", partition=0)
    source.producer.send("b", "other", {"n" * 50_001: b"1", "short": b"2"}, partition=1)
    kept = Kept()
    drained(source.stream(), kept, tmp_path)
    [rows] = kept.batches.values()
    assert rows[0].__fields__ == COLUMNS
    first, second, other = rows
    assert (first.queue, first.partition, first.key, first.value) == ("orders", 0, b"a", b"\x00first")
    assert first.headers == {"trace": b"\xff\x00", "name": "gr\u00f6\u00dfe".encode()}
    assert f"{first.offset}-0" == sent.offset and second.offset == first.offset + 1
    assert abs(first.timestamp.timestamp() - second.timestamp.timestamp()) < 60
    assert (second.key, second.headers, second.epoch, second.redelivered) == (b"", {}, 1, False)
    assert (other.partition, other.value) == (1, b"other")
    assert other.headers == {"n" * 50_001: b"1", "short": b"2"}, "more than a JSON parser reads by default"


def test_only_selected_columns_are_made(source: StandIn) -> None:
    source.producer.send("a", "x", {"h": "y"}, partition=1)
    narrow = source.table().select("partition", "headers")
    plan = narrow._jdf.queryExecution().executedPlan().toString()
    assert "partition#" in plan and "value#" not in plan
    assert narrow.collect() == [Row(partition=1, headers={"h": b"y"})]


def test_python_gets_the_options_the_query_and_the_batch(source: StandIn, tmp_path: Path) -> None:
    source.producer.send("a", "x")
    query = drained(source.stream(maxRowsPerTrigger="5"), Kept(), tmp_path)
    asked = {one[0]: one[1:] for one in reversed(source.asked)}
    assert '"maxrowspertrigger":"5"' in asked["open"][0] and '"checkpointlocation":' in asked["open"][0]
    assert json.loads(asked["open"][1]) == {"id": str(query.id), "asyncProgress": False, "once": False, "sources": 1}
    assert asked["plan"][3] == "0"
    until(lambda: any(one[0] == "stop" for one in source.asked), "the stream is stopped")


def test_every_range_is_read_on_its_owner_and_reported(source: StandIn, tmp_path: Path) -> None:
    source.send(100)
    drained(source.stream(), Kept(), tmp_path)
    reports = source.reports()
    assert [one["how"] for one in reports] == ["owner"] * 2
    assert sum(one["rows"] for one in reports) == 100
    assert sum(one["bytes"] for one in reports) == sum(len(f"key-{n}{n}") for n in range(100))


def test_foreign_entries_are_no_rows(source: StandIn, tmp_path: Path) -> None:
    for n in range(3):
        source.producer.send(None, f"{n}", partition=0)
    stream = source.entries_of(0)
    with source.raw() as raw:
        last = raw.xrevrange(stream, count=1)[0][0].decode()
        number = int(last.partition("-")[0])
        raw.xadd(stream, {"k": "", "v": "foreign", "t": "1"}, id=f"{number}-1")
        raw.xadd(stream, {"k": "", "v": "foreign", "t": "1"}, id=f"{number}-2")
    source.producer.send(None, "3", partition=0)
    kept = Kept()
    drained(source.stream(), kept, tmp_path)
    assert kept.values() == ["0", "1", "2", "3"]


def test_a_task_that_ends_early_reports_what_it_read(source: StandIn, tmp_path: Path) -> None:
    for n in range(1000):
        source.producer.send(None, f"{n}", partition=0)
    taken: list[str] = []
    drained(source.stream(), lambda rows, _: taken.extend(row.value.decode() for row in rows.take(4)), tmp_path)
    assert taken == ["0", "1", "2", "3"]
    [report] = source.reports()
    assert report["how"] == "owner"
    assert 4 <= report["rows"] < 1000


def test_a_user_defined_schema_is_rejected(spark: SparkSession, source: StandIn) -> None:
    with pytest.raises(Exception, match="user-specified schema"):
        spark.readStream.format("baton").schema("value string").option("group", source.group).load()


def test_reading_a_group_without_a_fleet_names_what_to_call(spark: SparkSession) -> None:
    with pytest.raises(IllegalArgumentException, match="needs the option group") as missing:
        spark.readStream.format("baton").load()
    with pytest.raises(IllegalArgumentException, match=r"No fleet of group refunds runs .* fleet.start\(\)") as unknown:
        spark.read.format("baton").option("group", "refunds").load()
    assert not any("\n" in str(raised.value).strip() for raised in (missing, unknown))


def test_an_error_from_python_ends_the_query_with_its_text(source: StandIn, tmp_path: Path) -> None:
    source.answers["latestOffset"] = lambda: {"error": "Queue orders has 4 partitions, and the checkpoint 8"}
    with pytest.raises(StreamingQueryException, match="Queue orders has 4 partitions, and the checkpoint 8"):
        started(source.stream(), Kept(), tmp_path).awaitTermination()


def test_an_exception_in_python_is_reported_without_a_traceback(source: StandIn, tmp_path: Path) -> None:
    def fail() -> Any:
        raise ZeroDivisionError("a test divides")

    source.answers["batch"] = fail
    with pytest.raises(Exception, match=r"does not answer: .*a test divides") as raised:
        source.table().count()
    assert "Traceback" not in str(raised.value).partition("JVM stacktrace")[0]


def test_a_query_that_waits_for_its_plan_can_be_stopped(source: StandIn, tmp_path: Path) -> None:
    source.producer.send("a", "x")
    source.answers["plan"] = lambda: {"again": 10}
    query = started(source.stream(), Kept(), tmp_path)
    until(lambda: sum(asked[0] == "plan" for asked in source.asked) > 3, "it is asked again")
    query.stop()
    assert query.exception() is None


# -- Parts of Spark's source that a query would show after minutes only: called by programs in Java, in their package.


PROGRAMS = Path(__file__).parent / "java"


def lines(folder: Path, program: str) -> list[str]:
    """The output of a Java program, compiled in the folder."""
    jdk, spark = jar_file.jdk(), jar_file.spark_jars()
    assert jdk is not None and spark is not None
    class_path = os.pathsep.join([str(folder), str(jar_file.path()), f"{spark}/*"])
    options = ["-nowarn", "-proc:none", "-cp", class_path, "-d", str(folder)]
    subprocess.run([str(jdk / "javac"), *options, str(PROGRAMS / f"{program}.java")], check=True)
    command = [str(jdk / "java"), "-cp", class_path, f"dev.baton.spark.{program}"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def test_tasks_remember_servers_and_report_failures(tmp_path: Path) -> None:
    assert lines(tmp_path, "PartsOfATask") == [
        "a server that has answered is known by its address alone",
        "the latest check counts",
        "an executor keeps 32 consumers at most",
        "what could not be read is reported as failed, whatever the reason",
        "threads that come and go call Python from few that stay",
    ]


def test_spark_ends_even_if_python_never_reports_the_fleet_stopped(tmp_path: Path) -> None:
    assert lines(tmp_path, "LateEnd") == ["asked: jvmEnds", "Spark ends"]
