"""A batch that always fails, and what to do: dead letters, or a new checkpoint with smaller limits."""

import shutil
import threading
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
from tests.waiting import PATIENCE


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


def test_after_so_many_failures_the_batch_is_in_the_dead_letters_and_the_query_goes_on(world: Worlds) -> None:
    orders = world(2)
    orders.share_out(2)
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


def test_a_batch_that_was_done_and_could_not_be_written_down_is_not_set_aside(world: Worlds) -> None:
    orders = world(1)
    orders.share_out(1)
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


def test_a_batch_that_is_in_sparks_commit_log_already_is_not_set_aside(world: Worlds) -> None:
    """As if a store had written the log and its answer was lost."""
    orders = world(1)
    orders.share_out(1)
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


def test_beside_another_source_nothing_is_set_aside_for_its_rows_may_be_to_blame(world: Worlds, tmp_path: Path) -> None:
    orders = world(1)
    orders.share_out(1)
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


def test_a_driver_that_ends_behind_the_set_aside_leaves_the_next_one_an_empty_batch(world: Worlds) -> None:
    orders = world(1)
    orders.share_out(1)
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
def test_a_driver_that_is_killed_while_it_sets_aside_leaves_the_next_one_each_row_once(
    world: Worlds, tmp_path: Path, moved: list[int]
) -> None:
    """`moved`: number of moved portions per partition."""
    orders = world(2)
    orders.share_out(2)
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

    def stop_behind_the_last() -> None:
        try:
            wait_for(orders.committed, "all is committed")
        finally:
            fleet.stop()

    looking = threading.Thread(target=stop_behind_the_last)
    looking.start()
    fleet.run(start, failures=1, dead_letters=True)
    looking.join(PATIENCE)
    rows = [row.value for row in orders.spark.read.parquet(str(table)).collect()]
    dead = [value for value, _ in letters(orders)]
    assert sorted([*rows, *dead]) == sorted([*sent[0], *sent[1], "last"])
    assert sorted(dead) == sorted(sent[0] if moved[1] == 0 else [*sent[0], *sent[1]])


def test_without_the_option_the_batch_comes_again_and_nothing_is_set_aside(world: Worlds) -> None:
    orders = world(1)
    orders.share_out(1)
    orders.send_to(0, "poison")
    function = Poisoned(orders, "poison", "last")
    with pytest.raises(StreamingQueryException, match="cannot work on poison"):
        orders.fleet_here().run(function.start, failures=2, give_up=True)
    assert letters(orders) == []
    function.poison = ""
    function.last = "poison"
    orders.fleet_here().run(function.start)
    assert orders.values() == ["poison"]


def test_a_start_that_raises_behind_its_query_leaves_none_running(world: Worlds) -> None:
    orders = world(1)
    orders.share_out(1)
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


def test_two_ends_of_a_failing_batch_are_refused(world: Worlds) -> None:
    fleet = world(1).another_fleet("orders")
    with pytest.raises(ValueError, match="choose one"):
        fleet.run(lambda rows: pytest.fail("started"), give_up=True, dead_letters=True)


def test_a_batch_that_is_too_large_is_cured_by_a_new_checkpoint_with_smaller_limits(world: Worlds, tmp_path: Path) -> None:
    orders = world(2)
    orders.share_out(2)
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
