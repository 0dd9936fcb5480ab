"""A group's queries in this application: finds the running ones, tracks their failures, and stops them."""

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from baton.queues.logged_ranges import SetAside
from baton.spark.decisions import Decisions
from baton.spark.queues import FleetQueues, QueueAwayError, Range

log = logging.getLogger("baton.spark")

# -- failures: the pause before a restart, and when the group reports them

_FIRST = 1.0
_LONGEST = 60.0
_REST = re.compile(r"^(?:=== Streaming Query ===|JVM stacktrace:|The API gave the following container statuses:)", re.MULTILINE)
"""Starts of the parts of an error that do not explain it: a plan, a trace, the details of a terminated pod."""
_OF_ROWS = re.compile(
    r"py4j\.Py4JException|org\.apache\.spark\.(Spark\w*Exception|api\.python\.\w+|.*\.ForeachBatchUserFuncException)"
)
"""Classes of exceptions that end a query if a function raised or a job was aborted."""
_OF_LOGS = "[CONCURRENT_STREAM_LOG_UPDATE]"
"""Start of an error that has such a class too, but another cause: Spark's log already contains the batch."""
_STATE = re.compile(r"(?:\s*SQLSTATE: \w+)+\s*$")
_TASK = re.compile(r"^(?:.*most recent failure: Lost task [^:]*: |Caused by: )")
"""The name of the failed task, as long as the error itself."""
_QUERY = re.compile(r"^\[STREAM_FAILED\] Query \[id = [^\]]*\] terminated with exception: ")
"""The ids of the query, which change with each start and may be longer than the error itself."""
_CLASS_ONLY = re.compile(r"Caused by: [\w.$]+")
"""A cause without a message, such as of a killed Python worker."""


@dataclass(frozen=True, slots=True)
class QueryFailures:
    """Consecutive failures: since a batch was last finished."""

    count: int = 0
    of_batch: int = 0
    """How many of these were for the same batch, which Spark repeats with the same entries until it is done."""
    entries: frozenset[Range] = frozenset()
    """The entries of that batch, as ranges."""
    batches_done: int = 0
    """Finished batches of the fleet at the time of the last failure."""
    batch: str = ""
    error: str = ""

    def and_another(self, batches_done: int, batch: str, error: str, entries: frozenset[Range] = frozenset()) -> "QueryFailures":
        """Add a failure. `batch`: description of the failed batch; `error`: one line. `entries`: the entries of the batch; empty
        unless they may have caused the failure."""
        before = self if batches_done == self.batches_done else QueryFailures()
        if entries:
            of_batch = before.of_batch + 1 if entries == before.entries else 1
            before = replace(before, of_batch=of_batch, entries=entries)
        return replace(before, count=before.count + 1, batches_done=batches_done, batch=batch, error=error)

    @property
    def pause(self) -> float:
        """Seconds until the next try: 1 s, doubled with each further failure, up to 60 s."""
        return min(_LONGEST, _FIRST * 2 ** min(self.count - 1, 6)) if self.count else 0.0

    def trouble(self, batches_done: int, reported_after: int) -> str:
        """The sentence that the group reports; empty before `reported_after` failures and after a finished batch."""
        if self.count < reported_after or batches_done != self.batches_done:
            return ""
        return f"The query has failed {self.count} times in a row at {self.batch or 'its start'}: {self.error}"


def of_rows(cause: str, message: str) -> bool:
    """Whether a function or a task raised the exception that ended a query, given by its class and message. Otherwise Spark
    failed elsewhere, such as at logging that the batch is done, and the sink may have the rows of the batch."""
    return _OF_ROWS.fullmatch(cause) is not None and not message.startswith(_OF_LOGS)


def last_line(error: str, most: int = 300) -> str:
    """The last line of a Spark exception that is more than a class and not part of a trace or plan."""
    head = _REST.split(error, maxsplit=1)[0]
    lines = [_STATE.sub("", line).strip() for line in head.splitlines()]
    outside_traces = [
        line for line in lines if line and not line.startswith(("at ", "File ", "...", "===", "Traceback", "^", "Driver stack"))
    ]
    with_message = [line for line in outside_traces if not _CLASS_ONLY.fullmatch(line)]
    last = (with_message or outside_traces or [error.strip()])[-1]
    return _QUERY.sub("", _TASK.sub("", last))[:most]


# -- the application's running queries: `spark.streams` has only those of one session


Running = Callable[[], Mapping[str, Any]]
"""Returns the running queries, as objects of the JVM, by Spark's id."""


def running_in(spark: SparkSession) -> Running:
    """Find the queries of all sessions of the application, which share one list."""
    session: Any = spark._jsparkSession

    def running() -> Mapping[str, Any]:
        return {query.id().toString(): query for query in session.sharedState().activeStreamingQueries().values()}

    return running


def stop_queries(running: Running, ids: Iterable[str]) -> None:
    """Stop these queries if they run. If one cannot be stopped, the others are stopped all the same."""
    try:
        found = running()
    except Exception as error:  # the JVM is gone, and the queries with it
        log.warning("cannot list the running queries, so none is stopped: %s", last_line(str(error)))
        return
    for one in sorted(found.keys() & set(ids)):
        try:
            found[one].stop()
        except Exception as error:  # any error of Spark or of the query
            log.warning("query %s could not be stopped: %s", one, last_line(str(error)))


# -- the queries of the group


class GroupQueries:
    """The queries of one fleet."""

    def __init__(self, spark: SparkSession, running: Running, decisions: Decisions, queues: FleetQueues) -> None:
        self._spark, self._running, self._decisions, self._queues = spark, running, decisions, queues

    def set_aside(self, failures: int, why: str) -> None:
        """Move the unfinished batch of the query that ended last to the dead letters. If that fails now, it is tried again at
        the query's next failure."""
        query, ranges = self._decisions.unfinished()
        try:
            answers = self._queues.set_aside(query, ranges, failures, why)
        except QueueAwayError:
            return  # already logged
        for one, answer in answers.items():
            if isinstance(answer, SetAside):
                log.error("%s was moved to the dead letters: %s", one, why)
            else:
                log.error("%s could not be moved to the dead letters: a later query or a pod reads it: %s", one, why)

    def in_batch(self) -> bool:
        """Whether the caller is a query's `foreachBatch` function."""
        try:
            query = self._spark.sparkContext.getLocalProperty("sql.streaming.queryId")
        except Exception:  # Spark or its JVM is gone: nothing runs
            return False
        return query in self._ids()

    def busy(self) -> bool:
        """Whether a batch runs. It may be one without rows, of which the streams are not informed."""
        running = self._running()
        return any(
            stream.busy()
            or (not stream.held and stream.query_id in running and running[stream.query_id].status().isTriggerActive())
            for stream in self._decisions.streams()
        )

    def stop(self) -> None:
        stop_queries(self._running, self._ids())

    def _ids(self) -> set[str]:
        return {stream.query_id for stream in self._decisions.streams()}
