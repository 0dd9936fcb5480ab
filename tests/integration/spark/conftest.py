"""One Spark session and one Redis for all tests of the fleet; a queue, a ledger and a checkpoint for each."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.integration.spark.stand_in import StandIn
from tests.integration.spark.world import World, Worlds
from tests.local_spark import local_spark
from tests.redis_server import RedisServer

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = local_spark(tmp_path_factory.mktemp("java"), "512m")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def server() -> Iterator[RedisServer]:
    with RedisServer() as made:
        yield made


@pytest.fixture
def world(spark: SparkSession, server: RedisServer, tmp_path: Path) -> Iterator[Worlds]:
    made: list[World] = []

    def make(partitions: int, name: str = "orders", *, owned: bool = True) -> World:
        made.append(World(spark, server.url, tmp_path / name, partitions))
        if owned:
            made[-1].share_out(partitions)
        return made[-1]

    yield make
    for one in made:
        one.stop()


@pytest.fixture
def source(spark: SparkSession, server: RedisServer) -> Iterator[StandIn]:
    with StandIn(spark, server.url) as made:
        yield made


@pytest.fixture
def in_rocksdb(spark: SparkSession) -> Iterator[None]:
    """Keep the state of queries in RocksDB."""
    spark.conf.set(PROVIDER, ROCKSDB)
    yield
    for query in spark.streams.active:
        query.stop()
    spark.conf.unset(PROVIDER)


@pytest.fixture
def two_tries(spark: SparkSession) -> Iterator[None]:
    """Two attempts per task. A fleet sets eight (`spark.task.maxFailures`), but the tests' common Spark reads that once."""
    scheduler: Any = spark.sparkContext._jsc.sc().taskScheduler()
    field = scheduler.getClass().getDeclaredField("maxTaskFailures")
    field.setAccessible(True)
    before = field.getInt(scheduler)
    field.setInt(scheduler, 2)
    yield
    field.setInt(scheduler, before)
