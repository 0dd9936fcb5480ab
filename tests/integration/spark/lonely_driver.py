"""A driver that serves its queues, or runs a query, and prints the process id of its JVM. Its queue does not exist."""

import json
import logging
import sys
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from baton.spark import Fleet
from tests.integration.spark.chaos_driver import Place, Surrounding
from tests.local_spark import local_spark

JVM = "JVM: "
"""Start of the line with the process id, once the fleet has started."""
QUERY = "the query runs"


class Work(NamedTuple):
    """The arguments, as JSON."""

    place: Place
    serves: bool
    """Whether to serve; otherwise it runs a query."""


def main(work: Work) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    spark = local_spark(Path(work.place.temporary_files), "512m")

    def start(rows: DataFrame) -> StreamingQuery:
        others = spark.readStream.format("rate").load()
        query = others.writeStream.format("noop").option("checkpointLocation", work.place.checkpoint).start()
        print(QUERY, flush=True)
        return query

    queues = {work.place.queue.rpartition("/")[2]: work.place.redis}
    fleet = Fleet(spark, group=work.place.group, queues=queues, environment=Surrounding(work.place)).start()
    java = spark.sparkContext._jvm
    assert java is not None
    print(f"{JVM}{java.java.lang.ProcessHandle.current().pid()}", flush=True)
    if work.serves:
        fleet.serve()
    else:
        fleet.run(start)


if __name__ == "__main__":
    place, serves = json.loads(sys.argv[1])
    main(Work(Place(**place), serves))
