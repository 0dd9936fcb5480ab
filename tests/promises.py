"""What Baton promises never to do, and what no second try of a test excuses."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

ASSERTIONS = (AssertionError, pytest.fail.Exception)


class BrokenPromiseError(AssertionError):
    """Loss, an unmarked duplicate, wrong order, two owners, or a stale call that was accepted: fails the run at once."""


@contextmanager
def promised() -> Iterator[None]:
    """Turn an assertion that fails in the block into a BrokenPromiseError."""
    try:
        yield
    except (*ASSERTIONS, BaseExceptionGroup) as error:
        if isinstance(error, BaseExceptionGroup) and error.subgroup(ASSERTIONS) is None:
            raise
        raise BrokenPromiseError(str(error)) from error
