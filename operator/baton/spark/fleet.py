"""A fleet: a Spark application whose executors own the partitions of queues."""

import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Self

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from baton.model.ids import QueueName
from baton.model.options import function, number, text, whole
from baton.queues.kinds import with_dead_letters
from baton.spark.environment import FleetEnvironment, here
from baton.spark.executors import Executors, SparkExecutors
from baton.spark.queries import QueryFailures, last_line, of_rows
from baton.spark.running_fleet import RunningFleet, source_classes
from baton.spark.settings import check_spark
from baton.spark.statistics import Counts, FleetView, Statistics

log = logging.getLogger("baton.spark")

StartQuery = Callable[[DataFrame], StreamingQuery]
"""The user's function: given the rows of the group's queues, it starts a query over them."""

CLOSING = 15.0
"""Seconds for giving the group up: the API server may be away."""
_DAY = 86_400
"""Seconds."""


class Fleet:
    """Makes the executors of a Spark application members of a group, and its queues a source: `format("baton")`.

    ```python
    with baton.spark.Fleet(spark, group="orders", queues={"orders": "redis://redis.shop:6379"}):
        rows = spark.readStream.format("baton").option("group", "orders").load()
        rows.writeStream.option("checkpointLocation", "s3a://shop/checkpoint").start("s3a://shop/orders").awaitTermination()
    ```
    """

    def __init__(
        self,
        spark: SparkSession,
        *,
        group: str,
        queues: Mapping[str, str],
        holdup_timeout: float = 60.0,
        repeat_wait: float = 120.0,
        grace: float = 20.0,
        warm_up: Callable[[], object] | None = None,
        metrics_port: int | None = None,
        environment: FleetEnvironment | None = None,
        executors: Executors | None = None,
    ) -> None:
        """`group` is the ConsumerGroup's name, `queues` its queues by name with their URLs.

        `holdup_timeout`: how long executors that missed a deadline may hold up the batch of all others without finishing a
        task: longer than the longest task. `repeat_wait`: how long a batch that the last driver left unfinished waits for owners
        of all its partitions, before others read them. `grace`: how long the batch that runs may go on when the fleet is told to
        stop: longer than a batch, and 20 less than its pod is given. All in seconds.

        `warm_up` is called in a Python worker of each new executor before that executor reads: for what the tasks of your
        `foreachBatch` import and connect to. `metrics_port`: of `/metrics` for Prometheus; none without it. `environment`: the
        Kubernetes cluster, or `baton dev` under `baton dev run`, unless told otherwise. Raises RuntimeError for a Spark of
        another version, and TypeError for a client's session of Spark Connect.
        """
        number("holdup_timeout", holdup_timeout, 0)
        number("repeat_wait", repeat_wait, 0)
        number("grace", grace, 0, _DAY)
        function("warm_up", warm_up)
        if metrics_port is not None:
            whole("metrics_port", metrics_port, 0, 65_535)
        _see_named(group, queues)
        check_spark()
        _of_the_driver(spark)
        self._spark, self._group = spark, group
        self._urls = {QueueName(name): url for name, url in queues.items()}
        self._holdup_timeout, self._repeat_wait, self._grace = holdup_timeout, repeat_wait, grace
        self._warm_up = warm_up
        self._environment = environment or here(dict(spark.sparkContext.getConf().getAll()))
        self._executors = executors or SparkExecutors(spark)
        self._counts = Counts()
        self._metrics_port, self._metrics = metrics_port, ExitStack()
        self._running: RunningFleet | None = None
        self._failures = QueryFailures()
        self._told_after = 1
        self._told_to_stop = False
        self._given_up = threading.Event()
        """It was stopped since its start began."""

    def start(self) -> Self:
        """Become the group's one driver, and serve its queues to this application's queries. Another driver's Lease is waited
        for; a `stop` meanwhile ends the wait. Raises RuntimeError then, and where it, or another fleet of the group, runs in this
        application already, Baton's jar is not there, or `metrics_port` is taken.
        """
        if self._running is not None and self._running.alive():
            raise RuntimeError(f"the fleet of group {self._group} runs already")
        java = source_classes(self._spark)
        if not java.Group.claim(self._group):
            raise RuntimeError(f"another fleet of group {self._group} runs in this application already: use that one, or stop it")
        try:
            self._serve_metrics()
            self._running = None  # a signal while the Lease is waited for is not for the one that has ended
            self._given_up.clear()
            self._running = RunningFleet(
                self._spark,
                java,
                self._group,
                self._urls,
                environment=self._environment,
                executors=self._executors,
                counts=self._counts,
                holdup_timeout=self._holdup_timeout,
                repeat_wait=self._repeat_wait,
                warm_up=self._warm_up,
                query_failure=lambda: self._failures.trouble(self._counts.statistics().batches, self._told_after),
                stop=self.stop,
                stops_within=self._grace + CLOSING,
                given_up=self._given_up.is_set,
            )
            if self._given_up.is_set():
                self._stop(0)
                raise RuntimeError(f"the fleet of group {self._group} was stopped while it started")
        except BaseException:
            self._metrics.close()
            java.Group.release(self._group)
            raise
        return self

    def stop(self, grace: float | None = None) -> None:
        """Begin no further batch, let the one that runs end within `grace` seconds (the fleet's, unless given), end the group's
        queries, release everything and give the group up. What is not finished then comes again to the next driver. Within a
        query's function for a batch it answers at once, and the fleet ends behind that batch.
        """
        if self._running is not None and self._running.queries.in_batch():
            self._stop_meanwhile(grace)
        else:
            self._stop(grace)

    def run(
        self,
        start: StartQuery,
        *,
        options: Mapping[str, Any] | None = None,
        failures: int = 3,
        give_up: bool = False,
        dead_letters: bool = False,
    ) -> None:
        """`start` the fleet and a query, and stay until it has ended. To be called in the main thread of the driver's process.

        `start(rows)` is given the source's DataFrame, read with these `options`, and returns the query that it has started. A
        query that fails, or a `start` that raises, is tried again, after a second and then after longer pauses. After so many
        `failures` in a row of the same batch the ConsumerGroup says so (condition Ready, reason QueryFailed), and the tries go
        on; or, to `give_up`, the error is raised; or its entries go to the `dead_letters` of their queues, and the query goes on
        behind them. On SIGTERM, as Kubernetes sends it to this process or to its JVM, the batch that runs is finished and the
        group given up; a fleet that is run once more after that raises SystemExit. Raises RuntimeError when another driver has
        taken the group or Spark's JVM has gone, and ValueError where a queue keeps no dead letters and is to.
        """
        function("start", start, "rows")
        whole("failures", failures, 1)
        if give_up and dead_letters:
            raise ValueError("give_up and dead_letters are two ends of a batch that always fails: choose one")
        self._told_after, self._failures = failures, QueryFailures()
        with self._at_work() as running:
            if dead_letters and (without := running.without_dead_letters()):
                raise ValueError(f"dead_letters is for queues of {with_dead_letters()}: {', '.join(sorted(without))} keeps none")
            while not running.ending():
                error = self._run_query(running, start, options or {})
                if error is None or running.ending():
                    break
                self._counts.add("query_failures")
                ran = isinstance(error, StreamingQueryException)
                why, batch = _failed(error), running.decisions.last_plan() if ran else ""
                entries = frozenset(running.decisions.unfinished()[1]) if _failed_for_rows(error) else frozenset()
                self._failures = self._failures.and_another(self._counts.statistics().batches, batch, why, entries)
                if give_up and self._failures.count >= failures:
                    raise error
                if dead_letters and entries and (times := self._failures.of_batch) >= failures:
                    running.queries.set_aside(times, f"its batch failed {times} times in a row: {why}")
                told = "the query failed at %s and is started again in %.0f s: %s"
                log.warning(told, batch or "its start", self._failures.pause, why, exc_info=None if ran else error)
                running.wait(self._failures.pause)
                running.queries.stop()  # a `start` that raised may have begun one

    def serve(self) -> None:
        """`start` the fleet, and stay while the queries of others read its queues: those of a Spark Connect server's clients. To
        be called in the main thread of the driver's process. On SIGTERM, as Kubernetes sends it, the batch that runs is finished,
        the group's queries end, and the group is given up. Raises RuntimeError when another driver has taken the group, or
        Spark's JVM has gone.
        """
        with self._at_work() as running:
            running.closed.wait()

    def statistics(self) -> Statistics:
        """What has been counted since this object was made."""
        return self._counts.statistics()

    def view(self) -> FleetView:
        """What the driver sees now: partitions, lag, and where its time goes. Empty while the fleet does not run."""
        return self._running.view() if self._running is not None and self._running.alive() else FleetView()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _serve_metrics(self) -> None:
        self._metrics.close()
        if self._metrics_port is not None:
            from baton.spark.metrics import MetricsServer  # which needs prometheus-client

            self._metrics.callback(MetricsServer(self._metrics_port, self._group, self).close)

    def _begun(self) -> RunningFleet:
        """The one that runs; started, where none does."""
        if self._running is None or not self._running.alive():
            self.start()
        assert self._running is not None
        return self._running

    def _run_query(self, running: RunningFleet, start: StartQuery, options: Mapping[str, Any]) -> Exception | None:
        """The error that ended it, or kept it from its start; None: it was stopped, or had nothing more to do."""
        running.decisions.forget_ended()
        try:
            rows = self._spark.readStream.format("baton").option("group", self._group).options(**options).load()
            query = start(rows)
        except Exception as error:
            return error
        if not isinstance(query, StreamingQuery):
            raise TypeError(f"start is to return the StreamingQuery that it has started, and returned {query!r}")
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            return error
        return None

    @contextmanager
    def _at_work(self) -> Iterator[RunningFleet]:
        """The fleet, started, and stopped at the end. SIGTERM is for it meanwhile, and the program's own business before and
        after; one that puts the fleet to work again and again ends, too. Raises RuntimeError where the fleet was not stopped.
        """
        if self._told_to_stop:
            raise SystemExit(128 + signal.SIGTERM)
        before = signal.signal(signal.SIGTERM, self._terminate)
        try:
            running = self._begun()
            try:
                yield running
            finally:
                self.stop()
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)
        if running.lost:
            raise RuntimeError(running.lost)

    def _terminate(self, number: int, frame: object) -> None:
        log.info("told to stop (signal %d)", number)
        self._told_to_stop = True
        if self._running is None or self._running.closed.is_set():
            raise SystemExit(128 + number)
        self._stop_meanwhile()

    def _stop_meanwhile(self, grace: float | None = None) -> None:
        """No daemon: a program that has nothing more to do ends behind it."""
        threading.Thread(target=self._stop, args=(grace,), name="baton-stop").start()

    def _stop(self, grace: float | None) -> None:
        self._given_up.set()
        if self._running is not None:
            self._running.stop(self._grace if grace is None else grace)
            self._running.closed.wait(CLOSING)
        self._metrics.close()


