"""Lists, requests and ends executors through Spark's scheduler, without dynamic allocation.

All calls go through py4j to private classes of Spark (`private[spark]`), as of 4.3.0.
"""

import json
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql import SparkSession

from baton.model.ids import MemberId

log = logging.getLogger("baton.spark")


@dataclass(frozen=True, slots=True)
class Executor:
    """A Spark executor that is registered with the driver."""

    id: str
    """Spark's number for it, as text."""
    host: str
    """The host that the executor registered with: the IP of its pod."""
    pod: MemberId
    """The name of its pod, which is its name in the ledger."""
    tasks: frozenset[int] = frozenset()
    """Spark's numbers of the tasks that it runs. They differ in the whole application."""
    slots: int = 1
    """Tasks that the executor can run at a time."""


def location(executor: Executor) -> str:
    """The preferred location for exactly this process (Spark's `ExecutorCacheTaskLocation`).

    Spark parses `executor_<host>_<id>`. It would take any other text for a host name, for which tasks do not wait as long.
    """
    return f"executor_{executor.host}_{executor.id}"


def by_pod(executors: Iterable[Executor]) -> Mapping[MemberId, Executor]:
    """The executors by their names in the ledger."""
    return {executor.pod: executor for executor in executors}


POD_NAME_PREFIX = "spark.kubernetes.executor.podNamePrefix"


class Executors(Protocol):
    """Spark's side of the fleet."""

    def registered(self) -> tuple[Executor, ...]:
        """Return the executors that could be given a task now."""

    def resize(self, total: int) -> None:
        """Request this number of executors from Spark's allocator. A smaller number than before ends none of them."""

    def end(self, ids: Iterable[str], *, idle: bool = False) -> Collection[str]:
        """Kill these executors, or only those without a task (`idle`). Does not change the requested total. Returns the killed
        ids."""

    def jobs(self) -> int:
        """Return the number of running jobs. While a job runs, any executor may have blocks that it needs."""


class SparkExecutors:
    """Executors of a running application on Kubernetes, or of a local cluster in development and tests."""

    def __init__(self, spark: SparkSession) -> None:
        self._gateway: Any = spark.sparkContext._gateway
        self._context: Any = spark.sparkContext._jsc.sc()
        self._backend: Any = self._context.schedulerBackend()
        self._prefix = _pod_name_prefix(spark)

    def registered(self) -> tuple[Executor, ...]:
        # One call for the whole fleet.
        listed = json.loads(self._gateway.jvm.dev.baton.spark.ExecutorList.list(self._context))
        found = [
            Executor(one["id"], one["host"], MemberId(f"{self._prefix}-exec-{one['id']}"), frozenset(one["tasks"]), one["slots"])
            for one in listed
        ]
        return tuple(sorted(found, key=lambda executor: (len(executor.id), executor.id)))

    def resize(self, total: int) -> None:
        self._context.requestTotalExecutors(total, 0, self._gateway.jvm.scala.collection.immutable.HashMap())

    def end(self, ids: Iterable[str], *, idle: bool = False) -> Collection[str]:
        # SparkContext.killExecutors would also lower the total that `resize` has set.
        adjust_total, count_failures, force = False, False, not idle
        jvm = self._gateway.jvm
        listed = jvm.java.util.ArrayList()
        for one in ids:
            listed.add(one)
        chosen = jvm.scala.jdk.javaapi.CollectionConverters.asScala(listed).toSeq()
        killed = self._backend.killExecutors(chosen, adjust_total, count_failures, force)
        return [killed.apply(i) for i in range(killed.size())]

    def jobs(self) -> int:
        return len(self._context.statusTracker().getActiveJobIds())


def _pod_name_prefix(spark: SparkSession) -> str:
    context = spark.sparkContext
    prefix = context.getConf().get(POD_NAME_PREFIX)
    if prefix:
        return prefix
    if (context.master or "").startswith("k8s:"):
        raise ValueError(f"{POD_NAME_PREFIX} is not set, so executors cannot be matched with their pods: use baton.spark.conf(…)")
    return context.applicationId
