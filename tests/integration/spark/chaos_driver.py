"""One of two drivers of a group, as a process: runs a query into files, under a Lease that lapses within seconds."""

import json
import logging
import sys
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from baton.consumer.api_server import ApiConnection, KubernetesLease
from baton.model.names import driver_lease_name
from baton.spark import Fleet
from baton.spark.environment import FleetEnvironment
from baton.spark.ledger import LedgerView, MountedLedger
from baton.spark.session import DriverSession, FleetSession
from tests.local_spark import local_spark

TERM = 4.0
"""Seconds after which another driver may take the Lease of a driver that does not renew it."""


class Place(NamedTuple):
    """The arguments of a driver, as JSON."""

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


def main(place: Place) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    spark = local_spark(Path(place.temporary_files), "512m")
    spark.conf.set("spark.sql.streaming.fileSink.log.compactInterval", "5")

    def start(rows: DataFrame) -> StreamingQuery:
        values = rows.select("partition", "offset", F.col("value").cast("string").alias("value"))
        writer = values.writeStream.format("parquet").option("path", place.table)
        return writer.option("checkpointLocation", place.checkpoint).start()

    queues = {place.queue.rpartition("/")[2]: place.redis}
    fleet = Fleet(spark, group=place.group, queues=queues, environment=Surrounding(place), holdup_timeout=2.0, repeat_wait=5.0)
    fleet.run(start, options={"maxRowsPerTrigger": 400})


if __name__ == "__main__":
    main(Place(**json.loads(sys.argv[1])))
