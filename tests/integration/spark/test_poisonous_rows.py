"""A row that a stateful operator raises for, and one that ends its Python worker: the words for it, and that it is set aside."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from tests.integration.spark.test_always_failing import letters
from tests.integration.spark.test_source_state import COUNTED, CountsRows
from tests.integration.spark.world import World, Worlds, wait_for
from tests.waiting import PATIENCE

pytestmark = pytest.mark.usefixtures("in_rocksdb")


class CountsGoodRows(CountsRows):
    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803 - Spark's
        if key[0] == "poison":
            raise ValueError("no such product")
        yield from super().handleInputRows(key, rows, timerValues)


def by_state(numbers: DataFrame) -> DataFrame:
    return numbers.groupBy("number").transformWithState(CountsGoodRows(), COUNTED, "update", "none")


def by_worker(numbers: DataFrame) -> DataFrame:
    def ends(batches):  # type: ignore[no-untyped-def] # its types would be looked for in the executor
        import os

        for batch in batches:
            if "poison" in batch["number"].to_pylist():
                os._exit(3)
            yield batch

    return numbers.mapInArrow(ends, "number string").withColumn("count", F.lit(1).cast("long"))


class Counted:
    """A query that keeps the counts, and ends its fleet behind the last row."""

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

    def run(self) -> None:
        """A good row, a batch with the poisonous one, a good one."""
        fleet = self.orders.fleet_here(repeat_wait=5.0)
        looking = threading.Thread(target=self._look_on)
        looking.start()
        fleet.run(self.start, failures=1, dead_letters=True)
        looking.join(PATIENCE)

    def _look_on(self) -> None:
        try:
            self.orders.send_to(0, "one")
            wait_for(lambda: self.latest == {"one": 1}, "the first is counted")
            self.orders.send_to(0, "one", "poison")
            wait_for(lambda: len(letters(self.orders)) == 2, "the batch is set aside")
            self.orders.send_to(0, "one", "last")
        except BaseException:
            self.orders.stop()
            raise


@pytest.mark.parametrize(
    ("counting", "why"),
    [
        (by_state, "ValueError: no such product"),
        (by_worker, "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)."),
    ],
)
def test_the_batch_is_set_aside_with_what_went_wrong_and_what_was_counted_before_stands(
    world: Worlds, counting: Callable[[DataFrame], DataFrame], why: str
) -> None:
    orders = world(1)
    orders.share_out(1)
    counted = Counted(orders, counting)
    counted.run()
    assert counted.latest == {"one": 2 if counting is by_state else 1, "last": 1}, "what a failed try has counted does not count"
    found = letters(orders)
    assert [value for value, _ in found] == ["one", "poison"]
    assert all(told.startswith(f"its batch failed 1 times in a row: {why}") for _, told in found), found
