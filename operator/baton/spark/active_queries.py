"""The streaming queries that run in an application: `spark.streams` knows those of its own session only."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from pyspark.sql import SparkSession

from baton.spark.query_failures import last_line

log = logging.getLogger("baton.spark")


class QueryStatus(Protocol):
    """What a query is at."""

    def isTriggerActive(self) -> bool: ...  # noqa: N802 - Spark's name


class Stoppable(Protocol):
    """A query that runs."""

    def stop(self) -> None: ...


class QueryInJava(Stoppable, Protocol):
    """Likewise, as the JVM has it."""

    def status(self) -> QueryStatus: ...


Running = Callable[[], Mapping[str, QueryInJava]]
"""The queries that run now, by Spark's id."""


def running_in(spark: SparkSession) -> Running:
    """In all sessions of the application: they share one list."""
    session: Any = spark._jsparkSession

    def running() -> Mapping[str, QueryInJava]:
        return {query.id().toString(): query for query in session.sharedState().activeStreamingQueries().values()}

    return running


def query_of_this_thread(spark: SparkSession) -> str:
    """Spark's id of the query whose function for a batch this thread runs; empty: none."""
    try:
        return str(spark.sparkContext.getLocalProperty("sql.streaming.queryId") or "")
    except Exception:  # Spark or its JVM has gone: nothing runs
        return ""


def stop_queries(running: Callable[[], Mapping[str, Stoppable]], ids: Iterable[str]) -> None:
    """Stop those of these that run. One that cannot be stopped keeps no other from it."""
    try:
        found = running()
    except Exception as error:  # the JVM has gone, and they with it
        log.warning("the queries that run are not known, and none is stopped: %s", last_line(str(error)))
        return
    for one in sorted(found.keys() & set(ids)):
        try:
            found[one].stop()
        except Exception as error:  # of Spark, or of the query
            log.warning("query %s could not be stopped: %s", one, last_line(str(error)))
