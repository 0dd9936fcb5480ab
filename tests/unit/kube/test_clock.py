"""The operator's clock follows the API server's."""

import pytest

from baton.kube.clock import ApiServerClock, ServerTime

NOW = 1_800_000_000.25
"""By the API server, and at 100 ticks."""


def clock(ahead: float) -> ApiServerClock:
    return ApiServerClock(lambda: NOW + ahead, lambda: 100.0)


@pytest.mark.parametrize("ahead", [-0.2, 0.0, 0.7])
def test_a_clock_that_agrees_with_the_server_is_not_changed(ahead: float) -> None:
    one = clock(ahead)
    assert one.follow(ServerTime(1_800_000_000, 100.0, 100.0)) == 0
    assert one.now() == NOW + ahead


@pytest.mark.parametrize("ahead", [-3600, -1, 1, 3600])
def test_a_wrong_clock_is_set_to_within_a_second(ahead: float) -> None:
    one = clock(ahead)
    moved = one.follow(ServerTime(1_800_000_000, 99.9, 100.1))
    assert one.now() == pytest.approx(NOW + ahead + moved)
    assert abs(one.now() - NOW) < 1.2
    assert moved * ahead < 0


def test_a_slow_answer_says_little_about_the_time() -> None:
    one = clock(8)
    assert one.follow(ServerTime(1_799_999_999, 90.0, 100.0)) == 0
    assert one.follow(ServerTime(1_800_000_000, 99.999, 100.0)) < -7
