"""`Fleet`, the public face: a Spark application whose executors own the partitions of queues."""

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
"""A user's function that takes the rows of the group's queues and starts a query over them."""

CLOSING = 15.0
"""Seconds to give up the group, because the API server may be unreachable."""
_DAY = 86_400
"""Seconds."""


class Fleet:
    """Makes a Spark application's executors members of a group, and the group's queues readable with `format("baton")`.

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
        """`group` is the name of the ConsumerGroup; `queues` maps the name of each of its queues to a URL.

        Times are in seconds. `holdup_timeout`: how long a task may run on in an executor that missed a hand-off deadline, until
        the executor is killed; set it longer than the longest task of the application. `repeat_wait`: how long a batch that the
        previous driver left unfinished waits for the owners of all its partitions; after that, other executors read them.
        `grace`: how long the running batch may take when the fleet stops; set it longer than a batch, and 20 s shorter than the
        grace period of the driver's pod.

        `warm_up` is called in a Python worker of each new executor before that executor reads. Use it to import modules and to
        open connections that the tasks of your `foreachBatch` need. `metrics_port`: port of `/metrics` for Prometheus; None: no
        metrics server. `environment`: by default the Kubernetes cluster, or `baton dev` under `baton dev run`. Raises
        RuntimeError for an unsupported version of Spark, and TypeError for a client session of Spark Connect.
        """
        number("holdup_timeout", holdup_timeout, 0)
        number("repeat_wait", repeat_wait, 0)
        number("grace", grace, 0, _DAY)
        function("warm_up", warm_up)
        if metrics_port is not None:
            whole("metrics_port", metrics_port, 0, 65_535)
        _check_queues(group, queues)
        check_spark()
        _check_classic_session(spark)
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
        self._reported_after = 1
        self._told_to_stop = False
        self._given_up = threading.Event()
        """Set by `stop`, cleared by `start`."""

    def start(self) -> Self:
        """Become the group's only driver, and make its queues readable for this application's queries.

        Waits while another driver holds the group's Lease. Raises RuntimeError if `stop` is called meanwhile, if this or another
        fleet of the group already runs in this application, if Baton's jar is missing, or if `metrics_port` is in use.
        """
        if self._running is not None and self._running.alive():
            raise RuntimeError(f"the fleet of group {self._group} is already running")
        java = source_classes(self._spark)
        if not java.Group.claim(self._group):
            raise RuntimeError(f"another fleet of group {self._group} runs in this application: use that fleet, or stop it")
        try:
            self._serve_metrics()
            self._running = None  # a signal during the wait for the Lease must not go to the fleet that has ended
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
                query_failure=lambda: self._failures.trouble(self._counts.statistics().batches, self._reported_after),
                stop=self.stop,
                stops_within=self._grace + CLOSING,
                given_up=self._given_up.is_set,
            )
            if self._given_up.is_set():
                self._stop(0)
                raise RuntimeError(f"the fleet of group {self._group} was stopped while it was starting")
        except BaseException:
            self._metrics.close()
            java.Group.release(self._group)
            raise
        return self

    def stop(self, grace: float | None = None) -> None:
        """Stop the group's queries, release all partitions and give up the group.

        No new batch starts; the running batch has `grace` seconds to finish (default: the fleet's `grace`). The next driver
        reads unfinished entries again. Called from a `foreachBatch` function, `stop` returns at once, and the fleet ends after
        that batch.
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
        """Start the fleet and a query, and return when the query has ended. Call it in the main thread of the driver's process.

        `start(rows)` takes the source's DataFrame, read with `options`, and returns the query that it started. If the query
        fails or `start` raises, it is started again after 1 s, then after longer pauses. When the same batch has failed
        `failures` times in a row, the ConsumerGroup reports it (condition Ready, reason QueryFailed) and the retries continue.
        With `give_up` the error is raised instead; with `dead_letters` the batch's entries are moved to the dead letters of
        their queues, and the query continues after them.

        On SIGTERM, which Kubernetes sends to this process or to its JVM, the running batch is finished and the group given up;
        `run` raises SystemExit if it is called again. Raises RuntimeError when another driver has taken the group or Spark's JVM
        is gone, and ValueError if `dead_letters` is set and a queue has no dead letters.
        """
        function("start", start, "rows")
        whole("failures", failures, 1)
        if give_up and dead_letters:
            raise ValueError("give_up and dead_letters exclude each other: choose one")
        self._reported_after, self._failures = failures, QueryFailures()
        with self._at_work() as running:
            if dead_letters and (without := running.without_dead_letters()):
                raise ValueError(
                    f"dead_letters needs queues of {with_dead_letters()}: {', '.join(sorted(without))} has no dead letters"
                )
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
                text = "the query failed at %s and restarts in %.0f s: %s"
                log.warning(text, batch or "its start", self._failures.pause, why, exc_info=None if ran else error)
                running.wait(self._failures.pause)
                running.queries.stop()  # a `start` that raised may have begun one

    def serve(self) -> None:
        """Start the fleet for the queries of Spark Connect clients, and return when it was stopped. Call it in the main thread
        of the driver's process.

        On SIGTERM, which Kubernetes sends, the running batch is finished, the group's queries end, and the group is given up.
        Raises RuntimeError when another driver has taken the group or Spark's JVM is gone.
        """
        with self._at_work() as running:
            running.closed.wait()

    def statistics(self) -> Statistics:
        """Return the counts since this object was created."""
        return self._counts.statistics()

    def view(self) -> FleetView:
        """Return the current partitions, lag, and time per step. Empty while the fleet is not running."""
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

    def _started(self) -> RunningFleet:
        """Return the running fleet; start it if necessary."""
        if self._running is None or not self._running.alive():
            self.start()
        assert self._running is not None
        return self._running

    def _run_query(self, running: RunningFleet, start: StartQuery, options: Mapping[str, Any]) -> Exception | None:
        """Return the error that ended the query or prevented its start; None if it was stopped or had read everything."""
        running.decisions.forget_ended()
        try:
            rows = self._spark.readStream.format("baton").option("group", self._group).options(**options).load()
            query = start(rows)
        except Exception as error:
            return error
        if not isinstance(query, StreamingQuery):
            raise TypeError(f"start must return the StreamingQuery that it started, and returned {query!r}")
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            return error
        return None

    @contextmanager
    def _at_work(self) -> Iterator[RunningFleet]:
        """Start the fleet, and stop it at the end. SIGTERM stops the fleet meanwhile, and has the program's own handler before
        and after. Raises SystemExit if SIGTERM came before, and RuntimeError if the fleet ended without being stopped.
        """
        if self._told_to_stop:
            raise SystemExit(128 + signal.SIGTERM)
        before = signal.signal(signal.SIGTERM, self._terminate)
        try:
            running = self._started()
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
        """Stop in a thread that is no daemon, so that the program does not exit before it ends."""
        threading.Thread(target=self._stop, args=(grace,), name="baton-stop").start()

    def _stop(self, grace: float | None) -> None:
        self._given_up.set()
        if self._running is not None:
            self._running.stop(self._grace if grace is None else grace)
            self._running.closed.wait(CLOSING)
        self._metrics.close()


def _failed(error: Exception) -> str:
    return last_line(str(error) if isinstance(error, StreamingQueryException) else f"{type(error).__name__}: {error}")


def _failed_for_rows(error: Exception) -> bool:
    origin: Any = getattr(error, "_origin", None) if isinstance(error, StreamingQueryException) else None
    cause = origin.getCause() if origin is not None else None
    return cause is not None and of_rows(str(cause.getClass().getName()), str(cause.getMessage()))


def _check_classic_session(spark: object) -> None:
    """Raises TypeError for a Spark Connect client. The session's class is not imported, because that needs grpc."""
    if type(spark).__module__.startswith("pyspark.sql.connect."):
        raise TypeError(
            "spark is a client session of Spark Connect, and a fleet runs in the driver: start the fleet in the program that "
            'starts the server, with the session of that program. Clients only read: spark.readStream.format("baton")'
        )


def _check_queues(group: object, queues: object) -> None:
    """Raises TypeError or ValueError. No message repeats a URL, because it may contain a password."""
    text("group", group, "the name of the ConsumerGroup")
    if not isinstance(queues, Mapping):
        raise TypeError(f"queues is a {type(queues).__name__}: pass the queues of group {group} as a dict from name to URL")
    if not queues:
        raise ValueError(f"queues is empty: name the queues of group {group}, each with its URL")
    for name, url in queues.items():
        if not isinstance(url, str) or not url:
            raise TypeError(f"queues has no URL for {name!r}: check that the environment variable with the URL is set")
