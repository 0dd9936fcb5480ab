"""What kopf is told about connections."""

from collections.abc import Iterable, Sized
from itertools import islice

from baton.controller.watch import settings


def test_a_watch_is_tried_again_soon_and_for_ever() -> None:
    backoffs = settings().networking.error_backoffs
    assert isinstance(backoffs, Iterable)
    assert not isinstance(backoffs, Sized)  # kopf takes what has a length for a limit
    for _ in range(2):
        tries = list(islice(backoffs, 1000))
        assert (len(tries), tries[0], max(tries)) == (1000, 0.2, 2.0)
