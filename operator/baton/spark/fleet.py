"""A fleet: a Spark application whose executors own the partitions of queues."""

import logging
import signal
import threading
from collections.abc import Mapping

from pyspark import AccumulatorParam
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from baton.model.ids import QueueName
from baton.model.options import function
from baton.spark.batch_frame import warm_up
from baton.spark.environment import Cluster, FleetEnvironment
from baton.spark.executor_warm_up import ExecutorWarmUp
from baton.spark.executors import Executors, SparkExecutors
from baton.spark.grants_in_use import GrantsInUse
from baton.spark.journal import Journal
from baton.spark.loop import Limits, Loop, Process
from baton.spark.queues import FleetQueues
from baton.spark.reading import QueueAddress, ReadRanges
from baton.spark.receipts import Receipt
from baton.spark.statistics import Counts, Statistics
from baton.spark.watch import Watch

log = logging.getLogger("baton.spark")

_WARMING = 30.0
"""Seconds that a new executor may take for its first, empty task."""
_CLOSING = 15.0
"""Seconds for giving the group up: the API server may be away."""


class _Receipts(AccumulatorParam[list[Receipt]]):
    def zero(self, value: list[Receipt]) -> list[Receipt]:
        return []

    def addInPlace(self, value1: list[Receipt], value2: list[Receipt]) -> list[Receipt]:  # noqa: N802 - Spark's name
        value1 += value2
        return value1


class Fleet:
    """Reads queues in micro-batches, each partition in the executor that owns it.

    ::

        fleet = baton.spark.Fleet(spark, group="orders", queues={"orders": "redis://redis.shop:6379"})
        fleet.run(process, checkpoint="s3a://…")
    """

    def __init__(
        self,
        spark: SparkSession,
        *,
        group: str,
        queues: Mapping[str, str],
        limit: int = 10_000,
        tasks_per_executor: int | None = None,
        holdup_timeout: float = 5.0,
        ledger_wait: float = 2.0,
        repeat_wait: float = 120.0,
        environment: FleetEnvironment | None = None,
        executors: Executors | None = None,
    ) -> None:
        """`group` is the ConsumerGroup's name, `queues` its queues by name with their URLs.

        `limit`: entries of one partition in one batch. `tasks_per_executor`: how many tasks read in one executor (its cores).
        `holdup_timeout`: how long executors that missed a deadline may hold up the batch of all others. `ledger_wait`: how long
        a task waits for its pod's mounted ledger to be as new as the driver's. `repeat_wait`: how long a batch that the last
        driver left unfinished waits for owners of all its partitions. All in seconds. `environment`: the Kubernetes cluster,
        unless told otherwise.
        """
        self._spark = spark
        self._group = group
        self._environment = environment or Cluster(configuration=dict(spark.sparkContext.getConf().getAll()))
        self._sources = {
            QueueName(name): QueueAddress(url, f"{self._environment.namespace}/{name}") for name, url in queues.items()
        }
        cores = int(spark.sparkContext.getConf().get("spark.executor.cores", "1") or 1)
        self._limits = Limits(limit, tasks_per_executor or cores, repeat_wait)
        self._holdup_timeout, self._ledger_wait = holdup_timeout, ledger_wait
        self._executors = executors or SparkExecutors(spark)
        self._counts = Counts()
        self._loop: Loop | None = None
        self._query: StreamingQuery | None = None
        self._closed = threading.Event()

    def run(self, process: Process, *, checkpoint: str, interval: float = 0.0) -> None:
        """`start`, and stay until the query has ended. To be called in the main thread of the driver's process.

        On SIGTERM, as Kubernetes sends it, the batch that runs is finished and the group given up. Raises what ended the query.
        """
        signal.signal(signal.SIGTERM, self._terminate)
        query = self.start(process, checkpoint=checkpoint, interval=interval)
        query.awaitTermination()
        self._closed.wait(_CLOSING)

    def stop(self, grace: float = 20.0) -> None:
        """End the query after the batch that runs, which gets `grace` seconds; what is not committed then comes again."""
        if self._loop is None or self._query is None:
            return
        self._loop.stop(grace)
        self._query.stop()
        self._closed.wait(_CLOSING)

    def start(self, process: Process, *, checkpoint: str, interval: float = 0.0) -> StreamingQuery:
        """Start the query, once this driver is the group's only one: another driver's Lease is waited for.

        `process(rows, batch_id)` gets a DataFrame with the columns of `baton.spark.SCHEMA`; it may evaluate it as often as it
        likes. When it returns, what it was given is committed; when it raises, the query ends, and what it was given comes
        again after a restart, under the same batch_id. `checkpoint` is a directory that outlives the driver; `interval` the
        least seconds from batch to batch. Raises TypeError for a `process` that cannot be called with these two.
        """
        function("process", process, "rows", "batch_id")
        ledger = self._environment.ledger(self._group)
        session = self._environment.session(self._group)
        session.say(app=self._spark.sparkContext.applicationId)
        session.acquire()
        grants_in_use = GrantsInUse(ledger, lambda releases: session.say(releases=releases))
        queues = FleetQueues(self._sources)
        receipts = self._spark.sparkContext.accumulator([], _Receipts())
        read = ReadRanges(self._sources, receipts, self._environment.pod, self._ledger_wait)
        loop = Loop(
            process,
            queues=queues,
            ledger=ledger,
            grants_in_use=grants_in_use,
            executors=self._executors,
            journal=Journal(self._spark, checkpoint),
            receipts=receipts,
            read=read,
            counts=self._counts,
            limits=self._limits,
        )
        self._closed.clear()
        self._loop, self._query = loop, (query := self._clock(loop, checkpoint, interval))

        def alive() -> bool:
            if session.lost() and query.isActive:
                log.error("the group has another driver: this one stops")
                query.stop()
            return query.isActive

        def ended() -> None:
            loop.stop()
            session.close()
            ledger.close()
            queues.close()
            log.info("the query has ended: %s", self.statistics().to_json())
            self._closed.set()

        Watch(
            alive=alive,
            ended=ended,
            look_up=loop.look_up,
            ledger=ledger,
            grants_in_use=grants_in_use,
            executors=self._executors,
            session=session,
            counts=self._counts,
            executor_warm_up=ExecutorWarmUp(lambda executor: warm_up(self._spark, executor, read), _WARMING),
            trouble=queues.trouble,
            patience=self._holdup_timeout,
        ).start()
        grants_in_use.review()
        return query

    def statistics(self) -> Statistics:
        """What has been counted since the start."""
        return self._counts.statistics()

    def _terminate(self, number: int, frame: object) -> None:
        log.info("told to stop (signal %d)", number)
        if self._query is None:
            raise SystemExit(128 + number)
        threading.Thread(target=self.stop, name="baton-stop", daemon=True).start()

    def _clock(self, loop: Loop, checkpoint: str, interval: float) -> StreamingQuery:
        """A query that always has a next batch; the loop finds out whether there is anything to do in it."""
        ticks = self._spark.readStream.format("rate-micro-batch").options(rowsPerBatch=1, numPartitions=1).load()
        return (
            ticks.writeStream.foreachBatch(loop)
            .queryName(f"baton-{self._group}")
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime=f"{interval} seconds")
            .start()
        )
