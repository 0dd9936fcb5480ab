"""Failures of queries, and stopping them."""

from collections.abc import Mapping

import pytest

from baton.model.ids import Partition, QueueName
from baton.spark.queries import QueryFailures, last_line, of_rows, stop_queries
from baton.spark.queues import Range


def up_to(end: int) -> frozenset[Range]:
    return frozenset({Range(Partition(QueueName("orders"), 0), 0, end)})


def failing(times: int, batches_done: int = 4) -> QueryFailures:
    failures = QueryFailures()
    for _ in range(times):
        failures = failures.and_another(batches_done, "batch 5 of 1 range", "ValueError: the sink is full")
    return failures


def test_pauses_grow_up_to_a_minute() -> None:
    assert [failing(times).pause for times in (0, 1, 2, 3, 20)] == [0, 1, 2, 4, 60]


def test_a_failing_query_is_reported_after_enough_failures() -> None:
    assert failing(2).trouble(4, reported_after=3) == ""
    assert failing(3).trouble(4, reported_after=3) == (
        "The query has failed 3 times in a row at batch 5 of 1 range: ValueError: the sink is full"
    )


def test_a_finished_batch_ends_a_row_of_failures() -> None:
    assert failing(3).trouble(5, reported_after=3) == ""
    assert failing(3).and_another(5, "batch 6", "x").count == 1


def test_only_failures_of_the_same_entries_count_for_the_batch() -> None:
    failures, entries = QueryFailures(), up_to(1)
    for found in (entries, frozenset[Range](), entries):
        failures = failures.and_another(4, "batch 5", "x", found)
    assert (failures.count, failures.of_batch) == (3, 2)
    assert failures.and_another(5, "batch 6", "x", entries).of_batch == 1


def test_entries_new_in_a_batch_have_failed_once() -> None:
    failures = QueryFailures()
    for end in (1, 2, 3):  # without a checkpoint each try is a batch of its own
        failures = failures.and_another(4, "batch 1", "x", up_to(end))
    assert (failures.count, failures.of_batch) == (3, 1)


@pytest.mark.parametrize(
    ("cause", "counts"),
    [
        ("py4j.Py4JException", True),
        ("org.apache.spark.SparkException", True),
        ("org.apache.spark.SparkArithmeticException", True),
        ("org.apache.spark.api.python.PythonException", True),
        ("org.apache.spark.sql.execution.streaming.sources.ForeachBatchUserFuncException", True),
        ("org.apache.spark.sql.execution.streaming.state.StateStoreCheckpointLocationNotEmpty", False),
        ("org.apache.hadoop.fs.FSError", False),
        ("java.io.IOException", False),
    ],
)
def test_only_errors_of_functions_and_tasks_count_as_failures_of_rows(cause: str, counts: bool) -> None:
    assert of_rows(cause, "the sink is full") == counts


def test_a_commit_log_conflict_is_not_a_failure_of_rows() -> None:
    assert not of_rows("org.apache.spark.SparkException", "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.")


def test_the_last_line_of_an_error_has_no_traceback() -> None:
    text = """[STREAM_FAILED] Query [id = 1] terminated with exception: An exception was raised by the Python Proxy.
Traceback (most recent call last):
  File "x.py", line 3, in process
    raise ValueError("the sink is full")
ValueError: the sink is full
 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = 1]
Logical Plan:
+- ~StreamingDataSourceV2ScanRelation[queue#36] baton:orders

JVM stacktrace:
org.apache.spark.SparkException
    at scala.x(y.scala:1)"""
    assert last_line(text) == "ValueError: the sink is full"
    assert last_line(text.replace("XXKST", "39000 SQLSTATE: XXKST ")) == "ValueError: the sink is full"
    assert last_line("terminated with exception: the queue is gone\n=== Streaming Query ===\n+- ~Scan") == (
        "terminated with exception: the queue is gone"
    )
    assert last_line("") == ""


def test_the_error_of_a_killed_worker_is_more_than_a_class_name() -> None:
    text = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure: \
Task 0 in stage 3.0 failed 8 times, most recent failure: Lost task 0.7 in stage 3.0 (TID 11) (10.0.0.7 executor 0): \
org.apache.spark.SparkException: Python worker exited unexpectedly (crashed).
\tat org.apache.spark.api.python.BasePythonRunner(PythonRunner.scala:1)
Caused by: java.io.EOFException
\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:386)
\t... 20 more

Driver stacktrace: SQLSTATE: XXKST
=== Streaming Query ==="""
    assert last_line(text) == "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)."
    assert last_line(text.replace("EOFException", "EOFException: too short")) == "java.io.EOFException: too short"
    assert last_line("Caused by: java.io.EOFException") == "java.io.EOFException", "where there is nothing else"


def test_the_error_of_a_lost_executor_says_only_how_its_pod_ended() -> None:
    text = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure: \
Task 0 in stage 3.0 failed 8 times, most recent failure: Lost task 0.7 in stage 3.0 (TID 11) (10.0.0.7 executor 7): \
ExecutorLostFailure (executor 7 exited caused by one of the running tasks) Reason:
The executor with id 7 exited with exit code 137(SIGKILL, possible container OOM).



The API gave the following container statuses:


\t container name: spark-kubernetes-executor
\t container image: orders-spark:1
\t container state: terminated
\t container started at: 2026-11-26T10:00:00Z
\t container finished at: 2026-11-26T10:01:00Z
\t exit code: 137
\t termination reason: Error

Driver stacktrace: SQLSTATE: XXKST
=== Streaming Query ==="""
    ended = "The executor with id 7 exited with exit code 137(SIGKILL, possible container OOM)."
    assert last_line(text) == ended
    message = "The API gave the following message: The node was low on resource: memory."
    assert last_line(text.replace("OOM).\n", f"OOM).\n{message}\n")) == message


def test_reported_errors_have_no_query_ids() -> None:
    text = """[STREAM_FAILED] Query [id = 27020a48-d584-48c9-9fb8-b901515f8369, runId = 1b19e9ed-ba31-4349-9307-5cf1cae5d3e5] \
terminated with exception: [USER_RAISED_EXCEPTION] no such product SQLSTATE: P0001 SQLSTATE: XXKST
=== Streaming Query ==="""
    assert last_line(text) == "[USER_RAISED_EXCEPTION] no such product"


class Query:
    def __init__(self, why: str = "") -> None:
        self._why, self.stopped = why, False

    def stop(self) -> None:
        if self._why:
            raise RuntimeError(self._why)
        self.stopped = True


def test_a_query_that_cannot_be_stopped_does_not_block_others() -> None:
    queries = {"a": Query("its thread does not end"), "b": Query(), "of another group": Query()}
    stop_queries(lambda: queries, ["a", "b", "ended already"])
    assert [queries[one].stopped for one in queries] == [False, True, False]


def test_queries_of_a_dead_jvm_need_not_be_stopped(caplog: pytest.LogCaptureFixture) -> None:
    def gone() -> Mapping[str, Query]:
        raise ConnectionRefusedError("there is no JVM")

    stop_queries(gone, ["a"])
    assert "there is no JVM" in caplog.text
