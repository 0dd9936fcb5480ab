"""A driver in its own process, with a Lease that lapses within seconds: `driver_program.py TASK PLACE`."""

import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from baton.consumer.api_server import ApiConnection, KubernetesLease
from baton.model.names import driver_lease_name
from baton.spark import Fleet
from baton.spark.environment import FleetEnvironment
from baton.spark.ledger import LedgerView, MountedLedger
from baton.spark.session import DriverSession, FleetSession
from tests.local_spark import local_spark
from tests.waiting import HOUR, until

TERM = 4.0
"""Seconds after which another driver may take the Lease of a driver that does not renew it."""
HELD, GO_ON = "held", "go-on"
"""Files in the folder of `hold`: a batch runs; the batch may end."""
JVM = "JVM: "
"""Start of the line with the process id of the JVM, once the fleet has started."""
QUERY = "the query runs"


class Place(NamedTuple):
    """Where a driver finds everything, as JSON."""

    name: str
    api: str
    token: str
    redis: str
    queue: str
    group: str
    ledger: str
    checkpoint: str
    table: str
    temporary_files: str


class Surrounding(FleetEnvironment):
    """An environment with an API server that has only Leases, and a ledger in a folder."""

    namespace = "default"

    def __init__(self, place: Place) -> None:
        self._place = place
        self._api = ApiConnection.from_environment({"BATON_API_SERVER": place.api, "BATON_API_TOKEN": place.token})

    def ledger(self, group: str) -> LedgerView:
        return MountedLedger(Path(self._place.ledger))

    def session(self, group: str) -> FleetSession:
        lease = KubernetesLease(self._api, self.namespace, driver_lease_name(group))
        return DriverSession(lease, group, self._place.name, TERM, TERM / 8)


def fleet(spark: SparkSession, place: Place, **options: Any) -> Fleet:
    queues = {place.queue.rpartition("/")[2]: place.redis}
    return Fleet(spark, group=place.group, queues=queues, environment=Surrounding(place), **options)


# -- the tasks

Task = Callable[[SparkSession, Place], None]


def to_files(spark: SparkSession, place: Place) -> None:
    """Run a query into files."""
    spark.conf.set("spark.sql.streaming.fileSink.log.compactInterval", "5")

    def start(rows: DataFrame) -> StreamingQuery:
        values = rows.select("partition", "offset", F.col("value").cast("string").alias("value"))
        writer = values.writeStream.format("parquet").option("path", place.table)
        return writer.option("checkpointLocation", place.checkpoint).start()

    fleet(spark, place, holdup_timeout=2.0, repeat_wait=5.0).run(start, options={"maxRowsPerTrigger": 400})


def hold(spark: SparkSession, place: Place) -> None:
    """Run a query whose batches wait for a file."""

    def batch(rows: DataFrame, number: int) -> None:
        if number:  # the first has no rows
            print(f"batch {number}: {rows.count()} rows", flush=True)
            Path(place.table, HELD).touch()
            until(Path(place.table, GO_ON).exists, "the batch may end", HOUR)

    def start(rows: DataFrame) -> StreamingQuery:
        return rows.writeStream.foreachBatch(batch).option("checkpointLocation", place.checkpoint).start()

    fleet(spark, place, grace=HOUR).run(start)


def serve(spark: SparkSession, place: Place) -> None:
    _started(spark, place).serve()


def run_another(spark: SparkSession, place: Place) -> None:
    """Run a query that does not read the group."""

    def start(rows: DataFrame) -> StreamingQuery:
        others = spark.readStream.format("rate").load()
        query = others.writeStream.format("noop").option("checkpointLocation", place.checkpoint).start()
        print(QUERY, flush=True)
        return query

    _started(spark, place).run(start)


def _started(spark: SparkSession, place: Place) -> Fleet:
    """Start a fleet, and print the process id of the JVM."""
    made = fleet(spark, place).start()
    java = spark.sparkContext._jvm
    assert java is not None
    print(f"{JVM}{java.java.lang.ProcessHandle.current().pid()}", flush=True)
    return made


def arguments(task: Task, place: Place) -> list[str]:
    return [task.__name__, json.dumps(place._asdict())]


def command(task: Task, place: Place) -> list[str]:
    return [sys.executable, "-m", __name__, *arguments(task, place)]


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    at = Place(**json.loads(sys.argv[2]))
    [chosen] = [one for one in (to_files, hold, serve, run_another) if one.__name__ == sys.argv[1]]
    chosen(local_spark(Path(at.temporary_files), "512m"), at)
