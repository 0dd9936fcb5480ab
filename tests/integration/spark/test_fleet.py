"""The fleet's promises, on a real Spark with two executors and a real Redis."""

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import Row as DataFrameRow

from tests.integration.spark.world import Row, World, Worlds, numbers, read_twice_although_an_executor_is_killed, wait_for
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE


def in_order(rows: list[Row]) -> bool:
    """Each partition's entries came in order, once each."""
    partitions = {row.partition for row in rows}
    sequences = [[row.number for row in rows if row.partition == partition] for partition in partitions]
    return all(sequence == sorted(set(sequence)) for sequence in sequences)


class Held:
    """A query whose batches wait for a signal, and then collect their rows. The first one waits."""

    def __init__(self, orders: World) -> None:
        self.go_on = threading.Event()
        self._orders, self._inside = orders, threading.Event()
        self.query = orders.start(self._process)
        assert self._inside.wait(PATIENCE)

    def _process(self, rows: DataFrame, batch: int) -> None:
        self._inside.set()
        self.go_on.wait(PATIENCE)
        self._orders.keep(rows, batch)


def test_everything_is_read_once_in_order_on_its_owner_and_committed(world: Worlds) -> None:
    orders = world(4)
    orders.start()
    orders.send(*numbers(500))
    orders.send(*numbers(500, 500))
    wait_for(lambda: len(orders.rows) >= 1000, "all entries have come")
    wait_for(orders.committed, "all is committed")
    assert orders.values() == numbers(1000)
    assert in_order(orders.rows)
    assert not any(row.redelivered for row in orders.rows)
    assert orders.statistics.owner_share == 1.0


def test_partitions_take_turns_within_the_limit_of_rows(world: Worlds) -> None:
    orders = world(4)
    for partition in range(4):
        orders.send_to(partition, *numbers(100, 1000 * partition))
    orders.start(startingOffsets="committed", maxRowsPerTrigger=100)
    wait_for(orders.committed, "all is committed")
    assert max(Counter(row.batch for row in orders.rows).values()) <= 100
    parts = Counter((row.batch, row.partition) for row in orders.rows)
    first = min(row.batch for row in orders.rows)
    assert {partition for batch, partition in parts if batch == first} == {0, 1, 2, 3}, (
        "no partition waits until others have no more"
    )
    assert in_order(orders.rows)


def test_a_failed_batch_comes_again_with_the_same_id_and_rows(world: Worlds) -> None:
    orders = world(2)
    tries = []

    def fail(rows: DataFrame, batch: int) -> None:
        tries.append((batch, sorted(row.value.decode() for row in rows.collect())))
        raise ValueError("the sink is full")

    query = orders.start(fail)
    orders.send(*numbers(50))
    with pytest.raises(StreamingQueryException, match="the sink is full"):
        query.awaitTermination()
    orders.stop()
    orders.send(*numbers(50, 50))  # must not get into the batch that is repeated
    ids = orders.ids()
    orders.give({0: ids[1], 1: ids[0]})  # after a restart everything is elsewhere

    orders.start()
    wait_for(orders.committed, "all is committed")
    batch, values = tries[0]
    assert sorted(row.value for row in orders.rows if row.batch == batch) == values
    assert orders.values() == numbers(100), "no row is missing, and none is there twice"


def test_a_revoked_partition_is_released_after_its_batch_is_committed(world: Worlds) -> None:
    orders = world(2)
    orders.send_to(0, *numbers(40))
    held = Held(orders)
    orders.revoke(0)
    orders.revoke(1)  # has nothing in the batch
    wait_for(lambda: orders.session.status.releases == {orders.release(1)}, "the driver has seen the revocations")
    held.go_on.set()
    wait_for(lambda: orders.release(0) in orders.session.status.releases, "the partition is released")
    assert orders.lag()[0] == 0


def test_a_range_in_progress_is_read_to_its_end_after_a_grant_to_another(world: Worlds) -> None:
    orders = world(2)
    second = orders.owner(1)
    orders.send(*numbers(40))
    held = Held(orders)
    orders.give({0: second})
    held.go_on.set()
    wait_for(orders.committed, "all is committed")
    orders.send(*numbers(40, 40))
    wait_for(lambda: len(orders.rows) == 80 and orders.committed(), "the new owner reads on")
    assert orders.values() == numbers(80)
    assert in_order(orders.rows)


def test_rows_lost_while_the_function_runs_are_read_again_unchanged(world: Worlds) -> None:
    read_twice_although_an_executor_is_killed(world(2))


