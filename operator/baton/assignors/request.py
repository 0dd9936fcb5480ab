"""The request to an assignor, its answer, and the rules for answers.

Baton checks the answers of installed assignors, and rejects those that break a rule.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import PurePath
from traceback import extract_tb
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field

from baton.model.ids import MemberId, Partition, QueueName
from baton.model.ranges import format_numbers
from baton.model.wording import one_line

NO_GENERATION = -1
"""The generation of a member that reports none (Kafka's DEFAULT_GENERATION)."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member, as assignors see it."""

    subscribed: frozenset[QueueName]
    """The queues that it reads. Assignors ignore queues that do not exist."""
    owned: Sequence[Partition] = ()
    """The partitions that it claims, in any order. Assignors ignore those that do not exist."""
    generation: int = NO_GENERATION
    """The assignment that its claims come from. If several members claim a partition, the newest generation wins."""
    instance: str | None = None
    """The identity of a static member."""
    zone: str | None = None
    rank: int = 0
    """Its place in the order of joining; ties are broken by name."""
    capacity: Fraction = Fraction(1)
    """How much load it can carry relative to other members, above 0."""


@dataclass(frozen=True, slots=True)
class Request:
    """The members, and the partitions to divide among them. The order of the mappings has no meaning.

    Assignors do not check requests; `baton plan` checks those of users (`baton.cli.plan`).
    """

    queues: Mapping[QueueName, int]
    """The number of partitions of each queue."""
    members: Mapping[MemberId, Member]
    zones: Mapping[QueueName, tuple[frozenset[str], ...]] = field(default_factory=dict)
    """By queue and partition: the zones with a replica. A queue without an entry is in no zone."""
    options: Mapping[str, object] = field(default_factory=dict)
    weights: Mapping[QueueName, tuple[Fraction, ...]] = field(default_factory=dict)
    """By queue and partition: its share of the load, from 0. Default: 1."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The planned owners. `assignment` has a key for every member of the request. Partitions are sorted: built-in assignors
    return a `PartitionList` for each member."""

    assignment: Mapping[MemberId, Sequence[Partition]]
    """The partitions that each member may own at once."""
    withheld: Mapping[MemberId, Sequence[Partition]] = field(default_factory=dict)
    """The partitions that a member gets once the holder has released them (Kafka, KIP-429)."""

    def owners(self) -> dict[Partition, MemberId]:
        """The owner of each partition, withheld ones included."""
        return {
            partition: member
            for part in (self.assignment, self.withheld)
            for member, partitions in part.items()
            for partition in partitions
        }


Assignor = Callable[[Request], Answer]
"""A pure function: equal requests get equal answers, regardless of the order of their mappings."""


# The rules for answers


LONGEST = 300
"""The most characters shown of an installed assignor's error message."""


class AssignorError(Exception):
    """An assignor failed, or its answer breaks the contract. The message is one line with its name."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"the assignor {name} {what}")


def checked(name: str, assignor: Assignor) -> Assignor:
    """Wrap an assignor: its answers are checked and sorted. Raises AssignorError for an answer that breaks the contract.

    Answers may omit members without partitions, and may list partitions in any order.
    """

    def ask(request: Request) -> Answer:
        try:
            answer: object = assignor(_with_mappings(request, lambda mapping: MappingProxyType(dict(mapping))))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # also one that would end the caller, such as SystemExit
            raise AssignorError(name, f"failed{_where(error)} with {describe(error)}") from error
        if not isinstance(answer, Answer):
            raise AssignorError(name, f"answered with {type(answer).__name__} instead of baton.assignors.Answer")
        made = Answer(
            {**dict.fromkeys(request.members, ()), **_owned_by(name, request, answer.assignment, "assignment")},
            {member: owned for member, owned in _owned_by(name, request, answer.withheld, "withheld").items() if owned},
        )
        _check_complete(name, request, made)
        return made

    return ask


def whatever_the_order(name: str, assignor: Assignor) -> Assignor:
    """Wrap an assignor: it is called twice, the second time with all mappings reversed. Raises AssignorError if the answers
    differ."""

    def ask(request: Request) -> Answer:
        answer = assignor(request)
        if assignor(_with_mappings(request, lambda mapping: dict(reversed(mapping.items())))) != answer:
            raise AssignorError(
                name, "answers otherwise when the same members or queues are listed in another order: let names or ranks decide"
            )
        return answer

    return ask


def describe(error: BaseException) -> str:
    """The exception's type and message on one line, at most LONGEST characters of the message."""
    words = one_line(str(error), LONGEST)
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def _where(error: BaseException) -> str:
    frames = extract_tb(error.__traceback__)[1:]  # the first is Baton's
    return f" at {PurePath(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


def _owned_by(name: str, request: Request, side: object, field: str) -> dict[MemberId, tuple[Partition, ...]]:
    """One field of the answer, sorted. Raises AssignorError for unknown members and partitions."""
    if not isinstance(side, Mapping):
        raise AssignorError(name, f"answered with a {field} that is {type(side).__name__}, no mapping of members to partitions")
    owned_by: dict[MemberId, tuple[Partition, ...]] = {}
    for member, owned in side.items():
        if member not in request.members:
            raise AssignorError(name, f"gave something to {member!r}, which is not a member")
        if not isinstance(owned, Iterable) or isinstance(owned, str):
            raise AssignorError(name, f"gave {member} {type(owned).__name__} instead of partitions")
        owned_by[member] = tuple(sorted(_partition(name, request, member, one) for one in owned))
    return owned_by


def _partition(name: str, request: Request, member: MemberId, one: object) -> Partition:
    match one:
        case (str() as queue, int() as number) if isinstance(one, tuple) and not isinstance(number, bool):
            size = request.queues.get(QueueName(queue))
        case _:
            raise AssignorError(name, f"gave {member} {one!r}, which is not a Partition(queue, number)")
    if size is None:
        raise AssignorError(name, f"gave {member} partition {number} of {queue}, and there is no queue {queue}")
    if not 0 <= number < size:
        raise AssignorError(name, f"gave {member} partition {number} of {queue}, which has {size}, numbered from 0")
    if queue not in request.members[member].subscribed:
        raise AssignorError(name, f"gave {member} partition {number} of {queue}, which that member does not read")
    return Partition(QueueName(queue), number)


def _check_complete(name: str, request: Request, answer: Answer) -> None:
    """Raise AssignorError unless every partition with a reader has one owner."""
    owners: dict[Partition, MemberId] = {}
    for side in (answer.assignment, answer.withheld):
        for member, owned in side.items():
            for partition in owned:
                if partition in owners:
                    to = f"{owners[partition]} and to {member}" if owners[partition] != member else f"{member} twice"
                    raise AssignorError(name, f"gave partition {partition.number} of {partition.queue} to {to}")
                owners[partition] = member
    read = frozenset().union(*(member.subscribed for member in request.members.values()))
    for queue in sorted(read & request.queues.keys()):
        missing = [number for number in range(request.queues[queue]) if (queue, number) not in owners]
        if missing:
            numbers = format_numbers(missing[:20]) + (f" and {len(missing) - 20} more" if len(missing) > 20 else "")
            raise AssignorError(name, f"gave {queue} {numbers} no owner, though there are members that read it")


def _with_mappings(request: Request, convert: Callable[[Any], Mapping[Any, Any]]) -> Request:
    names = ("queues", "members", "zones", "weights", "options")
    return replace(request, **{name: convert(getattr(request, name)) for name in names})


# Requests in JSON: types of fields for pydantic, and the error for an invalid request.


T = TypeVar("T")

LONGEST_PATH = 300
"""The most characters shown of a path; it may contain names of any length."""


class RequestError(ValueError):
    """An invalid request. The message is one line: the field, what is wrong, and the cure."""

    def __init__(self, path: str, sentence: str) -> None:
        words = f"{_cut(path, LONGEST_PATH)}: {sentence}" if path else sentence
        super().__init__("".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in words))


def shown(value: object) -> str:
    """The value as in the request, cut to 60 characters."""
    text = _cut(json.dumps(value, ensure_ascii=False, default=lambda _: "…"), 60)
    return text.encode(errors="backslashreplace").decode()  # pydantic cannot encode half of a surrogate pair


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length] + "…"


def _each_once(values: list[T]) -> list[T]:
    for value, count in Counter(values).items():
        if count > 1:
            raise ValueError(f"{shown(value)} is given {count} times; keep one")
    return values


EachOnce = AfterValidator(_each_once)
Text = Annotated[str, Field(strict=True, min_length=1)]
Whole = Annotated[int, Field(strict=True, ge=0)]
