"""A group's queries in this application, as the driver deals with them: what they had in hand, whether they are at work, and
their end."""

import logging

from pyspark.sql import SparkSession

from baton.queues.logged_ranges import SetAside
from baton.spark.active_queries import Running, query_of_this_thread, stop_queries
from baton.spark.decisions import Decisions
from baton.spark.queue_outages import QueueAwayError
from baton.spark.queues import FleetQueues
from baton.spark.range_placement import Range

log = logging.getLogger("baton.spark")


class GroupQueries:
    """Of one fleet."""

    def __init__(self, spark: SparkSession, running: Running, decisions: Decisions, queues: FleetQueues) -> None:
        self._spark, self._running, self._decisions, self._queues = spark, running, decisions, queues

    def begin(self) -> None:
        """One is about to be started: what was left unfinished is another's."""
        self._decisions.forget_ended()

    def last_plan(self) -> str:
        """The batch that was planned last, for people."""
        return self._decisions.last_plan()

    def unfinished(self) -> frozenset[Range]:
        """What the query that was begun last, and has ended, had of its last batch, and could be read."""
        _, ranges = self._decisions.unfinished()
        return frozenset(ranges)

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
