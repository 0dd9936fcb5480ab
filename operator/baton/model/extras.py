"""Distributions that a program needs for a part of Baton alone, and by which extra of baton-consumer they come."""

from collections.abc import Iterator
from contextlib import contextmanager


class MissingExtraError(ModuleNotFoundError):
    """The message names the extra to install."""


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Around imports. Raises MissingExtraError for a module that is not there or is too old, unless it is one of Baton's own."""
    try:
        yield
    except MissingExtraError:
        raise
    except ImportError as error:
        if (error.name or "").partition(".")[0] in ("", "baton"):
            raise
        raise MissingExtraError(f"{error}: pip install 'baton-consumer[{name}]'", name=error.name) from None
