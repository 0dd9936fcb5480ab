"""A real Spark on this machine, of two executors with a core each, with the settings that `baton dev` gives."""

import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from baton.spark.local_settings import local

EXECUTORS = 2
JAVA = Path("/usr/lib/jvm/java-17-openjdk-amd64")
SOON = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For JVMs that live for minutes at most: what they would spend on being quick in the end, the tests have no use for."""
_ROOT = Path(__file__).parents[1]


def java_options(temporary_files: Path, java: str = SOON) -> str:
    """Of a JVM that Spark is in. `temporary_files`: a folder for its blocks and for what it unpacks, which a killed one leaves
    behind."""
    return f"-Djava.io.tmpdir={temporary_files} {java}"


def local_spark(
    temporary_files: Path,
    memory: str,
    log_level: str = "ERROR",
    more: Mapping[str, str] | None = None,
    java: str = SOON,
    executors: int = EXECUTORS,
) -> SparkSession:
    """Tasks may import what the tests have. `memory`: of an executor, such as 512m. `java`: options of the JVMs. See
    `java_options`."""
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    if JAVA.is_dir():
        os.environ["JAVA_HOME"] = str(JAVA)
    options = java_options(temporary_files, java)
    settings = local(executors, 1, memory, executor_timeout=10.0) | {
        "spark.driver.extraJavaOptions": options,
        "spark.executor.extraJavaOptions": options,
        "spark.executorEnv.PYTHONPATH": str(_ROOT),
        "spark.sql.shuffle.partitions": str(EXECUTORS),  # each has stores and logs of its own, and Spark has 200 by default
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **(more or {}),
    }
    session = SparkSession.builder.appName("fleet").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel(log_level)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    return session
