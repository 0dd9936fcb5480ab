"""Judges the lines that owners write. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Line(NamedTuple):
    """A line of the file that all owners and operators write."""

    what: str
    """handled: an entry; taken: a commit was accepted, up to `offset`; granting: the partition is about to be granted."""
    partition: int
    epoch: int
    offset: int
    redelivered: bool


def lines(text: str) -> list[Line]:
    """Parse lines of the file."""
    split = (line.split() for line in text.splitlines())
    return [Line(what, int(number), int(epoch), int(offset), again == "1") for what, number, epoch, offset, again in split]


class Verdict(NamedTuple):
    """Faults; all empty: none."""

    stale: list[Line]
    """Commits that were accepted after a later owner had begun before them."""
    lost: dict[int, int]
    """Number of entries that no owner has handled, by partition."""
    overtaken: list[Line]
    """Entries that the owner handled for the first time, before an earlier one was handled."""
    unmarked: list[Line]
    """Entries that the owner handled again, not marked redelivered. Those of former owners do not count, nor those of a partition
    that is being granted: Kafka rejects no reader, so the next owner cannot know of them."""
    undone: list[Line]
    """Entries that the owner handled after a commit beyond them was confirmed."""


def verdict(found: Iterable[Line], sent: Mapping[int, int]) -> Verdict:
    """`found`: all lines in order. `sent`: number of entries, by partition."""
    first: dict[tuple[int, int], int] = {}
    taken: defaultdict[tuple[int, int], list[Line]] = defaultdict(list)
    reached: defaultdict[int, int] = defaultdict(int)
    known: defaultdict[int, int] = defaultdict(int)
    granting: defaultdict[int, int] = defaultdict(int)
    newest: defaultdict[int, int] = defaultdict(int)
    confirmed: defaultdict[int, int] = defaultdict(int)
    overtaken, unmarked, undone = [], [], []
    for line in found:
        number = line.partition
        if line.what == "granting":
            granting[number] = line.epoch
            continue
        if line.what == "taken":
            taken[number, line.epoch].append(line)
            confirmed[number] = max(confirmed[number], line.offset)
            continue
        first.setdefault((number, line.epoch), line.offset)
        rightful = line.epoch >= newest[number]
        if not rightful:
            continue
        newest[number] = line.epoch
        if line.offset < confirmed[number]:
            undone.append(line)
        if line.offset < known[number] and not line.redelivered:
            unmarked.append(line)
        if line.offset > reached[number]:
            overtaken.append(line)
        reached[number] = max(reached[number], line.offset + 1)
        if line.epoch >= granting[number]:
            known[number] = max(known[number], line.offset + 1)
    stale = [
        line
        for (number, epoch), those in taken.items()
        for line in those
        if any(line.offset > begun for (other, later), begun in first.items() if other == number and later > epoch)
    ]
    lost = {number: count - reached[number] for number, count in sent.items() if reached[number] < count}
    return Verdict(stale, lost, overtaken, unmarked, undone)


class OutputVerdict(NamedTuple):
    """Faults of committed outputs; all empty: none."""

    lost: dict[int, int]
    """Number of entries without an output, by partition."""
    twice: list[str]
    overtaken: list[str]
    """Outputs behind one of a later entry."""


def output_verdict(outputs: Iterable[str], sent: Mapping[int, int]) -> OutputVerdict:
    """`outputs`: `partition offset`, in order for each partition. `sent`: number of entries, by partition."""
    seen: defaultdict[int, set[int]] = defaultdict(set)
    latest: defaultdict[int, int] = defaultdict(lambda: -1)
    twice, overtaken = [], []
    for output in outputs:
        number, offset = map(int, output.split())
        if offset in seen[number]:
            twice.append(output)
        elif offset < latest[number]:
            overtaken.append(output)
        seen[number].add(offset)
        latest[number] = max(latest[number], offset)
    lost = {number: count - len(seen[number]) for number, count in sent.items() if len(seen[number]) < count}
    return OutputVerdict(lost, twice, overtaken)
