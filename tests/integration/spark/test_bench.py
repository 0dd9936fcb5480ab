"""`make bench-spark` with a few rows."""

import pytest

from tests.bench_runs import bench_run

OTHERS = ("no ownership", "a Python source")


@pytest.mark.long
def test_the_sources_benchmark_ends_with_a_line_of_json() -> None:
    run = bench_run("tests.bench.spark", "--quick")
    for other in OTHERS:
        what = "200 rows a batch, 2 partitions; beside"
        assert f"{what} {other}" in run.ours and f"time of a batch, {what} {other}" in run.ours
        assert f"{what} the rate source" in run.ours
        for what in (
            "600 rows by AvailableNow, 2 partitions",
            "processor time of executors, 600 rows by AvailableNow, 2 partitions",
            "processor time of Redis, 600 rows by AvailableNow, 2 partitions",
            "send to process at 200 rows/s, p50",
            "send to process at 200 rows/s, p95",
            "processor time at rest, driver",
            "processor time at rest, Redis",
        ):
            assert f"{what}; beside {other}" in run.ours
    for what in ("200 rows a batch", "time of a batch", "by AvailableNow"):
        assert any(what in case and "Kafka," in case and case.endswith("beside Spark's Kafka source") for case in run.ours)
    for what in ("longest batch", "median batch before", "registered to member"):
        for functions in ("JVM", "Python"):
            assert run.ours[f"{what}, an executor more, {functions}; beside one that is no member"] > 0
    assert "bookkeeping of a batch, 20 partitions, 4 executors; beside plain pipelines" in run.ours
    assert run.ours["ranges that were read on their owner, of all; beside all"] > 0
    assert "200 rows a batch, 2 partitions: round 1 of 1" in run.told
