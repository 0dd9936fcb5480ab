"""What Baton promises never to do, and what no second try of a test excuses."""

from collections.abc import Iterator
from contextlib import contextmanager


class BrokenPromiseError(AssertionError):
    """Loss, an unmarked duplicate, wrong order, two owners, or a stale call that was accepted: fails the run at once."""


@contextmanager
def promised() -> Iterator[None]:
    """Turn an assertion that fails in the block into a BrokenPromiseError."""
    try:
        yield
    except AssertionError as error:
        raise BrokenPromiseError(str(error)) from error
