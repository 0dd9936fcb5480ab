"""Texts about a run: its lines as sentences, its costs, failed expectations, and a comparison of settings."""

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import product
from typing import Any

from baton.model.ranges import format_numbers
from baton.model.wording import counted
from baton.simulation.history import OrphanedPartition, orphaned_partitions
from baton.simulation.run import Line, Result, time_text
from baton.simulation.scenario import FaultError, ScenarioError
from baton.simulation.scenario_reading import read_document

# The timeline in sentences. Similar events of one instant share a line.


def log_lines(result: Result) -> Iterator[str]:
    """Yield lines of text: time, event and reason. Similar events of one instant share a line, at the place of the first."""
    groups: dict[tuple[Any, ...], list[Line]] = {}
    happened = zip(result.lines[:-1], result.reasons, strict=True)
    unnoticed = ((_lost(one), "no operator has noticed") for one in orphaned_partitions(result))
    for place, (line, why) in enumerate(merge(happened, unnoticed, key=lambda one: one[0]["t"])):
        key = (line["t"], place if line["event"] == "state" else None, *_alike(line), why)
        groups.setdefault(key, []).append(line)
    last = None
    for (t, *_, why), lines in groups.items():
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
            return f"{first['member']} is to release {what} by {first['deadline']:g}"
        case "release":
            how = {"consumer": "releases", "gone": "is gone, and leaves"}[first["how"]]
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


# The costs of a run in sentences


def verdict(result: Result) -> Iterator[str]:
    """Yield sentences about moves and their lower bound, pauses, time without an owner, and the final state."""
    cost = result.summary
    moves, least, misses = cost["moves"], cost["lower_bound"], cost["deadline_misses"]
    yield f"{counted(moves, 'move')}; the rebalances needed {least:,} at least." if moves or least else "No partition moved."
    if result.most_paused:
        late = f"{counted(misses, 'hand-off')} missed the deadline" if misses else "no hand-off missed its deadline"
        yield f"{time_text(cost['pause_seconds'])} s paused, at most {counted(result.most_paused, 'partition')} at once; {late}."
    later = cost["unowned_seconds"] - result.unowned_at_first
    yield (
        f"{time_text(later)} s without an owner while a member could take over, and "
        f"{time_text(result.unowned_at_first)} s before the first owners (seconds are summed over partitions)."
    )
    lost = sum(one.end - one.start for one in orphaned_partitions(result))
    if lost:
        yield f"{time_text(lost)} s more with an owner that was gone, while no operator noticed."
    if cost["dual_ownership"] or cost["epoch_regressions"]:
        twice, back = counted(cost["dual_ownership"], "time"), counted(cost["epoch_regressions"], "time")
        yield f"Two owners were let in {twice}, and epochs went back {back}."
    if cost["state"] != "Ready":
        yield f"At the end the group is in {cost['state']}."


# The expectations of a scenario file (`expect:`)


def failures(expect: Mapping[str, object], result: Result) -> list[str]:
    """Return a sentence for each expectation that does not hold."""
    found: list[str] = []
    for field, wanted in expect.items():
        if field == "lines":
            found += _missing_line(wanted, result.lines)
            continue
        if field == "most_paused":
            got: object = result.most_paused
        elif field in result.summary:
            got = result.summary[field]
        else:
            known = ", ".join(name for name in result.summary if name != "event")
            found.append(f"expect.{field}: there is no such field; choose one of {known}, lines, most_paused")
            continue
        if field == "assignment" and isinstance(wanted, Mapping):
            asked: object = {member: queues for member, queues in wanted.items() if queues}
        else:
            asked = wanted
        if not _equal(asked, got):
            found.append(f"expect.{field}: expected {asked}, found {got}")
    return found


def _missing_line(wanted: object, lines: tuple[Line, ...]) -> list[str]:
    """Find the first expected line that has no match after the match of the one before."""
    if not isinstance(wanted, list) or not all(isinstance(line, Mapping) for line in wanted):
        return ["expect.lines: give a list of partial objects, such as {t: 5, event: grant}"]
    rest = iter(lines)
    after = "the beginning"
    for number, partial in enumerate(wanted):
        for line in rest:
            if all(key in line and _equal(value, line[key]) for key, value in partial.items()):
                after = _text(line)
                break
        else:
            return [f"expect.lines.{number}: no line with {_text(partial)} after {after}"]
    return []


def _equal(wanted: object, got: object) -> bool:
    if isinstance(wanted, int | float) and isinstance(got, int | float) and not isinstance(wanted, bool):
        return abs(wanted - got) < 1e-6
    return bool(wanted == got)


