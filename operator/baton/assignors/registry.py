"""The assignors by their names."""

from collections.abc import Mapping

from baton.assignors.average import average, averagely
from baton.assignors.circle import circle, in_turn
from baton.assignors.consistent_hash import around_the_ring, consistent_hash
from baton.assignors.contiguous import contiguous
from baton.assignors.machine_room import machine_room, of_rooms
from baton.assignors.machine_room_nearby import machine_room_nearby
from baton.assignors.minimal import minimal
from baton.assignors.queue_by_queue import Strategy
from baton.assignors.range import range_
from baton.assignors.request import Answer, Assignor, Request
from baton.assignors.round_robin import round_robin
from baton.assignors.solace import solace
from baton.assignors.sticky import cooperative_sticky, sticky

_STRATEGIES: Mapping[str, Strategy] = {
    "average": averagely,
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
