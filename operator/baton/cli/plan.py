"""`baton plan`: who would own what: in JSON Lines for programs, and explained for people."""

import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Sized
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NamedTuple, TypedDict, TypeVar

import click
from pydantic import BaseModel, ConfigDict, FailFast, Field, PlainValidator, TypeAdapter, ValidationError

from baton.assignors.building_blocks import Declaration, holders
from baton.assignors.registry import DECLARED, UnknownAssignorError, get
from baton.assignors.request import (
    NO_GENERATION,
    Answer,
    Assignor,
    AssignorError,
    EachOnce,
    Member,
    Request,
    RequestError,
    Text,
    Whole,
    shown,
    whatever_the_order,
)
from baton.assignors.solace import least_moves
from baton.cli.options import GROUP, OBJECT, WORD, ClusterTarget, Parsed, bounded, cluster_options
from baton.cli.own_assignors import use_own_assignors
from baton.cli.printing import console, refuse, say, say_json
from baton.model.ids import MemberId, Partition, QueueName
from baton.model.wording import counted
from baton.schema.mistakes import first_mistake, in_words

if TYPE_CHECKING:
    from baton.cli.rehearsal import Comparison, WhatIf

T = TypeVar("T")

MOST_PARTITIONS = 1_000_000
"""The most partitions of one queue; the ledger accepts no higher number."""

MOST_IN_ALL = 2_000_000
"""The most partitions of all queues together, so that a mistake does not exhaust the memory."""

MOST = 1e15
"""The largest capacity and weight."""


def _amount(least: str) -> PlainValidator:
    """A validator of an exact number: 0.1 is a tenth. `least`: "above" or "from"."""

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
    """The value of a key that an object contains twice, which JSON allows."""


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
"""What was expected, by the type of pydantic's error or by the model."""


def _read(kind: type[T], value: object, path: str = "") -> T:
    """Return the value as this type; `path`: its place in the request. Raises RequestError for the first mistake."""
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
            sentence = "is given twice; keep one of them"
        case "extra_forbidden":
            known = (_Request if len(fault["loc"]) == 1 else _Member).model_fields
            sentence = f"there is no such field; the fields are {', '.join(known)}"
        case "string_unicode":
            sentence = f"{found!a} has half of a surrogate pair; write whole characters"
        case "string_too_short" if of_name:
            sentence = "a name is empty"
        case "less_than_equal":
            sentence = f"{shown(found)} is too many; the limit is {context['le']}"
        case _:
            sentence = in_words(fault, shown, _EXPECTED, own_words_suffice=True)
    raise RequestError(path, sentence)


def parse_request(line: str | bytes) -> tuple[str, Assignor, Request]:
    """Return the assignor's name, the assignor and the request. Raises RequestError."""
    asked = _read(_Request, _json(line))
    try:
        assignor = get(asked.assignor)
    except UnknownAssignorError as error:
        raise RequestError("assignor", str(error)) from None
    declaration = DECLARED.get(asked.assignor)
    if declaration is None:
        assignor = whatever_the_order(asked.assignor, assignor)
    if (count := sum(asked.queues.values())) > MOST_IN_ALL:
        raise RequestError("queues", f"{count} partitions together are too many; the limit is {MOST_IN_ALL}")
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
        except ValueError:  # a number with more digits than Python reads: its field rejects it
            return json.loads(text, object_pairs_hook=_object, parse_int=float)
    except RecursionError:
        raise RequestError("", "not a request: nested too deeply") from None
    except ValueError as error:
        cure = "write one request per line, or a single one over several lines with --request FILE"
        what = "a text in UTF-8" if isinstance(error, UnicodeDecodeError) else f"JSON: {error}"
        raise RequestError("", f"not {what}; {cure}") from None


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
    """The options as the assignor's function takes them. Installed assignors have none."""
    known = declaration.options(raw) if declaration is not None else {}
    for option in raw:
        if option not in known:
            there = f"; its options are {', '.join(sorted(known))}" if known else "; remove it"
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
                f"members.{name}.instance", f"{shown(instance)} is also the identity of {known[instance]}; identities are unique"
            )


NumbersByQueue = Mapping[str, Sequence[int]]
"""The numbers of a member's partitions, by queue."""


class AnswerObject(TypedDict):
    """An answer as a JSON object."""

    assignment: Mapping[str, NumbersByQueue]
    withheld: Mapping[str, NumbersByQueue]
    moves: int
    """Partitions that one member holds and another would own."""
    lower_bound: int


class Planned(NamedTuple):
    """A request and its answer."""

    assignor: str
    request: Request
    held: Mapping[Partition, tuple[MemberId, ...]]
    """The present holders by partition, sorted."""
    answer: Answer
    moves: int
    lower_bound: int


def answer_line(line: str | bytes) -> AnswerObject:
    """Return the answer to a line of JSON as a JSON object. Raises RequestError."""
    made = planned(line)
    return {
        "assignment": _to_queues(made.answer.assignment),
        "withheld": {member: queues for member, queues in _to_queues(made.answer.withheld).items() if queues},
        "moves": made.moves,
        "lower_bound": made.lower_bound,
    }


def planned(line: str | bytes) -> Planned:
    """Return the request on a line of JSON, and its answer. Raises RequestError."""
    name, assignor, request = parse_request(line)
    try:
        answer = assignor(request)
    except AssignorError as error:
        raise RequestError("assignor", str(error)) from None
    held = holders(request)
    least = least_moves(request.queues, {member: one.subscribed for member, one in request.members.items()}, held)
    return Planned(name, request, held, answer, _moves(held, answer), least)


