"""Implements the Java interface `dev.baton.spark.Decisions`, through which the JVM's part of the source asks Python.

Arguments and answers are JSON, except names and ids. Errors are answers too: an exception would reach the user as a py4j
traceback.
"""

import itertools
import json
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from baton.model.ids import QueueName
from baton.model.wording import one_line, quoted
from baton.spark.context import FleetContext
from baton.spark.offsets import (
    AskAgain,
    SourceError,
    batch_options,
    offset_text,
    parse_offset,
    stream_options,
)
from baton.spark.queues import Range
from baton.spark.ranges import batch_read
from baton.spark.stream import RunningQuery, Stream, running_query

log = logging.getLogger("baton.spark")

_LONGEST = 2000
"""Most characters of an unexpected error."""
_opened = itertools.count(1)
"""Numbers in the names of streams. Names must differ across fleets, because the JVM keeps the tasks' reports by name."""
_CHECKPOINT = "checkpointlocation"
"""The source's folder in the query's checkpoint, which Spark passes as an option."""


class Decisions:
    """The decisions of one fleet. One of its streams reads at a time, because the queues reject the earlier of two queries."""

    def __init__(self, context: FleetContext, active: Callable[[], frozenset[str]], stop_fleet: Callable[[], None]) -> None:
        """`active`: returns the ids of the application's running queries."""
        self._context, self._active, self._stop_fleet = context, active, stop_fleet
        self._streams: dict[str, Stream] = {}
        self._last_plan = ""
        self._ended: Stream | None = None
        self._lock = threading.Lock()

    # -- called by Spark through py4j: the names are those of the Java interface

    def open(self, options: str, query: str) -> str:
        return _answered(lambda: {"stream": self._open(json.loads(options), running_query(query)).name})

    def initialOffset(self, stream: str) -> str:  # noqa: N802
        """An empty offset, because Spark does not log it and asks again after a restart. The first batch names the positions."""
        return _answered(lambda: offset_text({}))

    def latestOffset(self, stream: str, start: str) -> str:  # noqa: N802
        def latest(stream: Stream) -> str:
            return offset_text(stream.latest_offset(start), stream.log_ids)

        return _answered(lambda: latest(self._stream(stream)))

    def plan(self, stream: str, start: str, end: str, batch: str) -> str:
        return _answered(lambda: self._stream(stream).plan(start, end, batch))

    def commit(self, stream: str, end: str) -> str:
        return _answered(lambda: self.done(stream, end))

    def metrics(self, stream: str, consumed: str) -> str:
        return _answered(lambda: self._stream(stream).metrics(parse_offset(consumed)))

    def prepareAvailableNow(self, stream: str) -> str:  # noqa: N802
        return _answered(lambda: self._stream(stream).prepare_available_now())

    def stop(self, stream: str) -> str:
        return _answered(lambda: self._close(stream))

    def batch(self, options: str) -> str:
        return _answered(lambda: self._batch(json.loads(options)))

    def jvmEnds(self) -> str:  # noqa: N802
        log.info("told to stop: the JVM ends")
        return _answered(self._stop_fleet)

    # -- called by the fleet

    def done(self, stream: str, end: str) -> None:
        """Pass on that Spark has logged everything up to this offset as done. Ignores unknown streams."""
        if found := self._streams.get(stream):
            found.done(parse_offset(end))

    def streams(self) -> list[Stream]:
        return list(self._streams.values())

    def last_plan(self) -> str:
        """Description of the batch that was planned last; empty if none was."""
        return next((stream.last_plan for stream in reversed(self.streams())), "") or self._last_plan

    def forget_ended(self) -> None:
        """Forget the ended query's unfinished ranges, because a new query starts."""
        self._ended = None

    def unfinished(self) -> tuple[Mapping[QueueName, int], tuple[Range, ...]]:
        """`Stream.unfinished` of the query that ended last."""
        return self._ended.unfinished if self._ended is not None else ({}, ())

    def _stream(self, name: str) -> Stream:
        found = self._streams.get(name)
        if found is None:
            raise SourceError(f"{name} has ended: the fleet of group {self._context.group} was stopped or started again")
        return found

    def _open(self, options: dict[str, str], query: RunningQuery) -> Stream:
        place = options.pop(_CHECKPOINT, "")
        checked = stream_options(options, self._context.group, self._context.queues.names)
        if why := self._context.over():
            raise SourceError(why)
        active = self._active()
        with self._lock:
            for other in self.streams():
                again = other.query_id == query.id and other.place == place
                if other.query_id in active and not again:
                    raise SourceError(self._conflict(other, query.id))
                self._close(other.name)  # Spark does not close the sources of a query that failed before it had all of them
            stream = Stream(f"{self._context.group}-{next(_opened)}", query, place, checked, self._context)
            self._streams[stream.name] = stream
        return stream

    def _conflict(self, other: Stream, query_id: str) -> str:
        if other.query_id == query_id:
            return (
                f"the query reads group {self._context.group} twice, as in a self-join: load it once. To compare rows with each "
                "other, use a stateful operator, or write them to a table first; two different groups can be joined"
            )
        return (
            f"query {quoted(other.query_id)} already reads group {self._context.group}: stop it first. Only one query at a time "
            "can read a group; to write to several sinks, use foreachBatch"
        )

    def _close(self, name: str) -> None:
        if stream := self._streams.pop(name, None):
            self._last_plan = stream.last_plan
            stream.stop()
            self._ended = stream

    def _batch(self, options: dict[str, str]) -> dict[str, Any]:
        options.pop(_CHECKPOINT, None)
        checked = batch_options(options, self._context.group, self._context.queues.names)
        return batch_read(checked, self._context.queues)

    class Java:  # read by py4j
        implements = ("dev.baton.spark.Decisions",)


def _answered(what: Callable[[], Any]) -> str:
    """Call `what`, and return its result, or its error, as JSON. A string result is already JSON."""
    try:
        answer = what()
        if isinstance(answer, str):
            return answer
        return json.dumps({} if answer is None else answer, separators=(",", ":"))
    except AskAgain as waiting:
        return json.dumps({"again": waiting.milliseconds})
    except SourceError as error:
        return json.dumps({"error": str(error)})
    except Exception as error:
        log.exception("unexpected error in the source")
        return json.dumps({"error": one_line(f"{type(error).__name__}: {error}", _LONGEST)})
