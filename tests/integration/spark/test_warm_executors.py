"""What a new executor has done before it reads, seen from its Python workers and from Redis."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from baton.spark import Directory, Fleet
from tests.integration.spark.kafka_world import KafkaWorld
from tests.integration.spark.world import World, Worlds, executor_pids, numbers, wait_for
from tests.kafka_broker import KafkaBroker
from tests.local_spark import JAVA
from tests.redis_server import RedisServer

ROWS = "partition int, value string"


def note(folder: Path, rows: int) -> None:
    """In a Python worker: record how many rows it has seen, in a file named after the executor's process and its own."""
    daemon = os.getppid()
    executor = Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1]
    file = folder / f"{executor}-{os.getpid()}"
    file.write_text(str(int(file.read_text()) + rows if file.exists() else rows))


def noted(folder: Path, pages: Iterator[Any]) -> Iterator[Any]:
    note(folder, 0)
    for page in pages:
        note(folder, len(page))
        page["value"] = page["value"].str.decode("ascii")
        yield page


def workers(folder: Path, executor: str) -> dict[str, int]:
    """The number of rows that each Python worker of the executor has seen."""
    [pid] = executor_pids(executor)
    return {file.name: int(file.read_text() or 0) for file in folder.glob(f"{pid}-*")}


def written(world: World, query: Callable[[DataFrame], DataFrame], table: Path) -> StreamingQuery:
    writer = query(world.load()).writeStream.format("parquet").option("path", str(table))
    return writer.option("checkpointLocation", str(world.checkpoint)).start()


def replaced(world: World) -> str:
    """Spark's id of the executor that replaces a killed one. It gets no partitions."""
    before = set(world.ids())
    world.signal(max(before, key=int), signal.SIGKILL)
    wait_for(lambda: set(world.ids()) - before, "another executor has come")
    [new] = set(world.ids()) - before
    return new


def values(spark: SparkSession, table: Path) -> list[str]:
    return sorted(row.value for row in spark.read.schema(ROWS).parquet(str(table)).collect())


@pytest.fixture(params=["redis", "kafka"])
def orders(request: pytest.FixtureRequest, world: Worlds, spark: SparkSession, tmp_path: Path) -> Iterator[World]:
    """Two partitions."""
    if request.param == "redis":
        yield world(2, owned=False)
        return
    with KafkaBroker() as broker:
        made = KafkaWorld(spark, broker, tmp_path / "orders", 2)
        yield made
        made.stop()


def test_a_new_executors_python_worker_runs_the_function_before_rows_come(
    orders: World, spark: SparkSession, tmp_path: Path
) -> None:
    folder, table = tmp_path / "noted", tmp_path / "table"
    folder.mkdir()
    orders.share_out(2)
    orders.fleet_here()
    query = written(orders, lambda rows: rows.select("partition", "value").mapInPandas(partial(noted, folder), ROWS), table)
    orders.send(*numbers(20))
    wait_for(orders.committed, "all is committed")
    new = replaced(orders)
    wait_for(lambda: workers(folder, new), "the function has run in the new executor")
    assert list(workers(folder, new).values()) == [0]
    orders.share_out(2)
    orders.send(*numbers(20, 20))
    wait_for(orders.committed, "all is committed")
    [rows] = workers(folder, new).values()
    assert rows > 0, "a worker that had not been warmed has read"
    query.stop()
    assert values(spark, table) == numbers(40)


def test_a_new_executor_connects_to_redis_before_it_owns_a_partition(world: Worlds, server: RedisServer, tmp_path: Path) -> None:
    orders = world(2)
    orders.url = f"{server.url}?client_name={tmp_path.name}"
    orders.fleet_here()
    columns = "partition", F.col("value").cast("string").alias("value")
    query = written(orders, lambda rows: rows.select(*columns), tmp_path / "table")
    orders.send(*numbers(20))
    wait_for(orders.committed, "all is committed")
    with redis.Redis.from_url(server.url) as client:
        before = set(client.scan_iter("pq:*"))
        new = replaced(orders)
        [pid] = executor_pids(new)
        wait_for(lambda: ports(pid) & {one["addr"].rpartition(":")[2] for one in client.client_list()}, "it has connected")
        wait_for(lambda: new in orders.session.status.executors, "it is a member")
        assert set(client.scan_iter("pq:*")) == before, "it has left keys behind"
    orders.share_out(2)
    orders.send(*numbers(20, 20))
    wait_for(orders.committed, "all is committed")
    query.stop()
    assert values(orders.spark, tmp_path / "table") == numbers(40)


def test_a_new_executor_calls_sparks_own_functions_before_rows_come(world: Worlds, tmp_path: Path) -> None:
    """What functions load at their first call, such as Unicode rules for upper(), would hold up all partitions."""
    orders = world(2)
    orders.fleet_here()
    columns = "partition", F.upper(F.col("value").cast("string")).alias("value")
    query = written(orders, lambda rows: rows.select(*columns), tmp_path / "table")
    orders.send(*numbers(20))
    wait_for(orders.committed, "all is committed")
    [pid] = executor_pids(replaced(orders))
    wait_for(lambda: "com.ibm.icu.impl.UCharacterProperty" in objects(pid), "upper() has been called")
    orders.share_out(2)
    orders.send(*numbers(20, 20))
    wait_for(orders.committed, "all is committed")
    query.stop()
    assert values(orders.spark, tmp_path / "table") == numbers(40), "and no other row"


def objects(pid: int) -> str:
    """The histogram of the Java process's objects."""
    command = [str(JAVA / "bin" / "jcmd"), str(pid), "GC.class_histogram", "-all"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def ports(pid: int) -> set[str]:
    """The local ports of the process's connections."""
    sockets = {str(one.readlink()) for one in Path(f"/proc/{pid}/fd").iterdir() if one.is_symlink()}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if f"socket:[{fields[9]}]" in sockets:
                found.add(str(int(fields[1].rpartition(":")[2], 16)))
    return found


def test_warming_an_executor_changes_neither_state_nor_results(world: Worlds, tmp_path: Path) -> None:
    orders = world(2)
    orders.fleet_here()
    counts: dict[str, int] = {}

    def keep(rows: DataFrame, batch: int) -> None:
        counts.update({row.value: row["count"] for row in rows.collect()})

    grouped = orders.load().groupBy(F.col("value").cast("string").alias("value")).count()
    query = grouped.writeStream.outputMode("update").foreachBatch(keep)
    orders.query = query.option("checkpointLocation", str(orders.checkpoint)).start()
    orders.send(*numbers(10), *numbers(10))
    wait_for(lambda: counts == dict.fromkeys(numbers(10), 2), "all are counted")
    for nth in (3, 4):
        new = replaced(orders)
        wait_for(lambda: new in orders.session.status.executors, "it is a member")  # noqa: B023 - called in this turn
        orders.share_out(2)
        orders.send(*numbers(10))
        wait_for(lambda: counts == dict.fromkeys(numbers(10), nth), "each is counted once more")  # noqa: B023


def test_the_users_warm_up_runs_in_each_new_executor(world: Worlds, tmp_path: Path) -> None:
    orders = world(2)
    place = Directory(orders.ledger, session=orders.session)
    told = partial(note, tmp_path, 0)
    with Fleet(orders.spark, group=orders.name, queues={orders.name: orders.url}, environment=place, warm_up=told):
        wait_for(lambda: all(workers(tmp_path, executor) for executor in orders.ids()), "it was done in both")
        new = replaced(orders)
        wait_for(lambda: workers(tmp_path, new), "it was done in the one that came for another")