def _to_queues(assignment: Mapping[MemberId, Sequence[Partition]]) -> dict[str, dict[str, list[int]]]:
    shown: dict[str, dict[str, list[int]]] = {}
    for member in sorted(assignment):
        queues = shown[member] = {}
        for queue, number in assignment[member]:
            queues.setdefault(queue, []).append(number)
    return shown


def _moves(held: Mapping[Partition, tuple[MemberId, ...]], answer: Answer) -> int:
    """The number of partitions that one member holds and another would own."""
    return sum(member not in held.get(partition, (member,)) for partition, member in answer.owners().items())


MOST_ADDED = 10_000


def _count(value: str) -> tuple[str, int]:
    queue, _, count = value.rpartition("=")
    if not queue or not (count.isascii() and count.isdigit()) or len(count) > 7 or int(count) > MOST_PARTITIONS:
        raise ValueError(f"not QUEUE=COUNT, such as orders=16, with a count of at most {MOST_PARTITIONS}")
    return OBJECT.convert(queue, None, None), int(count)


@click.command()
@click.option(
    "--request",
    "file",
    type=click.File("rb"),
    metavar="FILE",
    help="Read requests from FILE (-: standard input): one per line, or a single request over several lines.",
)
@click.option("--explain", is_flag=True, help="Explain what each member gains and loses, and whether the moves are worth it.")
@click.option(
    "--group",
    type=GROUP,
    metavar="GROUP",
    help="With --explain: plan for this live ConsumerGroup (NAME or NAMESPACE/NAME) without changing it.",
)
@click.option("--assignor", type=WORD, metavar="NAME", help="With --group: plan with this assignor.")
@click.option("--add", type=bounded(0, MOST_ADDED), default=0, metavar="N", help="With --group: plan for N more pods.")
@click.option("--remove", type=WORD, multiple=True, metavar="POD", help="With --group: plan without this pod; repeatable.")
@click.option(
    "--partitions",
    type=Parsed("queue=count", _count),
    multiple=True,
    metavar="QUEUE=COUNT",
    help="With --group: plan with COUNT partitions of QUEUE; repeatable.",
)
@cluster_options
def plan(
    file: BinaryIO | None,
    explain: bool,
    group: str | None,
    assignor: str | None,
    add: int,
    remove: tuple[str, ...],
    partitions: tuple[tuple[str, int], ...],
    target: ClusterTarget,
) -> None:
    """Answer assignment requests: one line of JSON in, one line of JSON out.

    Changes nothing. A request has an assignor, the queues with their numbers of partitions, and the members with the queues they
    read and the partitions they own. The answer has the new owners, the number of moves, and the lower bound of moves. The answer
    to an invalid request is {"error": "<field>: <problem>"}; the command then exits with 1.

    With --explain the answer is for people. With --explain --group it is for a live ConsumerGroup, as it is or with other pods,
    partitions or another assignor.
    """
    use_own_assignors()
    if group is None:
        if assignor or add or remove or partitions or target != ClusterTarget():
            raise click.UsageError(
                "--assignor, --add, --remove, --partitions, -n, --context and --kubeconfig need --explain --group GROUP"
            )
        sys.exit(_answer(_requests(file), explain=explain))
    if not explain:
        raise click.UsageError("--group needs --explain")
    if file is not None:
        raise click.UsageError("use --request or --group, not both")
    from baton.cli.rehearsal import WhatIf

    _live(group, target, WhatIf(assignor, add, remove, dict(partitions)))


def _answer(lines: Iterable[bytes], *, explain: bool) -> bool:
    """Answer the lines, and return whether any was refused."""
    refused = False
    for number, line in enumerate(lines):
        try:
            if not explain:
                say_json(answer_line(line), separators=(",", ":"))
                continue
            made = planned(line)
            if number:
                say()
            _explain(made)
        except RequestError as error:
            refused = True
            if explain:
                say(f"baton plan: {error}", error=True)
            else:
                say_json({"error": str(error)}, separators=(",", ":"))
    return refused


def _explain(made: Planned) -> None:
    from baton.cli.rehearsal import Comparison

    withheld = frozenset(partition for hand in made.answer.withheld.values() for partition in hand)
    after = made.answer.owners()
    _print(Comparison(made.assignor, made.request, made.held, after, made.moves, made.lower_bound, withheld))


def _live(group: str, target: ClusterTarget, what_if: "WhatIf") -> None:
    from baton.cli.cluster import ask, cluster
    from baton.cli.group import observe
    from baton.cli.rehearsal import compare

    async def work() -> None:
        async with cluster(target) as (api, where):
            state, seen = await observe(api, where, group)
        _print(await compare(f"{where}/{group}", state, seen, what_if, time.time()))

    try:
        if what_if.assignor is not None:
            get(what_if.assignor)
    except UnknownAssignorError as error:
        refuse(str(error))
    ask(work())


def _print(comparison: "Comparison") -> None:
    """Print the explanation, in colours only on a terminal and without NO_COLOR."""
    from baton.cli.rehearsal import WIDTH, explanation

    on = console(width=WIDTH, soft_wrap=True)
    for part in explanation(comparison):
        on.print(part)


def _requests(file: BinaryIO | None) -> Iterable[bytes]:
    if file is None:
        if sys.stdin.isatty():
            say("baton plan: type requests, one per line; Ctrl-D ends; see also --help", error=True)
        return filter(bytes.strip, sys.stdin.buffer)
    content = file.read()
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        lines = [line for line in content.splitlines() if line.strip()]
        if any(map(_is_object, lines)):
            return lines
    return [content] if content.strip() else []


def _is_object(line: bytes) -> bool:
    """Whether the line is a whole request, not a part of one over several lines."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
