"""One Spark session and one Redis for all tests of the fleet; a queue, a ledger and a checkpoint for each."""

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from baton.spark import jar_file
from baton.spark.steady_settings import Settings
from tests.integration.spark.world import World, Worlds
from tests.redis_server import RedisServer

JAVA = Path("/usr/lib/jvm/java-17-openjdk-amd64")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    if JAVA.is_dir():
        os.environ["JAVA_HOME"] = str(JAVA)
    temporary = f"-Djava.io.tmpdir={tmp_path_factory.mktemp('java')}"  # a killed executor leaves its unpacked libraries there
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
    yield session
    session.stop()


@pytest.fixture(scope="session")
def server() -> Iterator[RedisServer]:
    with RedisServer() as made:
        yield made


@pytest.fixture
def world(spark: SparkSession, server: RedisServer, tmp_path: Path) -> Iterator[Worlds]:
    made: list[World] = []

    def make(partitions: int, name: str = "orders") -> World:
        made.append(World(spark, server.url, tmp_path / name, partitions))
        return made[-1]

    yield make
    for one in made:
        one.stop()
