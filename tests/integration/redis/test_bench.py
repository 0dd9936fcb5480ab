"""`make bench-consumer` with a few entries."""

import pytest

from tests.bench_runs import bench_run


@pytest.mark.long
def test_the_consumer_benchmark_ends_with_a_line_of_json() -> None:
    run = bench_run("tests.bench.consumer", "--tiny")
    for partitions in ("1 partition", "3 partitions"):
        assert f"consume and ack, {partitions}" in run.ours
        assert f"idle consumer, from send to handler, p50, {partitions}" in run.ours
    assert "single sends" in run.ours
    assert all(figure > 0 for figure in run.ours.values()), run.ours
    assert "consume and ack, 3 partitions: round 1 of 1" in run.told
