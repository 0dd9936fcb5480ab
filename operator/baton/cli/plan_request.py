"""A request to `baton plan`, in JSON."""

import json
from collections import Counter
from collections.abc import Mapping, Sized
from fractions import Fraction
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, Field, PlainValidator, TypeAdapter, ValidationError

from baton.assignors.contract import whatever_the_order
from baton.assignors.declaration import Declaration
from baton.assignors.fields import EachOnce, RequestError, Text, Whole, shown
from baton.assignors.registry import DECLARED, UnknownAssignorError, get
from baton.assignors.request import NO_GENERATION, Assignor, Member, Request
from baton.model.ids import MemberId, Partition, QueueName
from baton.model.wording import counted
from baton.schema.mistakes import first_mistake, in_words

T = TypeVar("T")

MOST_PARTITIONS = 1_000_000
"""Of one queue. The ledger reads no higher number."""

MOST_IN_ALL = 2_000_000
"""Of all queues together, so that a mistake does not take the machine's memory."""

MOST = 1e15
"""The largest capacity and weight."""


def _amount(least: str) -> PlainValidator:
    """Exactly as written: 0.1 is a tenth."""

    def read(value: object) -> Fraction:
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not 0 <= value <= MOST
            or (least == "above" and not value)
        ):
            raise ValueError(f"expected a number {least} 0 to {MOST:.0e}, found {shown(value)}")
        return Fraction(str(value))

    return PlainValidator(read)


class _Twice:
    """Stands in an object for the values of a key that is given twice. JSON allows that."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Member(_Part):
    subscribed: Annotated[list[Text], FailFast(), EachOnce]
    owned: Annotated[list[tuple[Text, Whole]], FailFast(), EachOnce] = []
    generation: Annotated[int, Field(strict=True, ge=NO_GENERATION)] = NO_GENERATION
    instance: Text = ""
    zone: Text = ""
    capacity: Annotated[Fraction, _amount("above")] = Fraction(1)


class _Request(_Part):
    assignor: Text
    queues: dict[Text, Annotated[Whole, Field(le=MOST_PARTITIONS)]]
    members: dict[Text, _Member]
    zones: dict[Text, Annotated[list[frozenset[Text]], FailFast()]] = {}
    weights: dict[Text, Annotated[list[Annotated[Fraction, _amount("from")]], FailFast()]] = {}
    options: dict[Text, Any] = {}


_EXPECTED = {
    "string_type": "a text that is not empty",
    "string_too_short": "a text that is not empty",
    "int_type": "a whole number from 0",
    "greater_than_equal": "a whole number from 0",
    "list_type": "a list",
    "frozen_set_type": "a list",
    "tuple_type": 'a pair such as ["orders",0]',
    "too_long": 'a pair such as ["orders",0]',
    "dict_type": "an object",
    _Request.__name__: "an object with assignor, queues, members",
    _Member.__name__: 'an object such as {"subscribed":["orders"]}',
}
"""By the type of pydantic's error, or by the model."""


def _read(kind: type[T], value: object, path: str = "") -> T:
    """The value as one of this type; `path` is where it stands. Raises RequestError for the first fault."""
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        fault = first_mistake(error)
    of_name = len(fault["loc"]) == 3 and fault["loc"][-1] == "[key]"
    for part in fault["loc"][:1] if of_name else fault["loc"]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    found, context = fault["input"], fault.get("ctx", {})
    match "given_twice" if isinstance(found, _Twice) else fault["type"]:
        case "given_twice":
            sentence = "is given twice; keep one"
        case "extra_forbidden":
            known = (_Request if len(fault["loc"]) == 1 else _Member).model_fields
            sentence = f"there is no such field; there are {', '.join(known)}"
        case "string_unicode":
            sentence = f"{found!a} has half of a surrogate pair; write whole characters"
        case "string_too_short" if of_name:
            sentence = "a name is empty"
        case "less_than_equal":
            sentence = f"{shown(found)} is too many; there can be {context['le']}"
        case _:
            sentence = in_words(fault, shown, _EXPECTED, own_words_suffice=True)
    raise RequestError(path, sentence)


