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


def test_the_group_is_told_after_so_many_failures_in_a_row() -> None:
    assert failing(2).trouble(4, reported_after=3) == ""
    assert failing(3).trouble(4, reported_after=3) == (
        "The query has failed 3 times in a row at batch 5 of 1 range: ValueError: the sink is full"
    )


def test_a_batch_that_is_done_ends_the_row() -> None:
    assert failing(3).trouble(5, reported_after=3) == ""
    assert failing(3).and_another(5, "batch 6", "x").count == 1


def test_failures_for_the_same_entries_count_and_those_that_are_not_their_fault_do_not() -> None:
    failures, entries = QueryFailures(), up_to(1)
    for found in (entries, frozenset[Range](), entries):
        failures = failures.and_another(4, "batch 5", "x", found)
    assert (failures.count, failures.of_batch) == (3, 2)
    assert failures.and_another(5, "batch 6", "x", entries).of_batch == 1


def test_entries_that_were_not_in_the_batch_before_have_failed_once() -> None:
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
def test_what_a_function_or_a_task_raised_is_told_from_what_spark_does_around_them(cause: str, counts: bool) -> None:
    assert of_rows(cause, "the sink is full") == counts


def test_a_batch_that_is_in_sparks_log_already_was_done() -> None:
    assert not of_rows("org.apache.spark.SparkException", "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.")


def test_the_error_s_last_line_without_traces() -> None:
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


def test_of_a_worker_that_was_killed_the_error_says_so_and_not_only_a_class() -> None:
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


def test_of_an_executor_whose_pod_has_ended_the_error_says_how_and_not_what_else_spark_knows_of_the_pod() -> None:
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


def test_the_ids_of_the_query_are_no_part_of_what_went_wrong() -> None:
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


def test_a_query_that_cannot_be_stopped_does_not_keep_others_from_stopping() -> None:
    queries = {"a": Query("its thread does not end"), "b": Query(), "of another group": Query()}
    stop_queries(lambda: queries, ["a", "b", "ended already"])
    assert [queries[one].stopped for one in queries] == [False, True, False]


def test_queries_of_a_jvm_that_has_gone_need_not_be_stopped(caplog: pytest.LogCaptureFixture) -> None:
    def gone() -> Mapping[str, Query]:
        raise ConnectionRefusedError("there is no JVM")

    stop_queries(gone, ["a"])
    assert "there is no JVM" in caplog.text