def _text(line: Mapping[str, object]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in line.items()) + "}"


# Comparison of one scenario with different settings: `group.rebalance.delaySeconds=0,5,15`


MOST_VARIANTS = 1000


@dataclass(frozen=True, slots=True)
class Setting:
    """A path in a scenario file, and the values to try there."""

    path: str
    values: tuple[object, ...]
    texts: tuple[str, ...]
    """The values as the user wrote them."""


def read_setting(text: str) -> Setting:
    """Read `path=value,value…`. Values are YAML: `null`, `true`, `[range, solace]`. Raises ScenarioError."""
    path, equals, written = text.partition("=")
    if not equals or not all(path.split(".")) or not written.strip():
        raise ScenarioError(f"--set {text}: write PATH=VALUE or PATH=VALUE,VALUE…, such as group.rebalance.delaySeconds=0,5,15")
    texts = tuple(_split(written))
    try:
        return Setting(path, tuple(read_document(text) for text in texts), texts)
    except FaultError as error:
        raise ScenarioError(f"--set {text}: {error}") from None


def variants(raw: dict[str, object], settings: Sequence[Setting]) -> Iterator[tuple[tuple[str, ...], dict[str, object]]]:
    """Yield every combination: the values as text, and the scenario with them. Raises ScenarioError."""
    count = math.prod(len(setting.values) for setting in settings)
    if count > MOST_VARIANTS:
        raise ScenarioError(f"--set: these are {count:,} combinations; {MOST_VARIANTS:,} is the most: give fewer values")
    for chosen in product(*(range(len(setting.values)) for setting in settings)):
        changed = copy.deepcopy(raw)
        for setting, n in zip(settings, chosen, strict=True):
            _put(changed, setting.path, setting.values[n])
        yield tuple(setting.texts[n] for setting, n in zip(settings, chosen, strict=True)), changed


def table(settings: Sequence[Setting], rows: Sequence[tuple[tuple[str, ...], Result]]) -> Iterator[str]:
    """Yield a Markdown table, which is also readable in a terminal, with the costs of each variant."""
    head = [setting.path.rpartition(".")[2] for setting in settings]
    head += ["moves", "at least", "paused s", "paused at once", "unowned s", "missed"]
    cells = [[*texts, *_row_of(result)] for texts, result in rows]
    widths = [max(len(row[n]) for row in [head, *cells]) for n in range(len(head))]
    yield "| " + " | ".join(f"{cell:>{width}}" for cell, width in zip(head, widths, strict=True)) + " |"
    yield "|" + "|".join("-" * (width + 1) + ":" for width in widths) + "|"
    for row in cells:
        yield "| " + " | ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) + " |"


def _row_of(result: Result) -> list[str]:
    cost = result.summary
    return [
        f"{cost['moves']:,}",
        f"{cost['lower_bound']:,}",
        time_text(cost["pause_seconds"]),
        f"{result.most_paused:,}",
        time_text(cost["unowned_seconds"] - result.unowned_at_first),
        f"{cost['deadline_misses']:,}",
    ]


def _split(text: str) -> Iterator[str]:
    """Split at commas that are not inside brackets."""
    depth, start = 0, 0
    for place, char in enumerate(text):
        depth += (char in "[{") - (char in "]}")
        if char == "," and depth == 0:
            yield text[start:place].strip()
            start = place + 1
    yield text[start:].strip()


def _put(tree: dict[str, object], path: str, value: object) -> None:
    """Set a value in a scenario. Missing mappings are created, and a queue in its short form (`orders: 12`) becomes a mapping."""
    at: Any = tree
    *above, last = path.split(".")
    for depth, part in enumerate(above):
        here: Any = part
        if isinstance(at, list):
            here = _index(at, part, path)
        elif depth == 1 and above[0] == "queues" and isinstance(at.get(part), int):
            at[part] = {"partitions": at[part]}
        elif at.get(part) is None:
            at[part] = {}
        if not isinstance(at[here], dict | list):
            raise ScenarioError(f"--set {path}: {part} is {at[here]!r}, in which nothing can be set")
        at = at[here]
    at[_index(at, last, path) if isinstance(at, list) else last] = value


def _index(at: list[Any], part: str, path: str) -> int:
    if not part.isdecimal() or int(part) >= len(at):
        raise ScenarioError(f"--set {path}: {part} is no place in a list of {len(at)}; count from 0")
    return int(part)
