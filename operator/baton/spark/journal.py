"""Which ranges a batch was begun with, kept in the query's checkpoint.

Spark repeats the batch that was unfinished when its driver died, under the same id, and a sink may rely on that: it skips an id
that it has seen. So a batch that is repeated must not have entries that it did not have before; they would be skipped, and
lost. The journal says what it had. What of it the queue has committed meanwhile is not repeated: the queue's committed id is
the truth.
"""

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import SparkSession

from baton.model.ids import QueueName
from baton.queues.entry import Plan
from baton.spark.batch import Range, plan_from_list, plan_to_list

log = logging.getLogger("baton.spark")

Begun = Mapping[tuple[QueueName, int], Plan]
"""The plan of each partition of a batch, by queue and number."""


class Journal:
    """One small file per batch, of which the last two are kept; on any file system that Spark can write its checkpoint to."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._jvm = jvm
        self._folder = jvm.org.apache.hadoop.fs.Path(checkpoint, "baton")
        self._files = self._folder.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())

    def begun(self, batch_id: int) -> Begun | None:
        """What this batch was begun with; None: it was not, or the driver died before anybody had seen it."""
        path = self._path(batch_id)
        if not self._files.exists(path):
            return None
        stream = self._files.open(path)
        try:
            text = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        try:
            return {(QueueName(queue), number): plan_from_list(plan) for queue, number, plan in json.loads(text)}
        except ValueError:
            log.info("the journal of batch %d is incomplete: the batch had not begun", batch_id)
            return None

    def begin(self, batch_id: int, ranges: Iterable[Range]) -> None:
        """To be called before the user's function sees the batch."""
        text = json.dumps([[one.grant.queue, one.grant.partition, plan_to_list(one.plan)] for one in ranges])
        stream = self._files.create(self._path(batch_id), True)
        stream.write(text.encode())
        stream.close()
        self._files.delete(self._path(batch_id - 2), False)

    def _path(self, batch_id: int) -> object:
        return self._jvm.org.apache.hadoop.fs.Path(self._folder, str(batch_id))
