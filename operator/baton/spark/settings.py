"""The Spark settings that a fleet needs, and the reason for each."""

import os
import re
import secrets
import sys
from collections.abc import Mapping

import pyspark

from baton.model.options import number, text, whole
from baton.spark import jar_file
from baton.spark.driver_pod import DRIVER_POD, NAMESPACE, DriverPod
from baton.spark.driver_pod import submitted as submitted_settings
from baton.spark.executors import POD_NAME_PREFIX
from baton.spark.rights import require_in_pod

# -- Spark's version: Baton calls private classes of Spark, and its jar is compiled against Spark's jars

SPARK = "4.3."


def check_spark(version: str = pyspark.__version__) -> None:
    """Raises RuntimeError for an unsupported version of Spark, before a missing class fails more obscurely."""
    if not version.startswith(SPARK):
        raise RuntimeError(
            f"This version of Baton supports Spark {SPARK}x, and this is Spark {version}: install pyspark {SPARK}x, or another "
            "version of baton-consumer"
        )


# -- settings for executors on Kubernetes and on one machine

Settings = dict[str, bool | float | int | str | None]
"""The type that `SparkSession.builder.config(map=…)` takes."""

LEAST_TIMEOUT = 2.0
"""Smallest `executor_timeout` in seconds: executors send a heartbeat every second."""


def steady(executor_timeout: float) -> Settings:
    """`executor_timeout`: seconds without heartbeat after which an executor is replaced."""
    return {
        # The ConsumerGroup decides the size of the fleet; dynamic allocation would work against it.
        "spark.dynamicAllocation.enabled": "false",
        # A range waits this long for its owner before another executor borrows it. A task whose preferred executor has just
        # died waits just as long in vain; its host is gone too, so Spark does not also wait for that.
        "spark.locality.wait.process": "3s",
        "spark.locality.wait.node": "0s",
        "spark.locality.wait.rack": "0s",
        # A speculative copy of a reading task would take the range from the first attempt.
        "spark.speculation": "false",
        # Executors come and go: their number of failures must not end the application.
        "spark.executor.maxNumFailures": "1000000",
        "spark.task.maxFailures": "8",
        "spark.excludeOnFailure.enabled": "false",
        # A stopped executor is noticed after executor_timeout instead of two minutes, and replaced.
        "spark.executor.heartbeatInterval": "1s",
        "spark.storage.blockManagerHeartbeatTimeoutMs": str(round(executor_timeout * 1000)),
        "spark.network.timeoutInterval": "1s",
        # The address of a deleted pod may not even reject connections, and Spark would try to fetch its blocks for two minutes.
        "spark.shuffle.io.connectionCreationTimeout": "5s",
        "spark.shuffle.io.retryWait": "1s",
        # Ten thousand large entries (Spark's default batch) exceed the memory of a Python worker.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(32 << 20),
        # If the query's function hangs, stopping the query must time out, so that the group can be given up.
        "spark.sql.streaming.stopTimeout": "30s",
        # Decommissioning migrates blocks and was seen to stall a batch for two minutes. Baton itself hands off partitions.
        "spark.decommission.enabled": "false",
    }


# -- on one machine: executors are processes beside the driver

_MEBIBYTES = {"m": 1, "g": 1024}


def under_dev(environment: Mapping[str, str]) -> bool:
    """Whether `baton dev run` started the program."""
    return bool(environment.get("BATON_API_SERVER"))


def local(executors: int, cores: int, memory: str, executor_timeout: float) -> Settings:
    """Settings for executors on this machine. `memory` per executor: such as 512m or 1g. Raises ValueError for another form."""
    found = re.fullmatch(r"(\d{1,6})([mg])", memory.lower())
    if found is None:
        raise ValueError(f"executor_memory is {memory!r}: set it to a number of MiB or GiB, such as 512m or 1g")
    mebibytes = int(found[1]) * _MEBIBYTES[found[2]]
    return {
        "spark.master": f"local-cluster[{executors},{cores},{mebibytes}]",
        "spark.jars": str(jar_file.path()),
        "spark.executor.memory": f"{mebibytes}m",
        "spark.executor.cores": str(cores),
        "spark.pyspark.python": sys.executable,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # With Spark's default of 200, a batch with an aggregation takes minutes on one machine.
        "spark.sql.shuffle.partitions": str(executors * cores),
        **steady(executor_timeout),
    }


# -- on Kubernetes

ALLOCATOR = "spark.kubernetes.allocation.pods.allocator"
_IMAGE, _TEMPLATE = "spark.kubernetes.container.image", "spark.kubernetes.executor.podTemplateFile"
_DAY = 86_400
"""Seconds."""