def test_a_stopped_executor_holds_up_no_other_and_its_late_results_are_ignored(world: Worlds) -> None:
    orders = world(2)
    victim, survivor = orders.owner(0), orders.owner(1)
    orders.start()
    wait_for(lambda: len(orders.session.status.executors) == 2, "the driver speaks for two executors")
    orders.signal(victim, signal.SIGSTOP)
    orders.send(*numbers(40))
    wait_for(lambda: any(row.partition == 1 for row in orders.rows), "the others go on")
    wait_for(lambda: victim not in orders.session.status.executors, "the driver no longer speaks for it")
    orders.give({0: survivor})
    orders.signal(victim, signal.SIGCONT)
    wait_for(orders.committed, "all is committed")
    assert orders.values() == numbers(40)


def test_a_queue_that_goes_away_is_waited_for(world: Worlds, server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    orders = world(2)
    query = orders.start()
    wait_for(lambda: len(orders.session.status.executors) == 2, "the fleet is at work")
    server.stop()
    wait_for(lambda: "is unreachable" in caplog.text, "the driver has noticed")
    assert query.isActive
    server.start()
    orders.send(*numbers(40))
    wait_for(orders.committed, "all is committed")
    assert orders.values() == numbers(40)


def test_a_fleet_that_is_stopped_finishes_its_batch(world: Worlds) -> None:
    orders = world(1)
    orders.send(*numbers(40))
    held = Held(orders)
    stopping = threading.Thread(target=orders.stop)
    stopping.start()
    held.go_on.set()
    stopping.join(PATIENCE)
    assert not held.query.isActive
    assert orders.values() == numbers(40)
    assert orders.committed()


def test_a_second_stop_of_a_fleet_waits_for_its_batch_too(world: Worlds) -> None:
    orders = world(1)
    orders.send(*numbers(40))
    held = Held(orders)
    assert orders.fleet is not None
    running = orders.fleet._running
    assert running is not None
    first, second = (threading.Thread(target=running.stop, args=(PATIENCE,)) for _ in range(2))
    first.start()
    wait_for(running.ending, "it is being stopped")
    second.start()
    second.join(0.5)
    assert second.is_alive(), "the batch runs"
    held.go_on.set()
    second.join(PATIENCE)
    assert not held.query.isActive
    assert orders.values() == numbers(40)
    first.join(PATIENCE)


def test_a_function_may_stop_its_fleet_which_ends_after_the_batch(world: Worlds) -> None:
    orders = world(1)
    orders.send(*numbers(40))

    def process(rows: DataFrame, batch: int) -> None:
        orders.stop()
        orders.keep(rows, batch)

    query = orders.start(process)
    wait_for(lambda: not query.isActive, "the query has ended")
    assert query.exception() is None
    assert orders.values() == numbers(40)
    wait_for(orders.committed, "all is committed")


def test_a_query_stops_while_it_waits_for_entries(world: Worlds) -> None:
    orders = world(2)
    query = orders.start()
    wait_for(lambda: len(orders.session.status.executors) == 2, "the fleet is at work")
    query.stop()
    assert not query.isActive


def test_an_executor_that_missed_its_deadline_and_holds_up_the_batch_is_replaced(world: Worlds, tmp_path: Path) -> None:
    orders = world(2)
    survivor = orders.owner(1)
    stuck = tmp_path / "stuck"

    def process(rows: DataFrame, batch: int) -> None:
        rows.foreachPartition(partial(stop_once, stuck))
        orders.keep(rows, batch)

    orders.start(process, holdup_timeout=2)
    orders.send(*numbers(40))
    wait_for(stuck.exists, "a task is stuck")
    try:
        orders.give({0: survivor})
        wait_for(orders.committed, "all is committed")
    finally:
        with suppress(ProcessLookupError):  # it went with its executor
            os.kill(int(stuck.read_text()), signal.SIGKILL)
    assert orders.statistics.executors_ended == 1
    assert sorted(set(orders.values())) == numbers(40)


def stop_once(mark: Path, rows: Iterable[DataFrameRow]) -> None:
    """In an executor: the first task with rows of partition 0 stops its Python process. The executor's JVM continues."""
    if any(row.partition == 0 for row in rows) and not mark.exists():
        fresh = mark.with_suffix(".fresh")
        fresh.write_text(str(os.getpid()))
        fresh.rename(mark)
        os.kill(os.getpid(), signal.SIGSTOP)
