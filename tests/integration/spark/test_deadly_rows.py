"""A row that kills every executor is set aside; its partition continues, and all other rows are written once."""

import re
import threading
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from tests.integration.spark.test_always_failing import letters
from tests.integration.spark.world import World, Worlds, wait_for
from tests.waiting import PATIENCE

pytestmark = pytest.mark.usefixtures("two_tries")  # each takes an executor: the owner, and a borrower


def kills_its_jvm(batches):  # type: ignore[no-untyped-def] # its types would be looked for in the executor
    import os
    import signal
    from pathlib import Path

    for batch in batches:
        if "deadly" in batch["value"].to_pylist():
            of_the_daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(") ")[2].split()
            os.kill(int(of_the_daemon[1]), signal.SIGKILL)  # its parent
        yield batch


class IntoFiles:
    """A query that dies of a row, with the operator's part."""

    def __init__(self, orders: World, table: Path) -> None:
        self.orders, self.table = orders, table

    def run(self) -> None:
        fleet = self.orders.fleet_here()
        looking = threading.Thread(target=self._look_on)
        looking.start()
        fleet.run(self._start, failures=1, dead_letters=True)
        looking.join(PATIENCE)

    def rows(self) -> list[tuple[int, str]]:
        """The written values by partition, in order."""
        table = self.orders.spark.read.parquet(str(self.table))
        return [(row.partition, row.value) for row in table.orderBy("partition", "offset").collect()]

    def _start(self, rows: DataFrame) -> StreamingQuery:
        values = rows.select("partition", "offset", F.col("value").cast("string").alias("value"))
        writer = values.mapInArrow(kills_its_jvm, values.schema).writeStream.format("parquet").option("path", str(self.table))
        return writer.option("checkpointLocation", str(self.orders.checkpoint)).start()

    def _look_on(self) -> None:
        try:
            self._send("before")
            wait_for(self.orders.committed, "what comes before is done")
            self.orders.send_to(0, "deadly")
            wait_for(lambda: letters(self.orders), "it is set aside")
            self.orders.share_out(2)
            self._send("behind")
            wait_for(self.orders.committed, "what comes behind is done")
        finally:
            self.orders.stop()

    def _send(self, value: str) -> None:
        for partition in (0, 1):
            self.orders.send_to(partition, value)


@pytest.mark.long
def test_a_row_that_kills_each_executor_is_set_aside_and_its_partition_goes_on(world: Worlds, tmp_path: Path) -> None:
    orders = world(2)
    orders.share_out(2)
    owner = orders.owner(0)
    query = IntoFiles(orders, tmp_path / "table")
    query.run()
    assert query.rows() == [(0, "before"), (0, "behind"), (1, "before"), (1, "behind")]
    [(value, why)] = letters(orders)
    assert value == "deadly"
    killed = r"ExecutorLostFailure \(executor (\d+) exited caused by one of the running tasks\) Reason: .* code 137"
    found = re.fullmatch(rf"its batch failed 1 times in a row: {killed}", why)
    assert found, why
    assert found[1] != owner, "who borrowed the row was killed, too"
    assert not {owner, found[1]} & set(orders.ids())
