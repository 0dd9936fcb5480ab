"""A request and its answer as JSON, as `baton plan` reads and writes them. A refusal names the path of the wrong field."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple, TypedDict

from baton.assignors.building_blocks.holders import holders
from baton.assignors.contract import AssignorError, whatever_the_order
from baton.assignors.declaration import Declaration
from baton.assignors.plan_json.fields import (
    Object,
    amount,
    inner_object,
    is_whole,
    items,
    json_object,
    refuse_repeated,
    text,
    whole,
)
from baton.assignors.plan_json.request_error import RequestError, shown
from baton.assignors.registry import DECLARED, UnknownAssignorError, get
from baton.assignors.request import NO_GENERATION, Answer, Assignor, Member, Request
from baton.assignors.solace.lower_bound import least_moves
from baton.model.ids import MemberId, Partition, QueueName
from baton.model.wording import counted

MOST_PARTITIONS = 1_000_000
"""Of one queue. The ledger reads no higher number."""

MOST_IN_ALL = 2_000_000
"""Of all queues together, so that a mistake does not take the machine's memory."""

_REQUEST = ("assignor", "queues", "members", "zones", "weights", "options")
_MEMBER = ("subscribed", "owned", "generation", "instance", "zone", "capacity")


NumbersByQueue = Mapping[str, Sequence[int]]
"""Of one member: the numbers of its partitions, by queue."""


class AnswerObject(TypedDict):
    """An answer as JSON."""

    assignment: Mapping[str, NumbersByQueue]
    withheld: Mapping[str, NumbersByQueue]
    moves: int
    """Partitions that somebody holds and another will own."""
    lower_bound: int


class Planned(NamedTuple):
    """The request on one line, and its answer."""

    assignor: str
    request: Request
    held: Mapping[Partition, tuple[MemberId, ...]]
    """The present holders by partition, sorted."""
    answer: Answer
    moves: int
    lower_bound: int


def answer_line(line: str | bytes) -> AnswerObject:
    """The answer to one line of JSON, as a JSON object: assignment, withheld, moves, lower_bound. Raises RequestError."""
    made = planned(line)
    return {
        "assignment": _to_queues(made.answer.assignment),
        "withheld": {member: queues for member, queues in _to_queues(made.answer.withheld).items() if queues},
        "moves": made.moves,
        "lower_bound": made.lower_bound,
    }


def planned(line: str | bytes) -> Planned:
    """The request on one line of JSON, and its answer. Raises RequestError."""
    name, assignor, request = parse_request(line)
    try:
        answer = assignor(request)
    except AssignorError as error:
        raise RequestError("assignor", str(error)) from None
    held = holders(request)
    least = least_moves(request.queues, {member: one.subscribed for member, one in request.members.items()}, held)
    return Planned(name, request, held, answer, _moves(held, answer), least)


def parse_request(line: str | bytes) -> tuple[str, Assignor, Request]:
    """The assignor's name, the assignor, and the request. Raises RequestError."""
    try:
        raw = json_object(line.decode("utf-8-sig") if isinstance(line, bytes) else line)
    except UnicodeDecodeError as error:
        raise RequestError(
            "", f"not JSON: {error}; give one request per line, or one over several lines as --request FILE"
        ) from None
    raw.check("", _REQUEST, required=_REQUEST[:3])
    name = text(raw["assignor"], "assignor")
    try:
        assignor = get(name)
    except UnknownAssignorError as error:
        raise RequestError("assignor", str(error)) from None
    declaration = DECLARED.get(name)
    if declaration is None:
        assignor = whatever_the_order(name, assignor)
    queues = {
        QueueName(queue): whole(count, f"queues.{queue}", MOST_PARTITIONS) for queue, count in inner_object(raw, "queues").items()
    }
    if (count := sum(queues.values())) > MOST_IN_ALL:
        raise RequestError("queues", f"{count} partitions together are too many; there can be {MOST_IN_ALL}")
    members = {MemberId(member): _member(value, f"members.{member}") for member, value in inner_object(raw, "members").items()}
    _check_instances(members)
    zones = {QueueName(queue): _zones(value, queue, queues) for queue, value in inner_object(raw, "zones").items()}
    weights = {QueueName(queue): _weights(value, queue, queues) for queue, value in inner_object(raw, "weights").items()}
    request = Request(queues, members, zones, _options(name, declaration, inner_object(raw, "options")), weights)
    if declaration is not None:
        declaration.check(request)
    return name, assignor, request


