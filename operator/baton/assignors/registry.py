"""The assignors by name: those that are built in, and those that a user installed."""

from collections.abc import Callable, Mapping
from re import fullmatch

from baton.assignors.declaration import Declaration, Traits
from baton.assignors.installed import INSTALLED_NAME, Installed, Loader
from baton.assignors.kafka import range as kafka_range
from baton.assignors.kafka import round_robin, sticky
from baton.assignors.own import minimal
from baton.assignors.request import Assignor
from baton.assignors.rocketmq import average, circle, consistent_hash, machine_room, machine_room_nearby
from baton.assignors.runnel import contiguous
from baton.assignors.solace import solace

LONGEST_NAME = 128
"""Characters, as in a ConsumerGroup."""


class UnknownAssignorError(KeyError):
    """No assignor has this name. The message lists those that exist."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        name = self.name if len(self.name) <= LONGEST_NAME else f"{self.name[:LONGEST_NAME]}…"
        cure = "install the package that has it, or choose" if "/" in name else "choose"
        return f"there is no assignor {name!r}; {cure} one of {', '.join(names())}"


class BrokenAssignorError(UnknownAssignorError):
    """An assignor is installed, and cannot be used. The message says why."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(name)
        self.why = why

    def __str__(self) -> str:
        return f"the assignor {self.name} cannot be used: {self.why}"


_installed = Installed(dict)


def install(find: Callable[[], Mapping[str, Loader]]) -> None:
    """Set the source of installed assignors.

    The first name that is not built in calls `find`, and the first request for an assignor calls its loader. Users read the
    message of a loader's ValueError unchanged, so it must name the cure.
    """
    global _installed
    _installed = Installed(find)


def get(name: str) -> Assignor:
    """The assignor of this name. An installed one answers only within its contract (`baton.assignors.contract`). Raises
    UnknownAssignorError."""
    if name in DECLARED:
        return DECLARED[name].assign
    if name not in _installed.loaders():
        raise UnknownAssignorError(name)
    found = _installed.get(name)
    if isinstance(found, str):
        raise BrokenAssignorError(name, found)
    return found


def traits_of(name: str) -> Traits:
    """The traits of a built-in assignor. Any other assignor has none."""
    return DECLARED[name].traits if name in DECLARED else Traits()


def names() -> tuple[str, ...]:
    """The names of all assignors, sorted."""
    return tuple(sorted({*BUILT_IN, *(name for name in _installed.loaders() if fullmatch(INSTALLED_NAME, name))}))


DECLARED: dict[str, Declaration] = {}
"""The built-in assignors, in the order of the documentation."""

DECLARED |= {
    one.name: one
    for one in (
        solace.SOLACE,
        minimal.MINIMAL,
        sticky.STICKY,
        sticky.COOPERATIVE_STICKY,
        kafka_range.RANGE,
        round_robin.ROUND_ROBIN,
        average.AVERAGE,
        circle.CIRCLE,
        contiguous.CONTIGUOUS,
        consistent_hash.CONSISTENT_HASH,
        machine_room.MACHINE_ROOM,
        machine_room_nearby.declared(DECLARED, get, names),
    )
}

BUILT_IN = tuple(sorted(DECLARED))
"""The names that are always there."""

DEFAULT = solace.SOLACE.name
"""The assignor of a group that names none."""
