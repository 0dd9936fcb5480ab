"""The Spark settings of a fleet on one machine: its executors are processes beside the driver."""

import re
import sys
from collections.abc import Mapping

from baton.spark import jar_file
from baton.spark.steady_settings import Settings, steady

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
