"""A request and its answer as JSON, as `baton plan` takes and gives them. What is wrong is refused with the field's path."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeGuard

from baton.assignors.bound import least_moves
from baton.assignors.claims import holders
from baton.assignors.registry import UnknownAssignorError, get
from baton.assignors.request import NO_GENERATION, Answer, Assignor, Member, Request
from baton.model.ids import MemberId, Partition, QueueName

MOST_PARTITIONS = 1_000_000
"""Of one queue; also the greatest number that the ledger reads."""

_REQUEST = ("assignor", "queues", "members", "zones", "options")
_MEMBER = ("subscribed", "owned", "generation", "instance", "zone")


class RequestError(ValueError):
    """A request that is refused. The message names the field, what is wrong and what would be right."""

    def __init__(self, path: str, sentence: str) -> None:
        super().__init__(f"{path}: {sentence}" if path else sentence)


def answer_line(line: str | bytes) -> dict[str, object]:
    """The answer to one line of JSON. Raises RequestError."""
    assignor, request = parse_request(line)
    answer = assignor(request)
    held = holders(request)
    return {
        "assignment": _to_queues(answer.assignment),
        "withheld": {member: queues for member, queues in _to_queues(answer.withheld).items() if queues},
        "moves": _moves(held, answer),
        "lower_bound": least_moves(request.queues, {name: member.subscribed for name, member in request.members.items()}, held),
    }


def parse_request(line: str | bytes) -> tuple[Assignor, Request]:
    """The assignor that is asked, and what. Raises RequestError."""
    try:
        text = line.decode("utf-8-sig") if isinstance(line, bytes) else line
        raw = json.loads(text, object_pairs_hook=_Object)
    except RecursionError:
        raise RequestError("", "not a request: nested too deeply") from None
    except ValueError as error:
        raise RequestError("", f"not JSON: {error}; give one request per line") from None
    if not isinstance(raw, _Object):
        raise RequestError("", f"expected an object with {', '.join(_REQUEST[:3])}, found {_show(raw)}")
    raw.check("", _REQUEST, required=_REQUEST[:3])
    name = _text(raw["assignor"], "assignor")
    try:
        assignor = get(name)
    except UnknownAssignorError as error:
        raise RequestError("assignor", str(error)) from None
    queues = {
        QueueName(queue): _count(count, f"queues.{queue}", MOST_PARTITIONS) for queue, count in _object(raw, "queues").items()
    }
    members = {MemberId(member): _member(value, f"members.{member}") for member, value in _object(raw, "members").items()}
    _check_instances(members)
    zones = {QueueName(queue): _zones(value, queue, queues) for queue, value in _object(raw, "zones").items()}
    for option in _object(raw, "options"):
        raise RequestError(f"options.{option}", f"{name} has no such option; leave it out")
    return assignor, Request(queues, members, zones)


class _Object(dict[str, object]):
    """A JSON object that remembers a key that was given twice, which JSON allows and nobody means."""

    def __init__(self, pairs: Iterable[tuple[str, object]]) -> None:
        pairs = list(pairs)
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs)
        self.repeated = next((key for key, count in counts.items() if count > 1), None)

    def check(self, path: str, known: Iterable[str] | None = None, required: Iterable[str] = ()) -> None:
        """`known` None: the keys are names."""
        prefix = f"{path}." if path else ""
        if self.repeated is not None:
            raise RequestError(prefix + self.repeated, "is given twice; keep one")
        for key in self if known is None else ():
            if not key:
                raise RequestError(path, "a name is empty")
        for key in self if known is not None else ():
            if key not in (known or ()):
                raise RequestError(prefix + key, f"there is no such field; there are {', '.join(known or ())}")
        for key in required:
            if key not in self:
                raise RequestError(prefix + key, "is missing")


def _object(parent: _Object, key: str) -> _Object:
    value = parent.get(key, _Object(()))
    if not isinstance(value, _Object):
        raise RequestError(key, f"expected an object, found {_show(value)}")
    value.check(key)
    return value


def _member(value: object, path: str) -> Member:
    if not isinstance(value, _Object):
        raise RequestError(path, f'expected an object such as {{"subscribed":["orders"]}}, found {_show(value)}')
    value.check(path, _MEMBER, required=("subscribed",))
    generation = value.get("generation", NO_GENERATION)
    if not _is_whole(generation) or generation < NO_GENERATION:
        raise RequestError(f"{path}.generation", f"expected a whole number from 0 (-1: none), found {_show(generation)}")
    return Member(
        subscribed=_subscribed(value["subscribed"], f"{path}.subscribed"),
        owned=_owned(value.get("owned", []), f"{path}.owned"),
        generation=generation,
        instance=_text(value["instance"], f"{path}.instance") if "instance" in value else None,
        zone=_text(value["zone"], f"{path}.zone") if "zone" in value else None,
    )


def _subscribed(value: object, path: str) -> frozenset[QueueName]:
    names = [_text(name, f"{path}[{place}]") for place, name in enumerate(_list(value, path, "queue names"))]
    _refuse_repeated(names, path)
    return frozenset(map(QueueName, names))


def _owned(value: object, path: str) -> tuple[Partition, ...]:
    partitions: list[Partition] = []
    for place, claim in enumerate(_list(value, path, "[queue, partition] pairs")):
        where = f"{path}[{place}]"
        if not isinstance(claim, list) or len(claim) != 2:
            raise RequestError(where, f'expected a pair such as ["orders",0], found {_show(claim)}')
        partitions.append(Partition(QueueName(_text(claim[0], where)), _count(claim[1], where)))
    _refuse_repeated(partitions, path)
    return tuple(partitions)


def _zones(value: object, queue: str, queues: Mapping[QueueName, int]) -> tuple[frozenset[str], ...]:
    path = f"zones.{queue}"
    if queue not in queues:
        raise RequestError(path, "there is no such queue in queues")
    zones = _list(value, path, "lists of zones, one per partition")
    if len(zones) != queues[QueueName(queue)]:
        raise RequestError(path, f"has {len(zones)} entries for {queues[QueueName(queue)]} partitions; give one per partition")
    return tuple(
        frozenset(
            _text(zone, f"{path}[{number}][{place}]")
            for place, zone in enumerate(_list(of_partition, f"{path}[{number}]", "zones"))
        )
        for number, of_partition in enumerate(zones)
    )


def _check_instances(members: Mapping[MemberId, Member]) -> None:
    known: dict[str, MemberId] = {}
    for name in sorted(members):
        instance = members[name].instance
        if instance is not None and known.setdefault(instance, name) != name:
            raise RequestError(
                f"members.{name}.instance", f"{_show(instance)} is {known[instance]}'s too; an identity has one member"
            )


def _list(value: object, path: str, of: str) -> list[object]:
    if not isinstance(value, list):
        raise RequestError(path, f"expected a list of {of}, found {_show(value)}")
    return value


def _text(value: object, path: str) -> str:
    if not isinstance(value, str) or not value:
        raise RequestError(path, f"expected a text that is not empty, found {_show(value)}")
    return value


def _count(value: object, path: str, most: int | None = None) -> int:
    if not _is_whole(value) or value < 0:
        raise RequestError(path, f"expected a whole number from 0, found {_show(value)}")
    if most is not None and value > most:
        raise RequestError(path, f"{value} is too many; there can be {most}")
    return value


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _refuse_repeated(values: Iterable[object], path: str) -> None:
    for value, count in Counter(values).items():
        if count > 1:
            raise RequestError(path, f"{_show(value)} is given {count} times; keep one")


def _show(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:60] + "…"


def _to_queues(assignment: Mapping[MemberId, tuple[Partition, ...]]) -> dict[str, dict[str, list[int]]]:
    shown: dict[str, dict[str, list[int]]] = {}
    for member in sorted(assignment):
        queues = shown[member] = {}
        for queue, number in assignment[member]:
            queues.setdefault(queue, []).append(number)
    return shown


def _moves(held: Mapping[Partition, tuple[MemberId, ...]], answer: Answer) -> int:
    """How many partitions somebody holds and another will own."""
    return sum(member not in held.get(partition, (member,)) for partition, member in answer.owners().items())
