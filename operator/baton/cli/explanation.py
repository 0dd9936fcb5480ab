"""A comparison on one screen of a hundred columns, whatever the size of the group."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from textwrap import wrap

from rich.console import RenderableType
from rich.text import Text

from baton.cli.comparison import Comparison, MemberChange
from baton.cli.printing import printable, table
from baton.engine.partition_text import write_numbers
from baton.model.ids import MemberId, Partition
from baton.model.wording import counted

WIDTH = 100
MOST_ROWS = 20
"""Of members, and of queues. A group of no more is shown whole; of a larger one, those that change most."""
LONGEST_NAME = 40
LEAST_CELL = len("10,000 partitions")


def explanation(of: Comparison) -> Iterator[RenderableType]:
    """The parts of the text, in order."""
    said = [("bold", _title(of)), *(("" if good else "yellow", sentence) for good, sentence in sentences(of))]
    yield from (Text(printable(line), style) for style, sentence in said for line in wrap(sentence, WIDTH))
    if len(of.request.queues) > 1:
        yield ""
        yield from _queues(of)
    if of.changes:
        yield ""
        yield from _members(of)


def sentences(of: Comparison) -> Iterator[tuple[bool, str]]:
    """What comes of it, in words, each with whether that is as it should be."""
    yield True, _moves(of)
    yield from _balance(of)
    yield from ((False, note) for note in of.notes)


def _title(of: Comparison) -> str:
    before = {name for names in of.before.values() for name in names}
    new = sum(name not in before for name in of.request.members) if before else 0
    gone = len(before - of.request.members.keys())
    change = ", ".join(f"{count} {what}" for count, what in ((new, "without anything so far"), (gone, "gone")) if count)
    queues = "" if len(of.request.queues) == 1 else f" of {len(of.request.queues)} queues"
    who = f"{of.group} by {of.assignor}" if of.group else of.assignor
    return (
        f"{who}: {counted(of.partitions, 'partition')}{queues}, {counted(len(of.request.members), 'member')}"
        f"{f' ({change})' if change else ''}"
    )


def _moves(of: Comparison) -> str:
    first = sum(partition not in of.before for partition in of.after)
    fresh = f" {counted(first, 'partition gets', 'partitions get')} a first owner." if first else ""
    if of.moves == of.lower_bound == 0:
        return f"Nothing moves.{fresh}"
    moved = f"{counted(of.moves, 'partition moves', 'partitions move')}" if of.moves else "Nothing moves"
    if of.moves == of.lower_bound:
        return f"{moved}, the fewest after which members can be balanced.{fresh}"
    if of.moves > of.lower_bound:
        return f"{moved}; {of.lower_bound} would be enough for a balance (solace).{fresh}"
    return f"{moved}; a balance of totals and of each queue would take {of.lower_bound} (solace).{fresh}"


def _balance(of: Comparison) -> Iterator[tuple[bool, str]]:
    if not of.readers:
        yield False, "Nobody is there to own anything." if not of.request.members else "No member reads any of these queues."
        return
    if of.nobodys:
        yield False, f"To nobody: {_cell(of.nobodys, WIDTH - 12)}."
    if of.weighed:
        loads = of.loads(of.after.items())
        yield True, f"Loads for what members can carry: {_span(loads)}, after {_span(of.loads(of.owners_now()))}."
    yield _even(of)
    if of.zoned:
        then, now = of.elsewhere(of.after.items()), of.elsewhere(of.owners_now())
        yield then <= now, f"Away from their member's zone: {counted(then, 'partition')}, after {now}."
    for queue in sorted(of.exclusive):
        yield True, f"{queue} is Exclusive: one member has all of it."


def _even(of: Comparison) -> tuple[bool, str]:
    """Whether totals and queues are within one, and if not, why not."""
    low, high = min(of.totals.values()), max(of.totals.values())
    each = f"{low} each" if low == high else f"{low} or {high} each"
    if high - low <= 1:
        for queue in sorted(frozenset().union(*of.readers.values())):
            counts = of.of_queue(queue)
            if max(counts.values()) - min(counts.values()) > 1:
                return False, f"Balanced in total ({each}), but not within {queue}: {_span(counts)}."
        return True, f"Balanced: {each}."
    if of.as_even_as_can_be:
        return True, f"As even as the subscriptions allow: {_span(of.totals)}."
    why = " in number" if of.weighed else ""
    cure = "" if of.weighed else f"; solace would balance them with {counted(of.lower_bound, 'move')}"
    return False, f"Not balanced{why}: {_span(of.totals)}{cure}."


def _span(counts: Mapping[MemberId, int] | Mapping[MemberId, Fraction]) -> str:
    """`from 2 (b) to 4 (a)`"""
    if not counts:
        return "none"
    ranked = sorted(counts, key=lambda name: (counts[name], name))
    low, high = ranked[0], next(name for name in ranked if counts[name] == counts[ranked[-1]])
    if counts[low] == counts[high]:
        return f"{_number(counts[low])} each"
    return f"from {_number(counts[low])} ({_short(low, 24)}) to {_number(counts[high])} ({_short(high, 24)})"


def _queues(of: Comparison) -> Iterator[RenderableType]:
    rows = []
    queues = sorted(of.request.queues, key=lambda queue: (-of.moves_of(queue), queue))
    for queue in sorted(queues[:MOST_ROWS]):
        rows.append(
            (
                _short(queue, LONGEST_NAME),
                str(of.request.queues[queue]),
                _range(of.of_queue_now(queue)),
                _range(of.of_queue(queue)) if queue not in of.exclusive else str(of.request.queues[queue]),
                str(of.moves_of(queue)),
            )
        )
    yield table(("QUEUE", "PARTITIONS", "EACH NOW", "EACH THEN", "MOVE"), rows, right=("PARTITIONS", "MOVE"))
    if len(queues) > MOST_ROWS:
        rest = sum(of.moves_of(queue) for queue in queues[MOST_ROWS:])
        moving = counted(rest, "partition moves", "partitions move")
        yield Text(f"and {counted(len(queues) - MOST_ROWS, 'more queue')}, of which {moving}", "bright_black")


def _range(counts: Mapping[MemberId, int]) -> str:
    if not counts:
        return "-"
    low, high = min(counts.values()), max(counts.values())
    return str(low) if low == high else f"{low} to {high}"


def _members(of: Comparison) -> Iterator[RenderableType]:
    whole = len(of.changes) <= MOST_ROWS
    shown = of.changes if whole else [change for change in of.changes if change.size][:MOST_ROWS]
    shown = sorted(shown, key=lambda change: change.member)
    names = [_short(change.member, LONGEST_NAME) + ("" if change.there else " (gone)") for change in shown]
    loads = [of.loads(of.owners_now()), of.loads(of.after.items())] if of.weighed else []
    head = ["MEMBER", "NOW", "THEN", *(["LOAD NOW", "THEN"] if loads else [])]
    numbers = [
        [
            *(name, str(change.before), str(change.after) if change.there else "-"),
            *(_number(of_all[change.member]) if change.member in of_all else "-" for of_all in loads),
        ]
        for change, name in zip(shown, names, strict=True)
    ]
    room = WIDTH - sum(max(map(len, column)) + 2 for column in zip(head, *numbers, strict=True)) - 2
    cells = [(_gains(change, WIDTH), _cell(change.loses, WIDTH)) for change in shown]
    gains, loses = _share(room, max((len(one) for one, _ in cells), default=0), max((len(one) for _, one in cells), default=0))
    rows = [[*row, _gains(change, gains), _cell(change.loses, loses)] for row, change in zip(numbers, shown, strict=True)]
    yield table([*head, "GAINS", "LOSES"], rows, right=head[1:])
    if any(change.withheld for change in shown):
        yield Text("* once who holds it has let go", "bright_black")
    if not whole:
        changed = sum(change.size > 0 for change in of.changes)
        more = f"and {changed - len(shown):,} more that change; " if changed > len(shown) else ""
        yield Text(f"{more}{len(of.changes) - changed:,} of {counted(len(of.changes), 'member')} unchanged", "bright_black")


def _share(room: int, gains: int, loses: int) -> tuple[int, int]:
    """Of the room for both, what each needs, and what the other leaves over."""
    half = room // 2
    left = max(LEAST_CELL, min(gains, max(half, room - loses), room - LEAST_CELL))
    return left, room - left


def _gains(change: MemberChange, width: int) -> str:
    if not change.withheld:
        return _cell(change.gains, width)
    if not change.gains:
        return "*" + _cell(change.withheld, width - 1)
    first = _cell(change.gains, width // 2)
    return f"{first} *{_cell(change.withheld, width - len(first) - 2)}"


def _cell(partitions: Sequence[Partition], width: int) -> str:
    """`orders 0-3,7 returns 2`, cut with the number of all where there is no room for it."""
    words = " ".join(f"{queue} {numbers}" for queue, numbers in write_numbers(partitions).items())
    if len(words) <= width:
        return words
    count = f"… {len(partitions)} in all"
    kept = words[: max(0, width - len(count))]
    cut = kept.rpartition(",")[0] if "," in kept else kept.rstrip("0123456789- ")
    return f"{cut}{count}" if cut else counted(len(partitions), "partition")


def _short(name: str, width: int) -> str:
    """Pods are told apart by their ends."""
    if len(name) <= width:
        return name
    return f"{name[: width // 2 - 1]}…{name[-(width - width // 2) :]}"


def _number(value: Fraction | int) -> str:
    """Without needless digits."""
    return str(value) if value == int(value) else f"{float(value):.2f}"
