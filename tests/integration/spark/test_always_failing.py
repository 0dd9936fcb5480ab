"""A batch that always fails, and what to do: dead letters, or a new checkpoint with smaller limits."""

import re
import shutil
from pathlib import Path

import pytest
import redis
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from baton.queues.redis import scripts
from baton.queues.redis.dead_letters import RedisDeadLetters
from baton.queues.redis.keys import partition_keys
from tests.integration.redis.logged import words_of_one
from tests.integration.spark.world import World, Worlds, wait_for


def letters(orders: World) -> list[tuple[str, str]]:
    """Values and reasons of the dead letters."""
    with RedisDeadLetters(orders.url, orders.queue) as dead:
        found = [dead.find(line.letter) for partition in dead.counts() for page in dead.every(partition) for line in page]
    return sorted((one.value.decode(), one.why) for one in found if one is not None)


class Poisoned:
    """A function that fails at a certain value, and stops the fleet after another."""

    def __init__(self, orders: World, poison: str, last: str) -> None:
        self.orders, self.poison, self.last = orders, poison, last
        self.tries = 0

    def start(self, rows: DataFrame) -> StreamingQuery:
        writer = rows.writeStream.foreachBatch(self.process)
        return writer.option("checkpointLocation", str(self.orders.checkpoint)).start()

    def process(self, rows: DataFrame, batch: int) -> None:
        values = [row.value.decode() for row in rows.collect()]
        if self.poison in values:
            self.tries += 1
            raise ValueError(f"cannot work on {self.poison}")
        self.orders.keep(rows, batch)
        if self.last in values:
            assert self.orders.fleet is not None
            self.orders.fleet.stop()


def test_after_enough_failures_the_batch_goes_to_dead_letters(world: Worlds) -> None:
    orders = world(2)
    orders.send_to(0, "poison", "beside it")
    function = Poisoned(orders, "poison", "last")
    fleet = orders.fleet_here()

    def start(rows: DataFrame) -> StreamingQuery:
        if function.tries == 2:  # the next batch has these, and the one that is repeated has not
            orders.send_to(1, "last")
        return function.start(rows)

    fleet.run(start, failures=2, dead_letters=True)
    assert function.tries == 2
    assert orders.values() == ["last"]
    why = "its batch failed 2 times in a row: ValueError: cannot work on poison"
    assert letters(orders) == [("beside it", why), ("poison", why)]
    wait_for(orders.committed, "all is committed")


def test_a_finished_batch_spark_could_not_record_is_not_set_aside(world: Worlds) -> None:
    orders = world(1)
    orders.send_to(0, "first")
    commits, aside = orders.checkpoint / "commits", orders.checkpoint / "aside"
    function, broken = Poisoned(orders, "", "last"), 0

    def process(rows: DataFrame, batch: int) -> None:
        nonlocal broken
        function.process(rows, batch)
        if not rows.isEmpty() and not broken:
            broken += 1
            commits.rename(aside)
            commits.write_text("where Spark would write that the batch is done")

    def start(rows: DataFrame) -> StreamingQuery:
        if aside.exists():
            commits.unlink()
            aside.rename(commits)
            orders.send_to(0, "last")
        return rows.writeStream.foreachBatch(process).option("checkpointLocation", str(orders.checkpoint)).start()

    orders.fleet_here().run(start, failures=1, dead_letters=True)
    assert broken
    assert letters(orders) == []
    assert orders.values() == ["first", "first", "last"]


def test_a_batch_already_in_sparks_commit_log_is_not_set_aside(world: Worlds) -> None:
    """As if a store had written the log and its answer was lost."""
    orders = world(1)
    orders.send_to(0, "first")
    function = Poisoned(orders, "", "last")
    written: list[int] = []

    def process(rows: DataFrame, batch: int) -> None:
        function.process(rows, batch)
        if batch and not written:
            written.append(batch)
            (orders.checkpoint / "commits" / str(batch)).write_text("v1\n{}")

    def start(rows: DataFrame) -> StreamingQuery:
        if written:
            orders.send_to(0, "last")
        return rows.writeStream.foreachBatch(process).option("checkpointLocation", str(orders.checkpoint)).start()

    orders.fleet_here().run(start, failures=1, dead_letters=True)
    assert orders.statistics.query_failures == len(written) == 1
    assert letters(orders) == []
    assert orders.values() == ["first", "last"]


