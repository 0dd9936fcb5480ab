"""The query that a stream is part of, as Spark tells it: a source sees the options of `load()`, not those of `writeStream`."""

import json
from dataclasses import dataclass

from baton.spark.errors import SourceError


@dataclass(frozen=True, slots=True)
class RunningQuery:
    """What counts of it."""

    id: str
    alone: bool = True
    """It has no other source, which would wait while this one waits for entries."""


def running_query(text: str) -> RunningQuery:
    """`text`: JSON, as RunningQuery.java tells it. Raises SourceError for a query that would lose rows, or read none."""
    told = json.loads(text)
    if told.get("asyncProgress"):
        raise SourceError(
            "the query has asyncProgressTrackingEnabled, whose logs say that a batch is done before it is: rows could be lost. "
            "Take this option out of writeStream"
        )
    if told.get("once"):
        raise SourceError(
            "the query has the trigger once, which is one batch; and the first batch of a query has no rows, for it writes down "
            "where the query begins. Use trigger(availableNow=True), which reads all that is there and ends"
        )
    batch, batch_of_files = told.get("batch", -1), told.get("batchOfFiles", -1)
    if batch_of_files > batch:
        raise SourceError(
            f"the folder that the query writes to has batches up to {batch_of_files}, and its checkpoint up to {batch}: "
            "that is new, or older. Spark's file sink skips the batches that it has, and rows would be lost. Give the query "
            "another path, or the checkpoint that belongs to these files"
        )
    return RunningQuery(told["id"], told.get("sources", 1) <= 1)