def parse_request(line: str | bytes) -> tuple[str, Assignor, Request]:
    """The assignor's name, the assignor, and the request. Raises RequestError."""
    asked = _read(_Request, _json(line))
    try:
        assignor = get(asked.assignor)
    except UnknownAssignorError as error:
        raise RequestError("assignor", str(error)) from None
    declaration = DECLARED.get(asked.assignor)
    if declaration is None:
        assignor = whatever_the_order(asked.assignor, assignor)
    if (count := sum(asked.queues.values())) > MOST_IN_ALL:
        raise RequestError("queues", f"{count} partitions together are too many; there can be {MOST_IN_ALL}")
    for field in ("zones", "weights"):
        _check_one_per_partition(field, getattr(asked, field), asked.queues)
    members = {MemberId(name): _member(one) for name, one in asked.members.items()}
    _check_instances(members)
    request = Request(
        queues={QueueName(queue): count for queue, count in asked.queues.items()},
        members=members,
        zones={QueueName(queue): tuple(zones) for queue, zones in asked.zones.items()},
        options=_options(asked.assignor, declaration, asked.options),
        weights={QueueName(queue): tuple(weights) for queue, weights in asked.weights.items()},
    )
    if declaration is not None:
        declaration.check(request)
    return asked.assignor, assignor, request


def _json(line: str | bytes) -> object:
    text: str
    try:
        text = line.decode("utf-8-sig") if isinstance(line, bytes) else line
        try:
            return json.loads(text, object_pairs_hook=_object)
        except json.JSONDecodeError:
            raise
        except ValueError:  # more digits than Python reads: the field that has such a number refuses it
            return json.loads(text, object_pairs_hook=_object, parse_int=float)
    except RecursionError:
        raise RequestError("", "not a request: nested too deeply") from None
    except ValueError as error:
        cure = "give one request per line, or one over several lines as --request FILE"
        raise RequestError("", f"not JSON: {error}; {cure}") from None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        found |= {name: _Twice() for name, count in Counter(name for name, _ in pairs).items() if count > 1}
    return found


def _member(asked: _Member) -> Member:
    return Member(
        subscribed=frozenset(map(QueueName, asked.subscribed)),
        owned=tuple(Partition(QueueName(queue), number) for queue, number in asked.owned),
        generation=asked.generation,
        instance=asked.instance or None,
        zone=asked.zone or None,
        capacity=asked.capacity,
    )


def _check_one_per_partition(field: str, given: Mapping[str, Sized], queues: Mapping[str, int]) -> None:
    for queue, values in given.items():
        if queue not in queues:
            raise RequestError(f"{field}.{queue}", "there is no such queue in queues")
        if len(values) != queues[queue]:
            there_are = f"{counted(len(values), 'entry', 'entries')} for {counted(queues[queue], 'partition')}"
            raise RequestError(f"{field}.{queue}", f"has {there_are}; give one per partition")


def _options(name: str, declaration: Declaration | None, raw: Mapping[str, object]) -> dict[str, object]:
    """As the assignor's function takes them. An installed assignor has none."""
    known = declaration.options(raw) if declaration is not None else {}
    for option in raw:
        if option not in known:
            there = f"; there is {', '.join(sorted(known))}" if known else "; leave it out"
            raise RequestError(f"options.{option}", f"{name} has no such option{there}")
    options = {option: _read(known[option].kind, value, f"options.{option}") for option, value in raw.items()}
    for option, one in known.items():
        if one.missing and option not in options:
            raise RequestError(f"options.{option}", f"is missing; {one.missing}")
    return options


def _check_instances(members: Mapping[MemberId, Member]) -> None:
    known: dict[str, MemberId] = {}
    for name in sorted(members):
        instance = members[name].instance
        if instance is not None and known.setdefault(instance, name) != name:
            raise RequestError(
                f"members.{name}.instance", f"{shown(instance)} is {known[instance]}'s too; an identity has one member"
            )
