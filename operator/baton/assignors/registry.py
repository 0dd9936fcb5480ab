"""The assignors by name: built-in and installed ones."""

from collections.abc import Callable, Mapping
from functools import cache
from re import fullmatch

from baton.assignors import kafka, rocketmq
from baton.assignors.building_blocks import Declaration, Traits
from baton.assignors.own.minimal import MINIMAL
from baton.assignors.request import Assignor, checked, describe
from baton.assignors.runnel import CONTIGUOUS
from baton.assignors.solace import SOLACE

INSTALLED_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[a-z0-9]([-._a-z0-9]*[a-z0-9])?"
"""A regular expression for <domain>/<name>, so that a typo in a built-in name never names an installed assignor."""

Loader = Callable[[], Assignor]
"""Imports an installed assignor. May raise anything."""


LONGEST_NAME = 128
"""The most characters, as in a ConsumerGroup."""


class UnknownAssignorError(KeyError):
    """There is no assignor of this name. The message lists those that exist."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        name = self.name if len(self.name) <= LONGEST_NAME else f"{self.name[:LONGEST_NAME]}…"
        cure = "install the package that has it, or choose" if "/" in name else "choose"
        return f"there is no assignor {name!r}; {cure} one of {', '.join(names())}"


class BrokenAssignorError(UnknownAssignorError):
    """An installed assignor cannot be used. The message says why."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(name)
        self.why = why

    def __str__(self) -> str:
        return f"the assignor {self.name} cannot be used: {self.why}"


_find: Callable[[], Mapping[str, Loader]] = dict


@cache
def _loaders() -> Mapping[str, Loader]:
    return _find()


@cache
def _loaded(name: str) -> Assignor | str:
    """An installed assignor, whose answers are checked; or why it cannot be used."""
    try:
        return checked(name, _loaders()[name]())
    except (Exception, SystemExit) as error:
        return str(error) if isinstance(error, ValueError) else describe(error)


def install(find: Callable[[], Mapping[str, Loader]]) -> None:
    """Set the source of installed assignors.

    `find` is called for the first name that is not built in, and a loader when its assignor is first used. The message of a
    loader's ValueError is shown to users, so it must contain the cure.
    """
    global _find
    _find = find
    _loaders.cache_clear()
    _loaded.cache_clear()


def get(name: str) -> Assignor:
    """The assignor of this name. The answers of installed ones are checked. Raises UnknownAssignorError."""
    if name in DECLARED:
        return DECLARED[name].assign
    if name not in _loaders():
        raise UnknownAssignorError(name)
    found = _loaded(name)
    if isinstance(found, str):
        raise BrokenAssignorError(name, found)
    return found


def traits_of(name: str) -> Traits:
    """The traits of a built-in assignor; others have none."""
    return DECLARED[name].traits if name in DECLARED else Traits()


def names() -> tuple[str, ...]:
    """The names of all assignors, sorted."""
    return tuple(sorted({*BUILT_IN, *(name for name in _loaders() if fullmatch(INSTALLED_NAME, name))}))


DECLARED: dict[str, Declaration] = {}
"""The built-in assignors, in the order of the documentation."""

DECLARED |= {
    one.name: one
    for one in (
        SOLACE,
        MINIMAL,
        kafka.STICKY,
        kafka.COOPERATIVE_STICKY,
        kafka.RANGE,
        kafka.ROUND_ROBIN,
        rocketmq.AVERAGE,
        rocketmq.CIRCLE,
        CONTIGUOUS,
        rocketmq.CONSISTENT_HASH,
        rocketmq.MACHINE_ROOM,
        rocketmq.nearby(DECLARED, get, names),
    )
}

BUILT_IN = tuple(sorted(DECLARED))
"""The names of the built-in assignors."""

DEFAULT = SOLACE.name
"""The assignor of groups that do not name one."""
