"""The assignors by their names."""

from baton.assignors.range import range_
from baton.assignors.request import Assignor
from baton.assignors.round_robin import round_robin
from baton.assignors.solace import solace
from baton.assignors.sticky import cooperative_sticky, sticky

_ASSIGNORS: dict[str, Assignor] = {
    "cooperative-sticky": cooperative_sticky,
    "range": range_,
    "round-robin": round_robin,
    "solace": solace,
    "sticky": sticky,
}


class UnknownAssignorError(KeyError):
    """No assignor has this name. The message lists those that exist."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"there is no assignor {self.name!r}; choose one of {', '.join(names())}"


def get(name: str) -> Assignor:
    """The assignor of this name. Raises UnknownAssignorError."""
    try:
        return _ASSIGNORS[name]
    except KeyError:
        raise UnknownAssignorError(name) from None


def names() -> tuple[str, ...]:
    """The names of all assignors, sorted."""
    return tuple(sorted(_ASSIGNORS))