def _failed(error: Exception) -> str:
    """One line."""
    return last_line(str(error) if isinstance(error, StreamingQueryException) else f"{type(error).__name__}: {error}")


def _failed_for_rows(error: Exception) -> bool:
    """See `of_rows`."""
    origin: Any = getattr(error, "_origin", None) if isinstance(error, StreamingQueryException) else None
    cause = origin.getCause() if origin is not None else None
    return cause is not None and of_rows(str(cause.getClass().getName()), str(cause.getMessage()))


def _of_the_driver(spark: object) -> None:
    """Spark Connect's own class is not imported: it needs grpc."""
    if type(spark).__module__.startswith("pyspark.sql.connect."):
        raise TypeError(
            "spark is a client's session of Spark Connect, and a fleet is of the driver: start it in the program that starts the "
            'server, with the session that this has made. Clients only read: spark.readStream.format("baton")'
        )


def _see_named(group: object, queues: object) -> None:
    """URLs are not repeated: they may have passwords."""
    text("group", group, "the name of the ConsumerGroup")
    if not isinstance(queues, Mapping):
        raise TypeError(f"queues is a {type(queues).__name__}: give the queues of group {group} as a dict of names and URLs")
    if not queues:
        raise ValueError(f"queues is empty: name the queues of group {group}, each with its URL")
    for name, url in queues.items():
        if not isinstance(url, str) or not url:
            raise TypeError(f"queues has no URL for {name!r}: see whether the environment variable that it comes from is set")
