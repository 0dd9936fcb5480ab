from baton.spark.query_failures import QueryFailures, last_line


def failing(times: int, batches_done: int = 4) -> QueryFailures:
    failures = QueryFailures()
    for _ in range(times):
        failures = failures.and_another(batches_done, "batch 5 of 1 range", "ValueError: the sink is full")
    return failures


def test_pauses_grow_up_to_a_minute() -> None:
    assert [failing(times).pause for times in (0, 1, 2, 3, 20)] == [0, 1, 2, 4, 60]


def test_the_group_is_told_after_so_many_failures_in_a_row() -> None:
    assert failing(2).trouble(4, told_after=3) == ""
    assert failing(3).trouble(4, told_after=3) == (
        "The query has failed 3 times in a row at batch 5 of 1 range: ValueError: the sink is full"
    )


def test_a_batch_that_is_done_ends_the_row() -> None:
    assert failing(3).trouble(5, told_after=3) == ""
    assert failing(3).and_another(5, "batch 6", "x").count == 1


def test_failures_of_the_batch_count_where_its_entries_could_be_read() -> None:
    failures = QueryFailures()
    for readable in (True, False, True):
        failures = failures.and_another(4, "batch 5", "x", readable=readable)
    assert (failures.count, failures.of_batch) == (3, 2)
    assert failures.and_another(5, "batch 6", "x", readable=True).of_batch == 1


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
