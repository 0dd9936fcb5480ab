"""The same scenario with other settings, side by side: `group.rebalance.delaySeconds=0,5,15`."""

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from baton.simulation.document import DocumentError, read_document
from baton.simulation.run import Result
from baton.simulation.scenario_errors import ScenarioError
from baton.simulation.timeline import time_text

MOST_VARIANTS = 1000


@dataclass(frozen=True, slots=True)
class Setting:
    """A place in a scenario file, and the values to be tried there."""

    path: str
    values: tuple[object, ...]
    words: tuple[str, ...]
    """The values as they were written."""


def read_setting(text: str) -> Setting:
    """From `path=value,value…`. Values are YAML: `null`, `true`, `[range, solace]`. Raises ScenarioError."""
    path, equals, written = text.partition("=")
    if not equals or not all(path.split(".")) or not written.strip():
        raise ScenarioError(f"--set {text}: write PATH=VALUE or PATH=VALUE,VALUE…, such as group.rebalance.delaySeconds=0,5,15")
    words = tuple(_split(written))
    try:
        return Setting(path, tuple(read_document(word) for word in words), words)
    except DocumentError as error:
        raise ScenarioError(f"--set {text}: {error}") from None


def variants(raw: dict[str, object], settings: Sequence[Setting]) -> Iterator[tuple[tuple[str, ...], dict[str, object]]]:
    """Every combination: the values in words, and the file with them. Raises ScenarioError."""
    count = math.prod(len(setting.values) for setting in settings)
    if count > MOST_VARIANTS:
        raise ScenarioError(f"--set: these are {count:,} combinations; {MOST_VARIANTS:,} is the most: give fewer values")
    for chosen in product(*(range(len(setting.values)) for setting in settings)):
        changed = copy.deepcopy(raw)
        for setting, n in zip(settings, chosen, strict=True):
            _put(changed, setting.path, setting.values[n])
        yield tuple(setting.words[n] for setting, n in zip(settings, chosen, strict=True)), changed


def table(settings: Sequence[Setting], rows: Sequence[tuple[tuple[str, ...], Result]]) -> Iterator[str]:
    """A table in Markdown, which is as readable in a terminal: a row per variant, and what it cost."""
    head = [setting.path.rpartition(".")[2] for setting in settings]
    head += ["moves", "at least", "paused s", "paused at once", "unowned s", "missed"]
    cells = [[*words, *_costs(result)] for words, result in rows]
    widths = [max(len(row[n]) for row in [head, *cells]) for n in range(len(head))]
    yield "| " + " | ".join(f"{cell:>{width}}" for cell, width in zip(head, widths, strict=True)) + " |"
    yield "|" + "|".join("-" * (width + 1) + ":" for width in widths) + "|"
    for row in cells:
        yield "| " + " | ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) + " |"


def _costs(result: Result) -> list[str]:
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
    """At commas that are not inside brackets."""
    depth, start = 0, 0
    for place, char in enumerate(text):
        depth += (char in "[{") - (char in "]}")
        if char == "," and depth == 0:
            yield text[start:place].strip()
            start = place + 1
    yield text[start:].strip()


def _put(tree: dict[str, object], path: str, value: object) -> None:
    """What is not there yet becomes a mapping; and so does a queue that stands there in its short form (`orders: 12`)."""
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
