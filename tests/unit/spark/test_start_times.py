"""The line that says where the seconds of a start have gone."""

import logging

import pytest

from baton.spark.running_fleet import LATE, STEPS, StartTimes


def test_the_seconds_of_each_step_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    now = [10.0]
    times = StartTimes("orders", 10.0, lambda: now[0])
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
    times = StartTimes("orders")
    assert times._begun < times._clock()


def test_who_waits_long_is_told_once_what_for(caplog: pytest.LogCaptureFixture) -> None:
    now = [10.0]
    times = StartTimes("orders", 10.0, lambda: now[0])

    def after(seconds: float) -> list[str]:
        now[0] += seconds
        caplog.clear()
        times.look()
        times.look()
        return [message.partition(":")[0] for message in caplog.messages]

    assert after(LATE + 1) == [], "the start of Spark, and the Lease, have words of their own"
    times.done("Spark")
    times.done("Lease")
    assert after(LATE) == []
    assert after(1) == ["for 30 s group orders waits"]
    assert after(LATE) == []
    times.done("executors")
    assert after(LATE + 1) == ["for 30 s group orders waits"]
    assert "kubectl describe consumergroup orders" in caplog.text
    times.done("partitions")
    assert after(LATE + 1) == [], "a fleet without entries has nothing to do"
