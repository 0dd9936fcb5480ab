"""What a scenario file expects of its own run (`expect:`)."""

from collections.abc import Mapping

from baton.simulation.run import Result
from baton.simulation.timeline import Line


def failures(expect: Mapping[str, object], result: Result) -> list[str]:
    """A sentence for each expectation that does not hold."""
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
    """Each wanted line, in order, must match one after the line that matched before."""
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
