"""A driver whose batches wait for a file. Run by spark-submit, whose JVM is the first process, as in cluster mode."""

import json
import logging
import sys
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from baton.spark import Fleet
from tests.integration.spark.chaos_driver import Place, Surrounding
from tests.local_spark import local_spark
from tests.waiting import HOUR, until

HELD, GO_ON = "held", "go-on"
"""Files in its folder: a batch runs; the batch may end."""


def main(place: Place) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    spark = local_spark(Path(place.temporary_files), "512m")

    def hold(rows: DataFrame, batch: int) -> None:
        if batch:  # the first has no rows
            print(f"batch {batch}: {rows.count()} rows", flush=True)
            Path(place.table, HELD).touch()
            until(Path(place.table, GO_ON).exists, "the batch may end", HOUR)

    def start(rows: DataFrame) -> StreamingQuery:
        return rows.writeStream.foreachBatch(hold).option("checkpointLocation", place.checkpoint).start()

    queues = {place.queue.rpartition("/")[2]: place.redis}
    Fleet(spark, group=place.group, queues=queues, environment=Surrounding(place), grace=HOUR).run(start)


if __name__ == "__main__":
    main(Place(**json.loads(sys.argv[1])))