def conf(
    group: str,
    *,
    image: str | None = None,
    template: str | None = None,
    executors: int | None = None,
    executor_cores: int | None = None,
    executor_cpu: str | None = None,
    executor_memory: str | None = None,
    executor_timeout: float = 10.0,
    executor_grace: float = 60.0,
    namespace: str | None = None,
    service_account: str | None = None,
    master: str | None = None,
    environment: Mapping[str, str] | None = None,
    submitted: Mapping[str, str] | None = None,
) -> Settings:
    """Return settings for `SparkSession.builder.config(map=…)`. You may add settings and replace these.

    ```python
    settings = baton.spark.conf("orders", image="shop/orders:1", template="executor.yaml")
    spark = SparkSession.builder.config(map=settings).getOrCreate()
    ```

    `group` is the name of the ConsumerGroup; `template` is the path of the executors' pod template, which sets the group's
    label; `executors` (default 2) is the size of the fleet until the ConsumerGroup sets another one. An executor that sends no
    heartbeat for `executor_timeout` seconds is replaced; make it longer than the longest garbage collection. An executor whose
    pod is asked to stop has `executor_grace` seconds to finish its tasks and to hand off; make it a little longer than the
    preStop hook of the template waits.

    An executor runs `executor_cores` (default 1) tasks at a time; its pod requests that many CPUs, or `executor_cpu` (such as
    500m). `executor_memory` (default 1g) is the memory of its JVM.

    `submitted`: the settings that spark-submit passed to this program (default: those of this process's JVM). A parameter that
    is not given here keeps its submitted value.

    In a pod, `DriverPod` finds the namespace, name and address of the driver. Outside the cluster, pass `namespace` and `master`
    (k8s://https://…), and set `spark.driver.host` to an address that pods can reach and Spark's settings for the credentials
    (`spark.kubernetes.authenticate.…`).

    Raises ValueError for missing settings, TypeError or ValueError for malformed numbers, RuntimeError for an unsupported
    version of Spark, and, in a pod, `MissingRights` if the service account lacks rights, which Spark's own error would hide.

    Under `baton dev run` the executors are processes on this machine, and only the parameters about executors have an effect.
    `environment`: environment variables (default: those of this process).
    """
    check_spark()
    environment = os.environ if environment is None else environment
    whole("executors", 2 if executors is None else executors, 1)
    whole("executor_cores", 1 if executor_cores is None else executor_cores, 1)
    text("group", group, "the name of the ConsumerGroup")
    number("executor_timeout", executor_timeout, LEAST_TIMEOUT, _DAY)
    number("executor_grace", executor_grace, 1, _DAY)
    if under_dev(environment):
        return local(executors or 2, executor_cores or 1, executor_memory or "1g", executor_timeout)
    known = submitted_settings(environment) if submitted is None else submitted
    refuse_allocator(known)
    driver = DriverPod(environment, known, namespace=namespace)
    settings: Settings = {
        "spark.master": master or known.get("spark.master") or "k8s://https://kubernetes.default.svc",
        NAMESPACE: driver.namespace,
        _IMAGE: _given("image", image, _IMAGE, known),
        _TEMPLATE: _given("template", template, _TEMPLATE, known),
        # The ledger identifies executors by the names of their pods. Each run has its own prefix, because pods of the previous
        # run may still exist.
        POD_NAME_PREFIX: f"{group[:36].rstrip('-.')}-{secrets.token_hex(3)}",
        # The source `baton`, unless it is among Spark's own jars, as in the example's image. Each executor fetches the jars
        # listed here. To add jars: `settings["spark.jars"] += ",…"`.
        "spark.jars": ",".join(filter(None, (known.get("spark.jars"), _jar()))),
        "spark.executor.instances": str(executors or known.get("spark.executor.instances") or 2),
        "spark.executor.cores": str(executor_cores or known.get("spark.executor.cores") or 1),
        "spark.executor.memory": executor_memory or known.get("spark.executor.memory") or "1g",
        **steady(executor_timeout),
        # While its executors start, the driver can already take its Lease and query the queues.
        "spark.scheduler.minRegisteredResourcesRatio": "0",
        # Spark overrides the pod template's value. An executor has this time to hand off; the template's preStop hook waits for
        # a little less.
        "spark.kubernetes.executor.terminationGracePeriodSeconds": f"{round(executor_grace)}s",
        "spark.ui.showConsoleProgress": "false",  # made for terminals: it garbles logs
        # The pods of killed executors are deleted a second later.
        "spark.kubernetes.dynamicAllocation.deleteGracePeriod": "1s",
        # The driver keeps no volumes or services for its executors; with these off it needs no right to list them.
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
    }
    settings |= _driver(driver)
    if driver.inside:
        require_in_pod(driver.namespace, group, environment)
    if executor_cpu:
        settings["spark.kubernetes.executor.request.cores"] = executor_cpu
    if service_account:
        settings["spark.kubernetes.authenticate.driver.serviceAccountName"] = service_account
        settings["spark.kubernetes.authenticate.executor.serviceAccountName"] = service_account
    return settings


def refuse_allocator(settings: Mapping[str, str]) -> None:
    """Raises ValueError for a pod allocator that a fleet cannot work with."""
    allocator = settings.get(ALLOCATOR, "direct")
    if allocator != "direct":
        raise ValueError(
            f"{ALLOCATOR} is {allocator}, and a fleet needs `direct`. With any other allocator, Spark removes the executor with "
            "the highest number when the fleet shrinks, even if it owns partitions, and pod names do not identify executors. "
            "Remove this setting"
        )


def _jar() -> str:
    jar = jar_file.path()
    return "" if jar_file.in_spark(jar, jar_file.spark_jars()) else str(jar)


def _driver(driver: DriverPod) -> dict[str, str]:
    found: dict[str, str] = {}
    if address := driver.address:
        found |= {"spark.driver.host": address, "spark.driver.bindAddress": address}
    if name := driver.name:
        # Makes the driver's pod the owner of the executors' pods: they are deleted with it, and its Lease covers them.
        found[DRIVER_POD] = name
    return found


def _given(name: str, value: str | None, setting: str, submitted: Mapping[str, str]) -> str:
    if found := value or submitted.get(setting):
        return found
    raise ValueError(f"{name} is not given, and spark-submit did not set {setting}: set one of them")
