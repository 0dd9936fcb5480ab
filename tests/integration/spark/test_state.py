"""A user's state by key in Python, with RocksDB as the state store; rows, timers and Python workers that fail."""

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from tests.integration.spark.test_always_failing import letters
from tests.integration.spark.world import World, Worlds, wait_for
from tests.waiting import PATIENCE

pytestmark = pytest.mark.usefixtures("in_rocksdb", "two_tries")

COUNTED = "number string, count long"


class CountsRows(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._seen = handle.getValueState("seen", "count long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803 - Spark's
        yield Row(number=key[0], count=self._and(sum(1 for _ in rows)))

    def close(self) -> None:
        pass

    def _and(self, more: int) -> int:
        before = self._seen.get()
        count = more + (before[0] if before is not None else 0)
        self._seen.update((count,))
        return count


class CountsFrames(CountsRows):
    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803 - Spark's
        yield pd.DataFrame({"number": [key[0]], "count": [self._and(sum(len(frame) for frame in rows))]})


def by_rows(rows: DataFrame) -> DataFrame:
    return rows.groupBy("number").transformWithState(CountsRows(), COUNTED, "update", "none")


def by_frames(rows: DataFrame) -> DataFrame:
    return rows.groupBy("number").transformWithStateInPandas(CountsFrames(), COUNTED, "update", "none")


@pytest.mark.parametrize("counting", [pytest.param(by_rows, marks=pytest.mark.long), by_frames])
def test_state_of_each_key_is_kept_from_batch_to_batch(
    world: Worlds, tmp_path: Path, counting: Callable[[DataFrame], DataFrame]
) -> None:
    orders = world(2)
    orders.fleet_here()
    latest: dict[str, int] = {}

    def keep(counts: DataFrame, _: int) -> None:
        latest.update({row["number"]: row["count"] for row in counts.collect()})

    rows = orders.load().select(F.col("value").cast("string").alias("number"))
    writer = counting(rows).writeStream.outputMode("update").foreachBatch(keep)
    query = writer.option("checkpointLocation", str(tmp_path / "state")).start()

    def has(wanted: dict[str, int]) -> bool:
        assert query.exception() is None
        return latest == wanted

    orders.send(*["one", "two", "two"] * 5)
    wait_for(lambda: has({"one": 5, "two": 10}), "the first entries are counted")
    orders.send(*["two", "three"] * 5)
    wait_for(lambda: has({"one": 5, "two": 15, "three": 5}), "the later ones are added")


# -- Rows and timers that raise.


class CountsGoodRows(CountsRows):
    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803 - Spark's
        if key[0] == "poison":
            raise ValueError("no such product")
        yield from super().handleInputRows(key, rows, timerValues)


def by_state(numbers: DataFrame) -> DataFrame:
    return numbers.groupBy("number").transformWithState(CountsGoodRows(), COUNTED, "update", "none")


def by_pandas(numbers: DataFrame) -> DataFrame:
    def count(key: Any, frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        if key[0] == "poison":
            raise ValueError("no such product")
        before = state.get[0] if state.exists else 0
        state.update((before + sum(map(len, frames)),))
        yield pd.DataFrame({"number": [key[0]], "count": [state.get[0]]})

    groups = numbers.groupBy("number")
    return groups.applyInPandasWithState(count, COUNTED, "count long", "update", GroupStateTimeout.NoTimeout)


def by_worker(numbers: DataFrame) -> DataFrame:
    def ends(batches):  # type: ignore[no-untyped-def] # its types would be looked for in the executor
        import os

        for batch in batches:
            if "poison" in batch["number"].to_pylist():
                os._exit(3)
            yield batch

    return numbers.mapInArrow(ends, "number string").withColumn("count", F.lit(1).cast("long"))


class Counted:
    """A query that keeps the counts, and stops its fleet after the last row."""

    def __init__(self, orders: World, counting: Callable[[DataFrame], DataFrame]) -> None:
        self.orders, self.counting = orders, counting
        self.latest: dict[str, int] = {}

    def start(self, rows: DataFrame) -> StreamingQuery:
        counts = self.counting(rows.select(F.col("value").cast("string").alias("number")))
        writer = counts.writeStream.outputMode("update").foreachBatch(self.keep)
        return writer.option("checkpointLocation", str(self.orders.checkpoint)).start()

    def keep(self, counts: DataFrame, _: int) -> None:
        self.latest.update({row["number"]: row["count"] for row in counts.collect()})
        if "last" in self.latest:
            self.orders.stop()

    def run(self, sending: Callable[["Counted"], None], **options: int) -> None:
        """Wait until `sending` has sent the last row, and the row is counted."""
        fleet = self.orders.fleet_here(repeat_wait=5.0)
        looking = threading.Thread(target=self._look_on, args=(sending,))
        looking.start()
        fleet.run(self.start, options=options, failures=1, dead_letters=True)
        looking.join(PATIENCE)

    def _look_on(self, sending: Callable[["Counted"], None]) -> None:
        try:
            sending(self)
            self.orders.send_to(0, "last")
        except BaseException:
            self.orders.stop()
            raise


def a_batch_with_poison(counted: Counted) -> None:
    counted.orders.send_to(0, "one")
    wait_for(lambda: counted.latest == {"one": 1}, "the first is counted")
    counted.orders.send_to(0, "one", "poison")
    wait_for(lambda: len(letters(counted.orders)) == 2, "the batch is set aside")
    counted.orders.send_to(0, "one")
    wait_for(lambda: counted.latest["one"] == (1 if counted.counting is by_worker else 2), "the query goes on")


@pytest.mark.parametrize(
    ("counting", "why"),
    [
        (by_state, "ValueError: no such product"),
        (by_pandas, "ValueError: no such product"),
        (by_worker, "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)."),
    ],
)
def test_a_poisonous_batch_is_set_aside_and_earlier_state_is_kept(
    world: Worlds, counting: Callable[[DataFrame], DataFrame], why: str
) -> None:
    orders = world(1)
    counted = Counted(orders, counting)
    counted.run(a_batch_with_poison)
    assert counted.latest == {"one": 1 if counting is by_worker else 2, "last": 1}, "what a failed try has counted does not count"
    found = letters(orders)
    assert [value for value, _ in found] == ["one", "poison"]
    assert all(told.startswith(f"its batch failed 1 times in a row: {why}") for _, told in found), found


class Reminds(CountsRows):
    """A timer after the first row, which raises until the folder has a file `mended`."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)

    def init(self, handle: StatefulProcessorHandle) -> None:
        super().init(handle)
        self._handle = handle

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803 - Spark's
        if key[0] == "one":
            self._handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 1)
        yield from super().handleInputRows(key, rows, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802, N803 - Spark's
        if not Path(self._folder, "mended").exists():
            raise ValueError("nobody to remind")
        return iter(())


@pytest.mark.long
def test_a_failing_timer_sets_aside_at_most_one_batch(world: Worlds, tmp_path: Path) -> None:
    orders = world(1)

    def by_timer(numbers: DataFrame) -> DataFrame:
        return numbers.groupBy("number").transformWithState(Reminds(tmp_path), COUNTED, "update", "processingTime")

    def until_mended(counted: Counted) -> None:
        orders.send_to(0, "one", "two", "three")  # each is a batch, and the timer's is the second
        wait_for(lambda: letters(orders), "the row that is in the timer's batch is set aside")
        wait_for(lambda: orders.statistics.query_failures >= 3, "it goes on failing")
        (tmp_path / "mended").touch()

    counted = Counted(orders, by_timer)
    counted.run(until_mended, maxRowsPerTrigger=1)
    assert counted.latest == {"one": 1, "three": 1, "last": 1}
    assert letters(orders) == [("two", "its batch failed 1 times in a row: ValueError: nobody to remind")]
