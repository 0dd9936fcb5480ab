"""Distributions that only a part of Baton needs, and the extra of baton-consumer that installs them."""

from collections.abc import Iterator
from contextlib import contextmanager


class MissingExtraError(ModuleNotFoundError):
    """The message names the extra to install."""


@contextmanager
def extra(name: str) -> Iterator[None]:
    """A context for imports. Raises MissingExtraError for a module that is missing or too old, unless it is Baton's own."""
    try:
        yield
    except MissingExtraError:
        raise
    except ImportError as error:
        if (error.name or "").partition(".")[0] in ("", "baton"):
            raise
        raise MissingExtraError(f"{error}: pip install 'baton-consumer[{name}]'", name=error.name) from None
