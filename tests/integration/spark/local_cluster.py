"""A real Spark on this machine."""

import logging
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from baton.spark import jar_file
from baton.spark.steady_settings import Settings

JAVA = Path("/usr/lib/jvm/java-17-openjdk-amd64")


def local_cluster(temporary_files: Path) -> SparkSession:
    """Of two executors with a core each. `temporary_files`: a folder for what a killed executor leaves behind."""
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    if JAVA.is_dir():
        os.environ["JAVA_HOME"] = str(JAVA)
    temporary = f"-Djava.io.tmpdir={temporary_files}"
    settings: Settings = {
        "spark.driver.extraJavaOptions": temporary,
        "spark.executor.extraJavaOptions": temporary,
        "spark.jars": str(jar_file.path()),
        "spark.executor.memory": "512m",
        "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[3]),  # tasks import functions of the tests
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.locality.wait.process": "3s",
        "spark.locality.wait.node": "0s",
        "spark.task.maxFailures": "8",
        "spark.executor.heartbeatInterval": "1s",
        "spark.storage.blockManagerHeartbeatTimeoutMs": "10000",
        "spark.network.timeoutInterval": "1s",
    }
    session = SparkSession.builder.master("local-cluster[2,1,1024]").appName("fleet").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    return session
