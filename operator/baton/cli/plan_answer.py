"""What `baton plan` answers to a request in JSON."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypedDict

from baton.assignors.building_blocks.holders import holders
from baton.assignors.contract import AssignorError
from baton.assignors.fields import RequestError
from baton.assignors.request import Answer, Request
from baton.assignors.solace.lower_bound import least_moves
from baton.cli.plan_request import parse_request
from baton.model.ids import MemberId, Partition

NumbersByQueue = Mapping[str, Sequence[int]]
"""Of one member: the numbers of its partitions, by queue."""


class AnswerObject(TypedDict):
    """An answer as a JSON object."""

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
