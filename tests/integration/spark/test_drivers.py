"""A driver that dies, a second driver, and a query that fails: on a real Spark and a real Redis."""

import json
import os
import shutil
import signal
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from tests.integration.spark.chaos import BUSY, a_few_troubles, see_every_row_once
from tests.integration.spark.world import Worlds, numbers, wait_for
from tests.waiting import PATIENCE, until

SEED = 1
"""Seed of the faults; `make soak-spark` runs more of them."""


@pytest.fixture
def signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.timeout(3 * BUSY)
@pytest.mark.long
def test_a_file_sink_has_every_row_once_although_drivers_are_killed(tmp_path: Path) -> None:
    see_every_row_once(tmp_path, SEED, a_few_troubles(SEED))


def test_of_two_drivers_the_later_one_reads_and_the_earlier_query_ends(world: Worlds) -> None:
    orders = world(2)
    first = orders.start()
    orders.send(*numbers(40))
    wait_for(orders.committed, "the first reads")
    with orders.another_fleet("others"):
        orders.checkpoint = orders.checkpoint.with_name("others")
        rows = orders.spark.readStream.format("baton").option("group", "others").load()
        second = rows.writeStream.foreachBatch(orders.keep).option("checkpointLocation", str(orders.checkpoint)).start()
        orders.send(*numbers(40, 40))
        wait_for(orders.committed, "the second reads")
        orders.send(*numbers(40, 80))
        refused = "another driver, a later start or baton offsets reset has begun"  # a task that is in the middle of a batch
        with pytest.raises(StreamingQueryException, match=rf"a later query .* reads this group's queues|{refused}"):
            first.awaitTermination(int(PATIENCE))
        wait_for(orders.committed, "the second reads on")
        assert second.isActive
        second.stop()
    assert sorted(set(orders.values())) == numbers(120)
    unmarked = [row.value for row in orders.rows if not row.redelivered]
    assert len(unmarked) == len(set(unmarked)), "what the first was at when the second began may come again, marked"


class Table:
    """A sink that skips known batch numbers, as in the guide."""

    def __init__(self) -> None:
        self._batches: dict[int, list[str]] = {}

    def write(self, values: list[str], batch: int) -> bool:
        """Write a batch. False if the sink already has it."""
        return self._batches.setdefault(batch, values) is values

    def values(self) -> list[str]:
        return sorted(value for values in self._batches.values() for value in values)


def values_of(rows: DataFrame) -> list[str]:
    return [row.value.decode() for row in rows.collect()]


def another_s_copy(checkpoint: Path) -> Path:
    """Simulate another program: within one application Spark rejects a second query of the same id."""
    copy = shutil.copytree(checkpoint, checkpoint.with_name("of-another"))
    (copy / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    (copy / ".metadata.crc").unlink()
    return copy


def test_a_second_driver_without_a_lease_writes_no_row_twice(world: Worlds) -> None:
    """There is no Lease: only the queue keeps the two drivers apart."""
    orders, table = world(2), Table()
    read, may_write = threading.Event(), threading.Event()
    written: list[bool] = []

    def slowly(rows: DataFrame, batch: int) -> None:
        values = values_of(rows)
        read.set()
        assert may_write.wait(PATIENCE)
        written.append(table.write(values, batch))

    first = orders.start(slowly)
    orders.send(*numbers(40))
    wait_for(read.is_set, "the first has rows in hand")
    checkpoint = another_s_copy(orders.checkpoint)

    def at_once(rows: DataFrame, batch: int) -> None:
        table.write(values_of(rows), batch)

    with orders.another_fleet("others"):
        rows = orders.spark.readStream.format("baton").option("group", "others").load()
        second = rows.writeStream.foreachBatch(at_once).option("checkpointLocation", str(checkpoint)).start()
        wait_for(table.values, "the second has repeated the batch")
        may_write.set()
        with pytest.raises(StreamingQueryException, match=r"a later query .* reads this group's queues"):
            first.awaitTermination(int(PATIENCE))
        orders.send(*numbers(40, 40))
        wait_for(orders.committed, "the second goes on")
        second.stop()
    assert written == [False], "the first came with a batch that was there"
    assert table.values() == numbers(80)


def test_a_failed_query_is_restarted_and_reported(world: Worlds, signals: None) -> None:
    orders = world(2)
    failed: list[int] = []
    tried: list[int] = []
    said: list[str] = []
    fleet = orders.another_fleet(orders.name)
    orders.send(*numbers(40))

    def process(rows: DataFrame, batch: int) -> None:
        if batch and len(failed) < 3:
            failed.append(batch)
            raise ValueError("the sink is full")
        orders.keep(rows, batch)

    def start(rows: DataFrame) -> StreamingQuery:
        if not tried:
            tried.append(1)
            raise OSError("the checkpoint's store is away")
        return rows.writeStream.foreachBatch(process).option("checkpointLocation", str(orders.checkpoint)).start()

    def look_on() -> None:
        try:
            said.append(until(lambda: orders.session.status.query_failure, "the group is told"))
            wait_for(orders.committed, "the batch is done")
            wait_for(lambda: not orders.session.status.query_failure, "it is over")
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    looking = threading.Thread(target=look_on)
    looking.start()
    fleet.run(start, failures=2)
    looking.join(PATIENCE)
    assert failed == [1, 1, 1]
    assert said[0].startswith("The query has failed 2 times in a row at batch 1 of 2 ranges (")
    assert said[0].endswith("): ValueError: the sink is full")
    assert orders.values() == numbers(40)
    assert fleet.statistics().query_failures == 4, "the start that raised, too"
