"""A running fleet: everything in the driver beside Spark's own threads."""

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Set
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.core.rdd import RDD
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.serializers import UTF8Deserializer
from pyspark.sql import SparkSession

from baton.model.ids import MemberId, Partition, QueueName
from baton.model.session import Release
from baton.model.wording import first_of
from baton.queues.kinds import with_spark
from baton.spark.context import FleetContext
from baton.spark.decisions import Decisions
from baton.spark.dismissals import Dismissals
from baton.spark.environment import FleetEnvironment
from baton.spark.executor_warm_up import ExecutorWarmUp, Warm
from baton.spark.executors import Executor, Executors, by_pod, location
from baton.spark.finishing import Finishing
from baton.spark.fleet_loop import FleetLoop
from baton.spark.ledger import GrantsInUse
from baton.spark.queries import GroupQueries, running_in
from baton.spark.queues import FleetQueues
from baton.spark.statistics import Counts, FleetView, RangeReport, parse_reports

log = logging.getLogger("baton.spark")

# -- how long a start takes

STEPS = ("Spark", "Lease", "executors", "partitions", "first batch")
"""In order: Spark's context exists; the Lease is held; an executor is warm; a partition has an owner; a batch is done."""

LATE = 30.0
"""Seconds at one step after which the log says what the fleet waits for."""

_WAITING = {
    "executors": "no executor has finished its first, empty task yet: check that the executors' pods exist and run (kubectl get "
    "pods -l spark-role=executor), and what the driver's log says about them; if heartbeats timed out, the machine is too busy: "
    "set a longer executor_timeout in baton.spark.conf",
    "partitions": "no executor owns a partition yet: kubectl describe consumergroup {group} shows what the group waits for, and "
    "baton doctor shows what its pods lack",
}


