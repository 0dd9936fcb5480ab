"""A user's state by key in Python: `transformWithState` over the source, with RocksDB as the state store."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from tests.integration.spark.world import Worlds, wait_for

pytestmark = pytest.mark.usefixtures("in_rocksdb")

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
    orders.share_out(2)
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
