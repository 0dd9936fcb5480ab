"""A text chart of the run: the owners of partitions over time, and the rate of processing."""

from collections.abc import Sequence

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.text import Text

from demo.stage import Moment
from demo.story import Line
from demo.view import Colours, spark


def sampled(moments: Sequence[Moment], columns: int, end: float, begin: float = 0.0) -> list[Moment | None]:
    """The last moment before the end of each of `columns` equal spans; None before the first."""
    found: list[Moment | None] = []
    index, current = 0, None
    for column in range(1, columns + 1):
        limit = begin + (end - begin) * column / columns
        while index < len(moments) and moments[index].at <= limit:
            current = moments[index]
            index += 1
        found.append(current)
    return found


def averaged(rates: Sequence[tuple[float, float]], columns: int, end: float, begin: float = 0.0) -> tuple[float, ...]:
    """The average of the measurements, pairs of (time, value), in each of `columns` equal spans; 0 before the first.

    A span without measurements has the value of the span before it: a short run has more spans than measurements.
    """
    spans: list[list[float]] = [[] for _ in range(columns)]
    for at, rate in rates:
        if begin <= at < end:
            spans[int((at - begin) / (end - begin) * columns)].append(rate)
    found: list[float] = []
    for span in spans:
        found.append(sum(span) / len(span) if span else found[-1] if found else 0.0)
    return tuple(found)


def chart(
    moments: Sequence[Moment],
    steps: Sequence[Line],
    rates: Sequence[tuple[float, float]],
    partitions: int,
    colours: Colours,
    columns: int,
) -> RenderableType:
    """A row per partition, a column per span of time, a letter and colour per pod; below it the steps and the rate."""
    begin = next((moment.at for moment in moments if moment.owners), 0.0)
    end = moments[-1].at if moments else 1.0
    taken = sampled(moments, columns, end, begin)
    letters = _letters(moments)
    rows: list[RenderableType] = []
    for number in range(partitions):
        row = Text(f"{number:>3} ", "dim")
        for moment in taken:
            owner = moment.owners.get(number) if moment else None
            row.append(letters[owner] if owner else "·", f"black on {colours.of(owner)}" if owner else "bright_black")
        rows.append(row)
    marks, names = _marks([step for step in steps if step.at >= begin], begin, end, columns)
    rows += [Text("    " + marks, "bold"), Text("    " + spark(averaged(rates, columns, end, begin)), "green"), Text()]
    rows.append(Columns([Text(f"{letter} {name}", colours.of(name)) for name, letter in letters.items()], padding=(0, 2)))
    rows += [Text(line, "dim") for line in names]
    return Group(*rows)


def _letters(moments: Sequence[Moment]) -> dict[str, str]:
    names: dict[str, None] = {}
    for moment in moments:
        names.update(dict.fromkeys(sorted(moment.owners.values(), key=lambda name: (len(name), name))))
    return {name: chr(ord("a") + index % 26) for index, name in enumerate(names)}


def _marks(steps: Sequence[Line], begin: float, end: float, columns: int) -> tuple[str, list[str]]:
    cells = [" "] * columns
    names = []
    for index, step in enumerate(steps, 1):
        column = min(columns - 1, int((step.at - begin) / max(end - begin, 0.001) * columns))
        cells[column] = str(index % 10)
        names.append(f"{index} {step.text}")
    return "".join(cells), names
