"""A timeline for people: what is alike in one instant is one line, and the cost comes last."""

from collections.abc import Iterator
from itertools import groupby

from baton.model.ranges import format_numbers
from baton.simulation.run import Result
from baton.simulation.timeline import Line


def picture(result: Result) -> Iterator[str]:
    """Lines of text: time, what happens, and why."""
    told = list(zip(result.lines[:-1], result.reasons, strict=True))
    last = None
    for (t, *alike), group in groupby(told, key=lambda pair: _alike(*pair)):
        lines = [line for line, _ in group]
        when = "" if t == last else f"{t:g}"
        last = t
        why = str(alike[-1])
        text = _sentence(lines)
        yield f"{when:>9}  {text:<58}{'  ' + why if why else ''}".rstrip()
    yield ""
    yield from _costs(result)


def _alike(line: Line, why: str) -> tuple[object, ...]:
    if line["event"] in ("release", "grant", "revoke"):
        return (line["t"], line["event"], line["queue"], line["member"], line.get("how"), line.get("deadline"), why)
    return (line["t"], line["event"], line.get("state"), line.get("member"), line.get("until"), "", why)


def _sentence(lines: list[Line]) -> str:
    first = lines[0]
    if "queue" in first:
        what = f"{first['queue']} {format_numbers(line['partition'] for line in lines)}"
    match first["event"]:
        case "state" if "until" in first:
            return f"{first['state']} until {first['until']:g}"
        case "state":
            return str(first["state"])
        case "revoke":
            return f"{first['member']} is to let go of {what} by {first['deadline']:g}"
        case "release":
            how = {"consumer": "lets go of", "deadline": "missed the deadline for", "gone": "is gone, and leaves"}[first["how"]]
            return f"{first['member']} {how} {what}"
        case "grant":
            return f"{first['member']} gets {what}"
        case "standby":
            return f"{first['member']} stands by"
        case _:
            return f"{first['member']} is fenced off"


def _costs(result: Result) -> Iterator[str]:
    cost = result.summary
    yield f"{cost['moves']} moves, {cost['lower_bound']} at least; {cost['deadline_misses']} deadlines missed"
    yield (
        f"{cost['pause_seconds']:g} s paused, {cost['unowned_seconds']:g} s without an owner (summed over partitions), "
        f"{result.most_paused} paused at once"
    )
    if cost["dual_ownership"] or cost["epoch_regressions"]:
        yield f"two owners let in {cost['dual_ownership']} times, epochs gone back {cost['epoch_regressions']} times"
    yield f"in the end {cost['state']}:"
    for member, queues in cost["assignment"].items():
        yield f"  {member}: " + "; ".join(f"{queue} {format_numbers(numbers)}" for queue, numbers in queues.items())