class StartTimes:
    """Times the steps from the start of the process to the first batch. Thread-safe."""

    def __init__(self, group: str, begun: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """`begun`: the start of the process, on `clock`."""
        self._group = group
        self._clock = clock
        self._warned = ""
        """The last step whose delay was logged."""
        self._last = self._begun = clock() - _age() if begun is None else begun
        self._seconds: dict[str, float] = {}
        self._lock = threading.Lock()

    def done(self, step: str) -> None:
        """Record the end of a step, once. The last step logs all durations."""
        with self._lock:
            if step in self._seconds or STEPS[-1] in self._seconds:
                return
            now = self._clock()
            self._seconds[step] = now - self._last
            self._last = now
        if step == STEPS[-1]:
            each = ", ".join(f"{name} {seconds:.1f}" for name, seconds in self._seconds.items())
            log.info("the first batch is done %.1f s after the start of the driver (seconds: %s)", now - self._begun, each)

    def look(self) -> None:
        """If a step takes long, log once what the fleet waits for."""
        with self._lock:
            step = next((step for step in STEPS if step not in self._seconds), "")
            late = self._clock() - self._last > LATE and step != self._warned
        if late and step in _WAITING:
            self._warned = step
            log.warning("group %s has waited for %.0f s: %s", self._group, LATE, _WAITING[step].format(group=self._group))

    def over(self) -> bool:
        """Whether the last step has ended."""
        return STEPS[-1] in self._seconds


def _age() -> float:
    """Seconds since this process started."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


# -- whether Spark still runs: a killed JVM sends no notice

_UNANSWERED = 3
"""Consecutive failed calls after which the JVM counts as gone."""


class SparkLife:
    """Polls whether Spark runs. For one thread; any thread may read."""

    def __init__(self, stopped: Callable[[], bool]) -> None:
        """`stopped`: asks the JVM whether Spark was stopped. Raises an error of py4j if there is no JVM."""
        self._stopped = stopped
        self._unanswered = 0
        self.runs = True
        self.gone = ""
        """Why the JVM counts as gone; empty while it does not."""

    def look(self) -> None:
        try:
            self.runs = not self._stopped()
        except Exception as error:  # a temporary error of py4j, or there is no JVM any more
            self._unanswered += 1
            if self._unanswered >= _UNANSWERED:
                self.runs, self.gone = False, f"Spark's JVM is gone ({error})"
        else:
            self._unanswered = 0


def stopped(spark: SparkSession) -> bool:
    """Whether Spark was stopped, by the holder of the session or by itself. Asks the JVM."""
    context = spark.sparkContext._jsc
    return context is None or bool(context.sc().isStopped())


# -- queues that are missing in Fleet(queues=…)


def unread_queues(partitions: Set[Partition], named: Set[QueueName]) -> str:
    """Describe the queues of the fleet's partitions that are not `named`, and the fix; empty if there are none."""
    unread = sorted({partition.queue for partition in partitions} - named)
    if not unread:
        return ""
    which = "queue" if len(unread) == 1 else "queues"
    return (
        f"The fleet owns partitions of {which} {first_of(unread, 5)} and does not read them: add each with its URL to the queues "
        f"of baton.spark.Fleet, or remove it from the ConsumerGroup's spec.queues. (Spark reads queues of {with_spark()}.)"
    )


# -- the fleet

_WARMING = 30.0
"""Seconds after which a new executor reads even if it is not warm."""
_POLL = 0.05
"""Seconds."""
_FINISHING = 5.0
"""Seconds to finish batches when the fleet ends. The next driver finishes the rest."""


class RunningFleet:
    """The group's only driver. When it has ended for any reason, it closes everything and sets `closed`."""

    def __init__(
        self,
        spark: SparkSession,
        java: Any,
        group: str,
        urls: Mapping[QueueName, str],
        *,
        environment: FleetEnvironment,
        executors: Executors,
        counts: Counts,
        holdup_timeout: float,
        repeat_wait: float,
        warm_up: Callable[[], object] | None,
        query_failure: Callable[[], str],
        stop: Callable[[], None],
        stops_within: float,
        given_up: Callable[[], bool],
    ) -> None:
        """Waits for the Lease. `java`: see `source_classes`; the caller has claimed the group there, and it is released at the
        end. `stop`: stops the fleet if the JVM shuts down, within `stops_within` seconds. Raises RuntimeError if `given_up`
        returns true during the wait."""
        self._spark, self._java, self._group, self._urls = spark, java, group, urls
        self._environment, self._executors, self._counts, self._warm_up = environment, executors, counts, warm_up
        self._holdup_timeout, self._repeat_wait, self._query_failure = holdup_timeout, repeat_wait, query_failure
        self._stop_fleet, self._given_up = stop, given_up
        self._start = StartTimes(group)
        self._start.done("Spark")
        self._life = SparkLife(partial(stopped, spark))
        self._stopping, self._ended, self.closed = threading.Event(), threading.Event(), threading.Event()
        self.lost = ""
        """Why the fleet ended without a `stop`; empty if it did not."""
        self._ready: Mapping[MemberId, Executor] = {}
        self._closing = ExitStack()
        """Closes everything that was started, in reverse order."""
        self._closing.callback(java.Group.release, group)
        try:
            self._begin()
            java.Group.stopBeforeSpark(group, round(stops_within))
        except BaseException:
            self._close()
            raise

    def _begin(self) -> None:
        spark, group, counts = self._spark, self._group, self._counts
        self._queues = FleetQueues(self._urls, self._environment.namespace, group)
        self._closing.callback(self._queues.close)
        self._session = self._environment.session(group)
        self._session.update(app=spark.sparkContext.applicationId)
        self._session.acquire(self._given_up)
        self._closing.callback(self._session.close)
        if self._given_up():
            raise RuntimeError(f"the fleet of group {group} was stopped while it waited for the Lease")
        self._start.done("Lease")
        self._ledger = self._environment.ledger(group)
        self._closing.callback(self._ledger.close)
        leaving = self._environment.leaving(group, self._closing)
        missing_rights = self._environment.missing_rights(group, self._closing)
        grants_in_use = GrantsInUse(self._ledger, self._report_releases)
        self._finishing = Finishing(self._queues, grants_in_use, counts, self._reports)
        self._finishing.start()
        self._closing.callback(self._finishing.close, 0)
        self._context = FleetContext(
            group=group,
            queues=self._queues,
            ledger=self._ledger,
            grants_in_use=grants_in_use,
            executors=lambda: self._ready,
            finishing=self._finishing,
            counts=counts,
            repeat_wait=self._repeat_wait,
            over=self.over,
            lapsed=self._session.lapsed,
            stopping=self._stopping.is_set,
        )
        running = running_in(spark)
        self.decisions = Decisions(self._context, lambda: frozenset(running()), self._stop_fleet)
        self.queries = GroupQueries(spark, running, self.decisions, self._queues)
        self._ledger.on_change(self._queues.interrupt)
        ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call] # pyspark's
        self._java.Group.register(group, self.decisions)
        FleetLoop(
            alive=self._follow,
            ended=self._close,
            ready=self._executors_are,
            ledger=self._ledger,
            grants_in_use=grants_in_use,
            executors=self._executors,
            session=self._session,
            counts=counts,
            executor_warm_up=ExecutorWarmUp(
                self._first_task, self._batch_without_rows, _WARMING, begin=self._begin_warm_up, cancel=self._cancel_warm_up
            ),
            dismissals=Dismissals(leaving, self._executors),
            troubles=lambda: {
                "trouble": self._trouble(),
                "query_failure": self._query_failure(),
                "missing_rights": missing_rights(),
            },
            patience=self._holdup_timeout,
            queues_answer=self._queues.answer,
        ).start()
        grants_in_use.review()

    def alive(self) -> bool:
        """Whether the fleet was not stopped, and still has the group and Spark."""
        return not self._ended.is_set() and not self._session.lost() and self._life.runs

    def over(self) -> str:
        """Why the fleet reads no more; empty while it reads."""
        return self.lost or self._taken() or (f"the fleet of group {self._group} was stopped" if self._ended.is_set() else "")

    def ending(self) -> bool:
        """Whether no further query should be started."""
        return self._stopping.is_set() or bool(self.over())

    def wait(self, seconds: float) -> None:
        """Wait for `seconds`, or until the fleet stops."""
        self._stopping.wait(seconds)

    def without_dead_letters(self) -> frozenset[QueueName]:
        return self._queues.without_dead_letters

    def view(self) -> FleetView:
        """Return the fleet's gauges."""
        behind: dict[Partition, int] = {}
        for stream in self.decisions.streams():
            behind |= stream.rows_behind(stream.position)
        return self._context.view(behind)

    def stop(self, grace: float) -> None:
        """Stop the fleet, as `Fleet.stop` does. A second call waits for the first."""
        if self._stopping.is_set():
            self._ended.wait(grace)
            return
        self._stopping.set()
        self._queues.interrupt()
        until = time.monotonic() + grace
        try:
            while self.queries.busy() and time.monotonic() < until and self.alive():
                time.sleep(_POLL)
            self.queries.stop()
        except Exception as error:  # the JVM is gone, and the queries with it
            log.warning("the queries of group %s could not be stopped: %s", self._group, error)
        finally:
            self._finishing.close(_FINISHING)
            self._ended.set()

    def _follow(self) -> bool:
        """Check whether the fleet still has Spark and the group. Returns whether it continues."""
        self._follow_start()
        self._life.look()
        if not self.lost and (taken := self._taken()):
            self.lost = taken
            log.error("%s", self.lost)
            self.queries.stop()
        if not self.lost and self._life.gone and not self._stopping.is_set():
            self.lost = f"{self._life.gone}: the driver of group {self._group} ends"
            log.error("%s", self.lost)
        return self.alive()

    def _taken(self) -> str:
        who = self._session.lost()
        return f"another driver has taken over group {self._group} ({who}): this driver ends" if who else ""

    def _trouble(self) -> str:
        unread = unread_queues(self._ledger.read().partitions, self._queues.names)
        return " ".join(filter(None, (self._ledger.trouble(), self._queues.trouble(), unread)))

    def _follow_start(self) -> None:
        if self._start.over():
            return
        if self._ready:
            self._start.done("executors")
        if self._ready.keys() & {grant.member for grant in self._ledger.read().owned}:
            self._start.done("partitions")
        if self._counts.statistics().rows:
            self._start.done("first batch")
        self._start.look()

    def _close(self) -> None:
        self._ended.set()
        self._stopping.set()
        try:
            self._closing.close()
        except Exception as error:  # Spark, its JVM or the API server is already gone; ExitStack closes the rest
            log.debug("closing: %s", error)
        log.info("the fleet has ended: %s", self._counts.statistics().to_json())
        self.closed.set()

    def _report_releases(self, releases: frozenset[Release]) -> None:
        self._counts.add("releases", len(releases - self._session.status.releases))
        self._session.update(releases=releases)

    def _executors_are(self, ready: tuple[Executor, ...]) -> None:
        self._ready = by_pod(ready)
        self._queues.interrupt()

    def _first_task(self, executor: Executor) -> None:
        self._tasks(executor, 1).count()

    def _begin_warm_up(self, name: str) -> None:
        # The job group has the fleet's group in its name: other fleets of the application share its executors.
        self._spark.sparkContext.setJobGroup(f"{name}-{self._group}", "Warm up", interruptOnCancel=True)

    def _cancel_warm_up(self, name: str) -> None:
        self._spark.sparkContext.cancelJobGroup(f"{name}-{self._group}")

    def _batch_without_rows(self) -> list[Warm]:
        streams: list[Warm] = [partial(self._stream_without_rows, stream.name) for stream in self.decisions.streams()]
        return streams if self._warm_up is None else [*streams, partial(self._users_warm_up, self._warm_up)]

    def _stream_without_rows(self, stream: str, executor: Executor) -> None:
        self._java.WarmUp.run(stream, location(executor), executor.slots)

    def _users_warm_up(self, warm_up: Callable[[], object], executor: Executor) -> None:
        def called(_: str) -> None:
            warm_up()

        texts = UTF8Deserializer()  # type: ignore[no-untyped-call] # pyspark's
        tasks: RDD[str] = RDD(self._tasks(executor, executor.slots), self._spark.sparkContext, texts)
        tasks.map(called).count()

    def _tasks(self, executor: Executor, count: int) -> Any:
        return self._java.WarmUp.tasks(self._spark.sparkContext._jsc.sc(), location(executor), count)

    def _reports(self, stream: str) -> list[RangeReport]:
        return parse_reports(self._java.RangeReports.drain(stream))


def source_classes(spark: SparkSession) -> Any:
    """Return the package `dev.baton.spark` in the driver's JVM. Raises RuntimeError if Baton's jar is missing there."""
    jvm: Any = spark.sparkContext._jvm
    found = jvm.dev.baton.spark
    if type(found.Group).__name__ == "JavaPackage":
        raise RuntimeError(
            "Baton's jar is not in this Spark application: create the session with the settings of baton.spark.conf(…)"
        )
    return found
