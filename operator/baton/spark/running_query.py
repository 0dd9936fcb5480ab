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
    return RunningQuery(told["id"], told.get("sources", 1) <= 1)