def _options(name: str, declaration: Declaration | None, raw: Object) -> dict[str, object]:
    """As the assignor's function takes them. An installed assignor has none."""
    known = declaration.options(raw) if declaration is not None else {}
    for option in raw:
        if option not in known:
            there = f"; there is {', '.join(sorted(known))}" if known else "; leave it out"
            raise RequestError(f"options.{option}", f"{name} has no such option{there}")
    options = {option: known[option].read(value, f"options.{option}") for option, value in raw.items()}
    for option, one in known.items():
        if one.missing and option not in options:
            raise RequestError(f"options.{option}", f"is missing; {one.missing}")
    return options


def _member(value: object, path: str) -> Member:
    if not isinstance(value, Object):
        raise RequestError(path, f'expected an object such as {{"subscribed":["orders"]}}, found {shown(value)}')
    value.check(path, _MEMBER, required=("subscribed",))
    generation = value.get("generation", NO_GENERATION)
    if not is_whole(generation) or generation < NO_GENERATION:
        raise RequestError(f"{path}.generation", f"expected a whole number from 0 (-1: none), found {shown(generation)}")
    return Member(
        subscribed=_subscribed(value["subscribed"], f"{path}.subscribed"),
        owned=_owned(value.get("owned", []), f"{path}.owned"),
        generation=generation,
        instance=text(value["instance"], f"{path}.instance") if "instance" in value else None,
        zone=text(value["zone"], f"{path}.zone") if "zone" in value else None,
        capacity=amount(value.get("capacity", 1), f"{path}.capacity", positive=True),
    )


def _subscribed(value: object, path: str) -> frozenset[QueueName]:
    queues = [text(name, f"{path}[{place}]") for place, name in enumerate(items(value, path, "queue names"))]
    refuse_repeated(queues, path)
    return frozenset(map(QueueName, queues))


def _owned(value: object, path: str) -> tuple[Partition, ...]:
    partitions: list[Partition] = []
    for place, claim in enumerate(items(value, path, "[queue, partition] pairs")):
        where = f"{path}[{place}]"
        if not isinstance(claim, list) or len(claim) != 2:
            raise RequestError(where, f'expected a pair such as ["orders",0], found {shown(claim)}')
        partitions.append(Partition(QueueName(text(claim[0], where)), whole(claim[1], where)))
    refuse_repeated(partitions, path)
    return tuple(partitions)


def _per_partition(value: object, path: str, queue: str, queues: Mapping[QueueName, int], of: str) -> list[object]:
    if queue not in queues:
        raise RequestError(path, "there is no such queue in queues")
    values = items(value, path, f"{of}, one per partition")
    if len(values) != queues[QueueName(queue)]:
        there_are = f"{counted(len(values), 'entry', 'entries')} for {counted(queues[QueueName(queue)], 'partition')}"
        raise RequestError(path, f"has {there_are}; give one per partition")
    return values


def _weights(value: object, queue: str, queues: Mapping[QueueName, int]) -> tuple[Fraction, ...]:
    path = f"weights.{queue}"
    weights = _per_partition(value, path, queue, queues, "weights")
    return tuple(amount(weight, f"{path}[{number}]", positive=False) for number, weight in enumerate(weights))


def _zones(value: object, queue: str, queues: Mapping[QueueName, int]) -> tuple[frozenset[str], ...]:
    path = f"zones.{queue}"
    zones = _per_partition(value, path, queue, queues, "lists of zones")
    return tuple(
        frozenset(
            text(zone, f"{path}[{number}][{place}]")
            for place, zone in enumerate(items(of_partition, f"{path}[{number}]", "zones"))
        )
        for number, of_partition in enumerate(zones)
    )


def _check_instances(members: Mapping[MemberId, Member]) -> None:
    known: dict[str, MemberId] = {}
    for name in sorted(members):
        instance = members[name].instance
        if instance is not None and known.setdefault(instance, name) != name:
            raise RequestError(
                f"members.{name}.instance", f"{shown(instance)} is {known[instance]}'s too; an identity has one member"
            )


def _to_queues(assignment: Mapping[MemberId, Sequence[Partition]]) -> dict[str, dict[str, list[int]]]:
    shown: dict[str, dict[str, list[int]]] = {}
    for member in sorted(assignment):
        queues = shown[member] = {}
        for queue, number in assignment[member]:
            queues.setdefault(queue, []).append(number)
    return shown


def _moves(held: Mapping[Partition, tuple[MemberId, ...]], answer: Answer) -> int:
    """How many partitions one member holds and another will own."""
    return sum(member not in held.get(partition, (member,)) for partition, member in answer.owners().items())
