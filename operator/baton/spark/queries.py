"""A group's queries in this application: which run, their failures, and their end."""

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

# -- how soon a failed query is started again, and when the group is to say it

_FIRST = 1.0
_LONGEST = 60.0
_SIX = 6
_REST = re.compile(r"^(?:=== Streaming Query ===|JVM stacktrace:|The API gave the following container statuses:)", re.MULTILINE)
"""Begins what comes with an error and does not say what went wrong: a plan, a trace, all that is known of a pod that ended."""
_OF_ROWS = re.compile(
    r"py4j\.Py4JException|org\.apache\.spark\.(Spark\w*Exception|api\.python\.\w+|.*\.ForeachBatchUserFuncException)"
)
"""Classes of what ends a query where a function raised or a job was aborted."""
_OF_LOGS = "[CONCURRENT_STREAM_LOG_UPDATE]"
"""What begins so is of such a class, too: a batch is in Spark's log already that it was about to write there."""
_STATE = re.compile(r"(?:\s*SQLSTATE: \w+)+\s*$")
_TASK = re.compile(r"^(?:.*most recent failure: Lost task [^:]*: |Caused by: )")
"""Which task it was, and that it was one: as long as what it says."""
_QUERY = re.compile(r"^\[STREAM_FAILED\] Query \[id = [^\]]*\] terminated with exception: ")
"""Of which query it is: its ids are other ones at each start, and longer than what may have gone wrong."""
_WORDLESS = re.compile(r"Caused by: [\w.$]+")
"""A cause of which there is the class only, as where a Python worker was killed."""


@dataclass(frozen=True, slots=True)
class QueryFailures:
    """In a row: since a batch was done."""

    count: int = 0
    of_batch: int = 0
    """Of these, for the entries of one batch: the same ones each time, for Spark repeats it until it is done."""
    entries: frozenset[Range] = frozenset()
    """These, as ranges."""
    batches_done: int = 0
    """When the last one failed, of the whole fleet."""
    batch: str = ""
    error: str = ""

    def and_another(self, batches_done: int, batch: str, error: str, entries: frozenset[Range] = frozenset()) -> "QueryFailures":
        """The query has failed. `batch`: what it was at; `error`: one line. `entries`: those that it failed for; none where
        that is not known to be their fault."""
        before = self if batches_done == self.batches_done else QueryFailures()
        if entries:
            of_batch = before.of_batch + 1 if entries == before.entries else 1
            before = replace(before, of_batch=of_batch, entries=entries)
        return replace(before, count=before.count + 1, batches_done=batches_done, batch=batch, error=error)

    @property
    def pause(self) -> float:
        """Seconds until the next try: one, and twice as many after each further failure, up to a minute."""
        return min(_LONGEST, _FIRST * 2 ** min(self.count - 1, _SIX)) if self.count else 0.0

    def trouble(self, batches_done: int, told_after: int) -> str:
        """What the group is to say of it; empty: nothing, or it is over."""
        if self.count < told_after or batches_done != self.batches_done:
            return ""
        return f"The query has failed {self.count} times in a row at {self.batch or 'its start'}: {self.error}"


def of_rows(cause: str, words: str) -> bool:
    """`cause`: the class of what has ended a query; `words`: its text. A function or a task raised it, and not what Spark does
    around them, such as to write down that a batch is done: then the sink may have its rows."""
    return _OF_ROWS.fullmatch(cause) is not None and not words.startswith(_OF_LOGS)


def last_line(error: str, most: int = 300) -> str:
    """What an exception of Spark says, without the traces and the plan that it carries: the last line that is of neither, and
    says more than a class."""
    said = _REST.split(error, maxsplit=1)[0]
    lines = [_STATE.sub("", line).strip() for line in said.splitlines()]
    told = [
        line for line in lines if line and not line.startswith(("at ", "File ", "...", "===", "Traceback", "^", "Driver stack"))
    ]
    worded = [line for line in told if not _WORDLESS.fullmatch(line)]
    last = (worded or told or [error.strip()])[-1]
    return _QUERY.sub("", _TASK.sub("", last))[:most]


# -- the queries that run in an application: `spark.streams` has only those of its session


Running = Callable[[], Mapping[str, Any]]
"""The queries that run now, as the JVM has them, by Spark's id."""


def running_in(spark: SparkSession) -> Running:
    """In all sessions of the application: they share one list."""
    session: Any = spark._jsparkSession

    def running() -> Mapping[str, Any]:
        return {query.id().toString(): query for query in session.sharedState().activeStreamingQueries().values()}

    return running


def query_of_this_thread(spark: SparkSession) -> str:
    """Spark's id of the query whose function for a batch this thread runs; empty: none."""
    try:
        return str(spark.sparkContext.getLocalProperty("sql.streaming.queryId") or "")
    except Exception:  # Spark or its JVM has gone: nothing runs
        return ""


def stop_queries(running: Running, ids: Iterable[str]) -> None:
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


# -- the queries of the group


class GroupQueries:
    """Of one fleet."""

    def __init__(self, spark: SparkSession, running: Running, decisions: Decisions, queues: FleetQueues) -> None:
        self._spark, self._running, self._decisions, self._queues = spark, running, decisions, queues

    def set_aside(self, failures: int, why: str) -> None:
        """Move what the query that ended last could not work on to the dead letters. What cannot be moved now is at the next
        failure."""
        query, ranges = self._decisions.unfinished()
        try:
            answers = self._queues.set_aside(query, ranges, failures, why)
        except QueueAwayError:
            return  # it is told already
        for one, answer in answers.items():
            moved = isinstance(answer, SetAside)
            done = "is in the dead letters now" if moved else "could not be set aside: a later query or a pod reads it"
            log.error("%s/%s from %s to %s %s: %s", *one.partition, one.start + 1, one.end, done, why)

    def in_batch(self) -> bool:
        """A query's function for a batch calls."""
        query = query_of_this_thread(self._spark)
        return bool(query) and query in self._ids()

    def busy(self) -> bool:
        """A batch runs, perhaps one without rows, of which no stream hears."""
        running = self._running()
        return any(
            stream.busy()
            or (not stream.held and stream.query_id in running and running[stream.query_id].status().isTriggerActive())
            for stream in self._decisions.streams()
        )

    def stop(self) -> None:
        """Those that run."""
        stop_queries(self._running, self._ids())

    def _ids(self) -> set[str]:
        """By Spark."""
        return {stream.query_id for stream in self._decisions.streams()}
