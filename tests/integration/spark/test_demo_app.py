"""The function of the demo's application, in a task that Spark retries."""

import time
from collections.abc import Iterable

import pytest
from pyspark.sql import DataFrame, Row

from demo.app import process
from demo.audit import audit
from demo.gauges import Gauges
from demo.records import Evidence
from tests.integration.spark.world import Worlds, wait_for


@pytest.mark.usefixtures("two_tries")
def test_a_retried_task_marks_what_its_first_attempt_had_reported(world: Worlds) -> None:
    """As if the executor was killed after it had reported, before the driver heard that the task had ended."""
    orders = world(1)
    url, queue = orders.url, orders.queue

    def report_then_fail_once(rows: Iterable[Row], batch: int) -> None:
        from pyspark import TaskContext

        process(rows, batch, 0.0, url, queue)
        task = TaskContext.get()
        assert task is not None
        assert task.attemptNumber() > 0, "the first attempt fails"

    def work(rows: DataFrame, batch: int) -> None:
        rows.foreachPartition(lambda part: report_then_fail_once(part, batch))

    orders.start(work)
    orders.send_to(0, "1", "2", "3")
    wait_for(orders.committed, "the second attempt has ended")
    with Gauges(url, queue, 1, lambda: 3, time.monotonic) as gauges:
        processed = list(gauges.results())
    assert [(row.sequence, row.redelivered, row.late) for row in processed] == [
        *[(number, False, False) for number in (1, 2, 3)],
        *[(number, True, True) for number in (1, 2, 3)],
    ]
    assert audit(Evidence({processed[0].key: 3}, processed)).clean
