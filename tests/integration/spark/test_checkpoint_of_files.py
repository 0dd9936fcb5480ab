"""A file sink with batches that the query's checkpoint lacks: Spark's sink would skip these numbers, and lose the rows."""

import shutil
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

from tests.file_sink import written
from tests.integration.spark.world import Worlds, wait_for


def test_a_query_whose_files_would_skip_its_rows_is_refused_and_no_row_is_lost(world: Worlds, tmp_path: Path) -> None:
    orders = world(1)
    orders.share_out(1)
    orders.fleet_here()
    table, known, older = tmp_path / "table", orders.checkpoint, tmp_path / "older"
    orders.send("one")
    orders.to_files(table, now=True).awaitTermination()
    shutil.copytree(known, older)
    orders.send("two")
    orders.to_files(table, now=True).awaitTermination()
    orders.send("three")
    for checkpoint in (tmp_path / "new", older):
        orders.checkpoint = checkpoint
        with pytest.raises(StreamingQueryException, match=r"rows would be lost\. Use another path"):
            orders.to_files(table, now=True).awaitTermination()
    wait_for(lambda: orders.lag() == {0: 1}, "what was read is done with, and the rest is there")
    orders.checkpoint = known
    orders.to_files(table, now=True).awaitTermination()
    assert sum(written(table).values()) == 3
    orders.checkpoint = tmp_path / "newer"
    orders.send("four")
    orders.to_files(tmp_path / "another", now=True).awaitTermination()
    assert sum(written(tmp_path / "another").values()) == 1
