"""The options of every assignor, and what it must know beyond what a request has to say."""

import re
from collections.abc import Callable, Iterable, Mapping

from baton.assignors.building_blocks.subscriptions import readable
from baton.assignors.plan_json.fields import Object, items, refuse_repeated, text, whole
from baton.assignors.plan_json.request_error import RequestError
from baton.assignors.request import Request
from baton.assignors.rocketmq.machine_room_nearby import WITHIN

MOST_VIRTUAL_NODES = 10_000

Reader = Callable[[object, str], object]
"""Reads the value at a path. Raises RequestError."""


def read_options(assignor: str, raw: Object, known: Callable[[], Iterable[str]]) -> dict[str, object]:
    """The options of this assignor (and of the one within it, one of those `known`), as its function takes them. Raises
    RequestError."""
    readers = dict(_READERS.get(assignor, {}))
    if assignor == "machine-room-nearby":
        within = _within(raw.get("within", WITHIN), sorted(set(known()) - {assignor}))
        readers = {"within": text, **_READERS.get(within, {})}
    for option in raw:
        if option not in readers:
            there = f"; there is {', '.join(sorted(readers))}" if readers else "; leave it out"
            raise RequestError(f"options.{option}", f"{assignor} has no such option{there}")
    options = {option: readers[option](value, f"options.{option}") for option, value in raw.items()}
    if "rooms" in readers and "rooms" not in options:
        raise RequestError("options.rooms", "is missing; machine-room gives out the partitions of these rooms only")
    return options


def check_needs(assignor: str, request: Request) -> None:
    """machine-room-nearby refuses what it cannot place, as RocketMQ does. Raises RequestError."""
    if assignor != "machine-room-nearby":
        return
    subscribed = readable(request)
    for name in sorted(request.members):
        if subscribed[name] and not request.members[name].zone:
            raise RequestError(f"members.{name}.zone", "is missing; machine-room-nearby must know where every member is")
    for queue in sorted(frozenset().union(*subscribed.values())):
        if request.queues[queue] and queue not in request.zones:
            raise RequestError(f"zones.{queue}", "is missing; machine-room-nearby must know where every partition is")
        for number, zones in enumerate(request.zones.get(queue, ())):
            if not zones:
                raise RequestError(f"zones.{queue}[{number}]", "is empty; machine-room-nearby must know where every partition is")


def _within(value: object, choice: Iterable[str]) -> str:
    name = text(value, "options.within")
    if name not in choice:
        raise RequestError("options.within", f"expected another assignor, found {name!r}; choose one of {', '.join(choice)}")
    return name


def _virtual_nodes(value: object, path: str) -> int:
    return whole(value, path, MOST_VIRTUAL_NODES)


def _partition_key(value: object, path: str) -> str:
    pattern = text(value, path)
    if "{partition}" not in pattern:
        raise RequestError(path, f"{pattern!r} is the same for every partition; it needs {{partition}}")
    for word in re.findall(r"\{(\w*)\}", pattern):
        if word not in ("queue", "partition"):
            raise RequestError(path, f"there is no {{{word}}}; there are {{queue}} and {{partition}}")
    return pattern


def _rooms(value: object, path: str) -> frozenset[str]:
    rooms = [text(room, f"{path}[{place}]") for place, room in enumerate(items(value, path, "rooms"))]
    refuse_repeated(rooms, path)
    return frozenset(rooms)


_READERS: Mapping[str, Mapping[str, Reader]] = {
    "consistent-hash": {"virtualNodes": _virtual_nodes, "partitionKey": _partition_key},
    "machine-room": {"rooms": _rooms},
}