def test_nothing_is_set_aside_if_the_query_has_another_source(world: Worlds, tmp_path: Path) -> None:
    orders = world(1)
    files = tmp_path / "files"
    files.mkdir()
    (files / "a.txt").write_text("poison\n")
    orders.send_to(0, "good")
    function = Poisoned(orders, "poison", "")
    fleet = orders.fleet_here()

    def start(rows: DataFrame) -> StreamingQuery:
        if function.tries == 2:
            fleet.stop()
        texts = orders.spark.readStream.text(str(files))
        both = rows.select("value").unionAll(texts.select(F.col("value").cast("binary").alias("value")))
        return function.start(both)

    fleet.run(start, failures=1, dead_letters=True)
    assert function.tries == 2
    assert letters(orders) == []


def test_a_driver_that_ends_after_setting_aside_leaves_an_empty_batch(world: Worlds) -> None:
    orders = world(1)
    orders.send_to(0, "poison")
    function = Poisoned(orders, "poison", "last")
    starts: list[int] = []

    def start(rows: DataFrame) -> StreamingQuery:
        starts.append(function.tries)
        if function.tries == 2:
            raise SystemExit("the driver ends here")
        return function.start(rows)

    with pytest.raises(SystemExit):
        orders.fleet_here().run(start, failures=2, dead_letters=True)
    assert [value for value, _ in letters(orders)] == ["poison"]
    orders.send_to(0, "last")
    orders.fleet_here().run(function.start)  # without the option: what was set aside stays so
    assert orders.values() == ["last"]
    assert function.tries == 2


PORTIONS = 2
"""Portions in which a partition of this test is set aside."""


@pytest.mark.parametrize("moved", [[1, 0], [PORTIONS, 0], [PORTIONS, 1]], ids=str)
def test_each_row_ends_up_once_if_a_driver_is_killed_while_setting_aside(world: Worlds, tmp_path: Path, moved: list[int]) -> None:
    """`moved`: number of moved portions per partition."""
    orders = world(2)
    table = tmp_path / "table"
    sent = {number: [f"{number}-{nth}" for nth in range(1500)] for number in (0, 1)}
    sent[0][700] = "poison"

    def start(rows: DataFrame) -> StreamingQuery:
        refused = F.when(F.col("value").cast("string").isin("poison"), F.raise_error(F.lit("no such product")))
        values = rows.select("partition", "offset", F.coalesce(refused, F.col("value")).cast("string").alias("value"))
        writer = values.writeStream.format("parquet").option("path", str(table))
        return writer.option("checkpointLocation", str(orders.checkpoint)).start()

    for number, values in sent.items():
        orders.send_to(number, *values)
    with pytest.raises(StreamingQueryException, match="no such product"):
        orders.fleet_here(repeat_wait=5.0).run(start, failures=1, give_up=True)
    with redis.Redis.from_url(orders.url) as raw:
        for number, portions in enumerate(moved):
            keys = partition_keys(orders.queue, number)
            query, begin, end = raw.hmget(keys.progress, "query", "logged", "loggedTo")
            answers = [words_of_one(raw, scripts.ASIDE, keys, query, begin, end, 1, "its batch failed") for _ in range(portions)]
            assert answers == [["MORE"], ["OK"]][:portions]

    orders.send_to(1, "last")
    fleet = orders.fleet_here(repeat_wait=5.0)
    with orders.watched(lambda: wait_for(orders.committed, "all is committed")):
        fleet.run(start, failures=1, dead_letters=True)
    rows = [row.value for row in orders.spark.read.parquet(str(table)).collect()]
    dead = [value for value, _ in letters(orders)]
    assert sorted([*rows, *dead]) == sorted([*sent[0], *sent[1], "last"])
    assert sorted(dead) == sorted(sent[0] if moved[1] == 0 else [*sent[0], *sent[1]])


def test_without_dead_letters_a_failing_batch_comes_again(world: Worlds) -> None:
    orders = world(1)
    orders.send_to(0, "poison")
    function = Poisoned(orders, "poison", "last")
    with pytest.raises(StreamingQueryException, match="cannot work on poison"):
        orders.fleet_here().run(function.start, failures=2, give_up=True)
    assert letters(orders) == [] and orders.lag() == {0: 1}
    function.poison = ""
    function.last = "poison"
    orders.fleet_here().run(function.start)
    assert orders.values() == ["poison"]


