"""The Spark settings that a fleet needs wherever its executors run: many of these come and go, as partitions move with them."""

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
