"""The Spark settings that a fleet needs, with the reason of each."""

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

# -- Spark's version: Baton calls classes that Spark keeps for itself, and its jar is compiled against Spark's own

SPARK = "4.3."


def check_spark(version: str = pyspark.__version__) -> None:
    """Raises RuntimeError for a Spark of another version, before one of its classes is missed."""
    if not version.startswith(SPARK):
        raise RuntimeError(
            f"This version of Baton is for Spark {SPARK}x, and this is Spark {version}: install pyspark {SPARK}x, or another "
            "version of baton-consumer"
        )


# -- wherever executors run

Settings = dict[str, bool | float | int | str | None]
"""As `SparkSession.builder.config(map=…)` takes them."""

LEAST_TIMEOUT = 2.0
"""Seconds without heartbeat: they come every second."""


def steady(executor_timeout: float) -> Settings:
    """`executor_timeout`: seconds without heartbeat after which an executor is replaced."""
    return {
        # The size of the fleet is the ConsumerGroup's; two who decide it would fight.
        "spark.dynamicAllocation.enabled": "false",
        # A range rather waits for its owner than is lent to another executor. But what prefers an executor that has just died
        # waits as long, for nothing, and its host is as dead.
        "spark.locality.wait.process": "3s",
        "spark.locality.wait.node": "0s",
        "spark.locality.wait.rack": "0s",
        # A second copy of a reading task would take the range from the first.
        "spark.speculation": "false",
        # That executors come and go is no reason to give up.
        "spark.executor.maxNumFailures": "1000000",
        "spark.task.maxFailures": "8",
        "spark.excludeOnFailure.enabled": "false",
        # A stopped executor is noticed after executor_timeout instead of two minutes, and replaced.
        "spark.executor.heartbeatInterval": "1s",
        "spark.storage.blockManagerHeartbeatTimeoutMs": str(round(executor_timeout * 1000)),
        "spark.network.timeoutInterval": "1s",
        # Blocks of a pod that is gone: its address may not even refuse, and Spark would try for two minutes.
        "spark.shuffle.io.connectionCreationTimeout": "5s",
        "spark.shuffle.io.retryWait": "1s",
        # Ten thousand large entries at once are more than the memory of a Python worker.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(32 << 20),
        # Who stops a query whose function hangs is to go on after that, and to give the group up.
        "spark.sql.streaming.stopTimeout": "30s",
        # Decommissioning moves blocks about and was seen to stall a batch for two minutes; handing partitions off is Baton's
        # work.
        "spark.decommission.enabled": "false",
    }


# -- on one machine: executors are processes beside the driver

_MEBIBYTES = {"m": 1, "g": 1024}


def under_dev(environment: Mapping[str, str]) -> bool:
    """The program was started by `baton dev run`."""
    return bool(environment.get("BATON_API_SERVER"))


def local(executors: int, cores: int, memory: str, executor_timeout: float) -> Settings:
    """`memory` of an executor, such as 512m or 1g. Raises ValueError for another form."""
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
        # Spark's own 200 make a batch of any aggregation last minutes here.
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
    """Settings for `SparkSession.builder.config(map=…)`; your own may be added or replace these.

    ```python
    settings = baton.spark.conf("orders", image="shop/orders:1", template="executor.yaml")
    spark = SparkSession.builder.config(map=settings).getOrCreate()
    ```

    `group` is the ConsumerGroup's name; `template` is the path of the executors' pod template (it gives them the group's
    label); `executors` (2) is the size of the fleet until the ConsumerGroup says otherwise. An executor that
    sends no heartbeat for `executor_timeout` seconds is replaced; make it longer than the longest pause of its garbage collector.
    One whose pod is asked to stop has `executor_grace` seconds to finish what runs and to hand off: a little more than the
    preStop hook of its template waits.

    `executor_cores` (1) tasks run in an executor at a time; its pod asks for as many CPUs, or for `executor_cpu` (such as 500m).
    `executor_memory` is of its JVM (1g).

    Where the program was started by spark-submit, what is `submitted` of all these stands unless it is given here. In a pod,
    namespace, name and address of the driver are found as `DriverPod` says. Outside the cluster give `namespace` and `master`
    (k8s://https://…), set `spark.driver.host` to an address that pods can reach, and Spark's own settings for the credentials
    (`spark.kubernetes.authenticate.…`). Raises ValueError for what is missing,
    TypeError or ValueError for numbers that are none, RuntimeError for a Spark of another version, and, in a pod, `MissingRights`
    where its account may not do what a fleet needs: Spark's own error would hide it.

    Under `baton dev run` the executors are processes of this machine, and only what is said of executors counts.
    `environment`: instead of this process's.
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
        # The ledger knows executors by the names of their pods. A new name for each run: a pod of the run before may still be
        # there.
        POD_NAME_PREFIX: f"{group[:36].rstrip('-.')}-{secrets.token_hex(3)}",
        # The source `baton`, unless it is among Spark's own jars, as in the example's image: each executor fetches what is named
        # here. Jars of your own: `settings["spark.jars"] += ",…"`.
        "spark.jars": ",".join(filter(None, (known.get("spark.jars"), _jar()))),
        "spark.executor.instances": str(executors or known.get("spark.executor.instances") or 2),
        "spark.executor.cores": str(executor_cores or known.get("spark.executor.cores") or 1),
        "spark.executor.memory": executor_memory or known.get("spark.executor.memory") or "1g",
        **steady(executor_timeout),
        # The driver does not wait for its executors with what it can do meanwhile: take its Lease, and look at the queues.
        "spark.scheduler.minRegisteredResourcesRatio": "0",
        # Spark sets it whatever the pod template says. It is the time to hand off in, and the template's preStop hook waits for a
        # little less.
        "spark.kubernetes.executor.terminationGracePeriodSeconds": f"{round(executor_grace)}s",
        "spark.ui.showConsoleProgress": "false",  # for terminals: in a log it hides what is said
        # Killed executors are removed from the cluster a second after they were told to go.
        "spark.kubernetes.dynamicAllocation.deleteGracePeriod": "1s",
        # The driver keeps no volumes or services for its executors, and needs no permission to look for them.
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
    """Raises ValueError for an allocator of executors' pods that a fleet cannot work with."""
    allocator = settings.get(ALLOCATOR, "direct")
    if allocator != "direct":
        raise ValueError(
            f"{ALLOCATOR} is {allocator}: a fleet needs `direct`, because with any other Spark removes the executor of the "
            "highest number when the fleet shrinks, whatever it owns, and a pod's name does not say which executor it is: "
            "leave it out"
        )


def _jar() -> str:
    jar = jar_file.path()
    return "" if jar_file.in_spark(jar, jar_file.spark_jars()) else str(jar)


def _driver(driver: DriverPod) -> dict[str, str]:
    found: dict[str, str] = {}
    if address := driver.address:
        found |= {"spark.driver.host": address, "spark.driver.bindAddress": address}
    if name := driver.name:
        # Makes the driver's pod the owner of the executors' pods: they go with it, and its Lease speaks for them.
        found[DRIVER_POD] = name
    return found


def _given(name: str, value: str | None, setting: str, submitted: Mapping[str, str]) -> str:
    if found := value or submitted.get(setting):
        return found
    raise ValueError(f"{name} is not given, and spark-submit was not told {setting}: give one of them")
