"""The Spark settings that a fleet needs, with the reason of each."""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from baton.spark.executors import POD_NAME_PREFIX

EXECUTOR_LEDGER = "/etc/baton/assignments"
"""Where the executor pod template mounts the ledger."""

Settings = dict[str, bool | float | int | str | None]
"""As `SparkSession.builder.config(map=…)` takes them."""

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def conf(
    group: str,
    *,
    image: str,
    template: str,
    executors: int = 2,
    executor_cores: int = 1,
    executor_cpu: str | None = None,
    executor_memory: str = "1g",
    executor_timeout: float = 10.0,
    namespace: str | None = None,
    service_account: str | None = None,
    master: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Settings:
    """Settings for `SparkSession.builder.config(map=…)`; your own may be added or replace these.

    `group` is the ConsumerGroup's name; `template` is the path of the executors' pod template (it gives them the group's label
    and mounts the ledger); `executors` is the size of the fleet until the ConsumerGroup says otherwise. An executor that sends
    no heartbeat for `executor_timeout` seconds is replaced; make it longer than the longest pause of its garbage collector.

    `executor_cores` tasks run in an executor at a time; its pod asks for as many CPUs, or for `executor_cpu` (such as 500m).

    In a pod, namespace, address and pod name of the driver come from `environment`: POD_NAMESPACE, POD_IP and POD_NAME, by the
    downward API. Outside the cluster give `namespace` and `master` (k8s://https://…), set `spark.driver.host` to an address
    that pods can reach, and Spark's own settings for the credentials (`spark.kubernetes.authenticate.…`).
    """
    settings: Settings = {
        "spark.master": master or "k8s://https://kubernetes.default.svc",
        "spark.kubernetes.namespace": namespace or environment.get("POD_NAMESPACE") or _own_namespace(),
        "spark.kubernetes.container.image": image,
        "spark.kubernetes.executor.podTemplateFile": template,
        # The ledger knows executors by the names of their pods. A new name for each run: a pod of the run before may still be
        # there.
        POD_NAME_PREFIX: f"{group[:36].rstrip('-.')}-{secrets.token_hex(3)}",
        "spark.executor.instances": str(executors),
        "spark.executor.cores": str(executor_cores),
        "spark.executor.memory": executor_memory,
        # The size of the fleet is the ConsumerGroup's; two who decide it would fight.
        "spark.dynamicAllocation.enabled": "false",
        # A range is read on its owner or not at all: rather wait for it than go elsewhere. But what prefers an executor that
        # has just died waits as long, for nothing, and its host is as dead.
        "spark.locality.wait.process": "3s",
        "spark.locality.wait.node": "0s",
        "spark.locality.wait.rack": "0s",
        # A second copy of a reading task could only run in the wrong place.
        "spark.speculation": "false",
        # Partitions move with executors, so many of these come and go in the life of a query. None of it is a reason to give up.
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
        # Decommissioning moves blocks about and was seen to stall a batch for two minutes; handing partitions off is Baton's
        # work.
        "spark.decommission.enabled": "false",
        # Killed executors are removed from the cluster a second after they were told to go.
        "spark.kubernetes.dynamicAllocation.deleteGracePeriod": "1s",
        # The driver keeps no volumes or services for its executors, and needs no permission to look for them.
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
    }
    settings |= _driver(environment)
    if executor_cpu:
        settings["spark.kubernetes.executor.request.cores"] = executor_cpu
    if service_account:
        settings["spark.kubernetes.authenticate.driver.serviceAccountName"] = service_account
        settings["spark.kubernetes.authenticate.executor.serviceAccountName"] = service_account
    return settings


def _driver(environment: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    if address := environment.get("POD_IP"):
        found |= {"spark.driver.host": address, "spark.driver.bindAddress": address}
    if name := environment.get("POD_NAME"):
        # Makes the driver's pod the owner of the executors' pods: they go with it, and its Lease speaks for them.
        found["spark.kubernetes.driver.pod.name"] = name
    return found


def _own_namespace() -> str:
    mounted = _SERVICE_ACCOUNT / "namespace"
    return mounted.read_text(encoding="utf-8").strip() if mounted.exists() else "default"
