"""The line that says where the seconds of a start have gone."""

import logging

import pytest

from baton.spark.start_times import STEPS, StartTimes


def test_the_seconds_of_each_step_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    now = [10.0]
    times = StartTimes(10.0, lambda: now[0])
    with caplog.at_level(logging.INFO, "baton.spark"):
        for step, seconds in zip(STEPS, (9.0, 0.5, 12.0, 1.0, 4.0), strict=True):
            now[0] += seconds
            times.done(step)
            times.done(step)
    assert caplog.messages == [
        "the first batch is done 26.5 s after the start of the driver (seconds: Spark 9.0, Lease 0.5, executors 12.0, "
        "partitions 1.0, first batch 4.0)"
    ]


def test_the_start_of_this_process_is_known() -> None:
    assert StartTimes()._begun < StartTimes()._clock()