def test_a_start_that_raises_after_starting_a_query_leaves_none_running(world: Worlds) -> None:
    orders = world(1)
    orders.send_to(0, "first")
    function = Poisoned(orders, "", "last")
    begun: list[StreamingQuery] = []

    def start(rows: DataFrame) -> StreamingQuery:
        begun.append(function.start(rows))
        if len(begun) == 1:
            wait_for(lambda: any(one.numInputRows for one in begun[0].recentProgress), "a batch with rows is done")
            raise KeyError("a setting that is not there")
        orders.send_to(0, "last")
        return begun[-1]

    orders.fleet_here().run(start)
    assert len(begun) == 2
    assert not begun[0].isActive
    assert orders.values() == ["first", "last"]


def test_give_up_and_dead_letters_exclude_each_other(world: Worlds) -> None:
    fleet = world(1, owned=False).another_fleet("orders")
    with pytest.raises(ValueError, match="choose one"):
        fleet.run(lambda rows: pytest.fail("started"), give_up=True, dead_letters=True)


def test_a_new_checkpoint_with_smaller_limits_cures_a_too_large_batch(world: Worlds, tmp_path: Path) -> None:
    orders = world(2)
    sent = [f"{number:03}" for number in range(60)]
    orders.send(*sent)

    def process(rows: DataFrame, batch: int) -> None:
        if rows.count() > 10:
            raise MemoryError("too many rows")
        orders.keep(rows, batch)

    query = orders.start(process)
    with pytest.raises(StreamingQueryException, match="too many rows"):
        query.awaitTermination()
    orders.stop()
    query = orders.start(process, maxRowsPerTrigger=10)
    with pytest.raises(StreamingQueryException, match="too many rows"):
        query.awaitTermination()  # its end is in Spark's log, whatever the limits are now
    orders.stop()
    assert orders.values() == []

    shutil.rmtree(orders.checkpoint)
    orders.start(process, maxRowsPerTrigger=10, startingOffsets="committed")
    wait_for(orders.committed, "all is committed")
    assert orders.values() == sent, "no row is missing, and none is there twice"


# -- A row that kills every executor.


def kills_its_jvm(batches):  # type: ignore[no-untyped-def] # its types would be looked for in the executor
    import os
    import signal
    from pathlib import Path

    for batch in batches:
        if "deadly" in batch["value"].to_pylist():
            of_the_daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(") ")[2].split()
            os.kill(int(of_the_daemon[1]), signal.SIGKILL)  # its parent
        yield batch


@pytest.mark.long
@pytest.mark.usefixtures("two_tries")  # each takes an executor: the owner, and a borrower
def test_a_row_that_kills_executors_is_set_aside_and_its_partition_continues(world: Worlds, tmp_path: Path) -> None:
    orders, table = world(2), str(tmp_path / "table")
    owner = orders.owner(0)

    def start(rows: DataFrame) -> StreamingQuery:
        values = rows.select("partition", "offset", F.col("value").cast("string").alias("value"))
        writer = values.mapInArrow(kills_its_jvm, values.schema).writeStream.format("parquet").option("path", table)
        return writer.option("checkpointLocation", str(orders.checkpoint)).start()

    def send_to_both(value: str) -> None:
        for partition in (0, 1):
            orders.send_to(partition, value)
        wait_for(orders.committed, "it is done")

    def watch() -> None:
        send_to_both("before")
        orders.send_to(0, "deadly")
        wait_for(lambda: letters(orders), "it is set aside")
        orders.share_out(2)
        send_to_both("behind")

    fleet = orders.fleet_here()
    with orders.watched(watch):
        fleet.run(start, failures=1, dead_letters=True)
    rows = orders.spark.read.parquet(table).orderBy("partition", "offset").collect()
    assert [(row.partition, row.value) for row in rows] == [(0, "before"), (0, "behind"), (1, "before"), (1, "behind")]
    [(value, why)] = letters(orders)
    assert value == "deadly"
    killed = r"ExecutorLostFailure \(executor (\d+) exited caused by one of the running tasks\) Reason: .* code 137"
    found = re.fullmatch(rf"its batch failed 1 times in a row: {killed}", why)
    assert found, why
    assert found[1] != owner, "who borrowed the row was killed, too"
    assert not {owner, found[1]} & set(orders.ids())
