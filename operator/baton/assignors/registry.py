"""The assignors by their names: those that are here, and those that a user installed beside them."""

from collections.abc import Callable, Mapping
from re import fullmatch

from baton.assignors.building_blocks.queue_by_queue import Strategy, in_runs
from baton.assignors.contract import checked, told
from baton.assignors.kafka.range import range_
from baton.assignors.kafka.round_robin import round_robin
from baton.assignors.kafka.sticky import cooperative_sticky, sticky
from baton.assignors.own.minimal import minimal
from baton.assignors.request import Answer, Assignor, Request
from baton.assignors.rocketmq.average import average
from baton.assignors.rocketmq.circle import circle, in_turn
from baton.assignors.rocketmq.consistent_hash import around_the_ring, consistent_hash
from baton.assignors.rocketmq.machine_room import machine_room, of_rooms
from baton.assignors.rocketmq.machine_room_nearby import machine_room_nearby
from baton.assignors.runnel.contiguous import contiguous
from baton.assignors.solace.solace import solace

_STRATEGIES: Mapping[str, Strategy] = {
    "average": lambda _: in_runs,
    "circle": in_turn,
    "consistent-hash": around_the_ring,
    "machine-room": of_rooms,
}
"""RocketMQ's, which machine-room-nearby composes room by room as RocketMQ does."""


def _nearby(request: Request) -> Answer:
    return machine_room_nearby(request, _STRATEGIES, get)


_ASSIGNORS: Mapping[str, Assignor] = {
    "average": average,
    "circle": circle,
    "consistent-hash": consistent_hash,
    "contiguous": contiguous,
    "cooperative-sticky": cooperative_sticky,
    "machine-room": machine_room,
    "machine-room-nearby": _nearby,
    "minimal": minimal,
    "range": range_,
    "round-robin": round_robin,
    "solace": solace,
    "sticky": sticky,
}


BUILT_IN = tuple(sorted(_ASSIGNORS))
"""The names that are always there."""

OWN_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[a-z0-9]([-._a-z0-9]*[a-z0-9])?"
"""An assignor of the user's own: <domain>/<name>, so that nobody takes a slip in a built-in name for one."""

LONGEST_NAME = 128
"""Characters, as in a ConsumerGroup."""

Loader = Callable[[], Assignor]
"""Imports an assignor of the user's own. May raise anything."""


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
    """It is installed, and cannot be used. The message says why."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(name)
        self.why = why

    def __str__(self) -> str:
        return f"the assignor {self.name} cannot be used: {self.why}"


class _Own:
    """The assignors of the user's own, each loaded when it is first asked for: a broken one is in nobody else's way."""

    def __init__(self, find: Callable[[], Mapping[str, Loader]]) -> None:
        self._find = find
        self._loaders: Mapping[str, Loader] | None = None
        self._known: dict[str, Assignor | BrokenAssignorError] = {}

    def loaders(self) -> Mapping[str, Loader]:
        if self._loaders is None:
            self._loaders = self._find()
        return self._loaders

    def get(self, name: str) -> Assignor:
        if name not in self._known:
            if name not in self.loaders():
                raise UnknownAssignorError(name)
            self._known[name] = self._load(name)
        known = self._known[name]
        if isinstance(known, BrokenAssignorError):
            raise BrokenAssignorError(name, known.why)
        return known

    def _load(self, name: str) -> Assignor | BrokenAssignorError:
        try:
            return checked(name, self.loaders()[name]())
        except (Exception, SystemExit) as error:
            return BrokenAssignorError(name, str(error) if isinstance(error, ValueError) else told(error))


_own = _Own(dict)


def install(find: Callable[[], Mapping[str, Loader]]) -> None:
    """Where assignors of the user's own come from, by name. `find` is called when a name is not built in, once; a loader when its
    assignor is first asked for. A ValueError of a loader is told as it is, for it names the cure."""
    global _own
    _own = _Own(find)


def get(name: str) -> Assignor:
    """The assignor of this name; one of the user's own answers only within the contract (`baton.assignors.contract`). Raises
    UnknownAssignorError."""
    return _ASSIGNORS[name] if name in _ASSIGNORS else _own.get(name)


def names() -> tuple[str, ...]:
    """The names of all assignors, sorted."""
    return tuple(sorted({*BUILT_IN, *(name for name in _own.loaders() if fullmatch(OWN_NAME, name))}))
