"""What happened, in sentences, and why: what is alike in one instant is one line."""

from collections.abc import Iterator
from heapq import merge
from typing import Any

from baton.model.ranges import format_numbers
from baton.simulation.orphaned_partitions import OrphanedPartition, orphaned_partitions
from baton.simulation.run import Result
from baton.simulation.timeline import Line


def log_lines(result: Result) -> Iterator[str]:
    """Lines of text: time, what happens, and why. What is alike in one instant stands together, where it happened first."""
    told: dict[tuple[Any, ...], list[Line]] = {}
    happened = zip(result.lines[:-1], result.reasons, strict=True)
    unnoticed = ((_lost(one), "nobody has noticed") for one in orphaned_partitions(result))
    for place, (line, why) in enumerate(merge(happened, unnoticed, key=lambda one: one[0]["t"])):
        key = (line["t"], place if line["event"] == "state" else None, *_alike(line), why)
        told.setdefault(key, []).append(line)
    last = None
    for (t, *_, why), lines in told.items():
        when = "" if t == last else f"{t:g}"
        last = t
        yield f"{when:>9}  {_sentence(lines):<58}{f'  {why}' if why else ''}".rstrip()


def _lost(one: OrphanedPartition) -> Line:
    queue, partition = one.partition
    return {"t": one.start, "event": "lost", "queue": queue, "partition": partition, "member": one.owner}


def _alike(line: Line) -> tuple[object, ...]:
    return (line["event"], line.get("queue"), line.get("member"), line.get("how"), line.get("taken"), line.get("deadline"))


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
            how = {"consumer": "lets go of", "gone": "is gone, and leaves"}[first["how"]]
            return f"{first['member']} {how} {what}"
        case "miss" | "grant" as event:
            misses = "misses the deadline for" if first.get("taken") else "misses the deadline, and keeps"
            return f"{first['member']} {'gets' if event == 'grant' else misses} {what}"
        case "lost":
            return f"{first['member']} is gone: {what} {'has' if len(lines) == 1 else 'have'} no live owner"
        case "standby":
            return f"{first['member']} stands by"
        case "proposal":
            one = first["moves"] == 1
            return f"{first['moves']} {'move is' if one else 'moves are'} proposed, and {'waits' if one else 'wait'} for approval"
        case "approved":
            return "the proposal is approved"
        case "withdrawn":
            return "the proposal is withdrawn"
        case _:
            return f"{first['member']} is fenced off"
