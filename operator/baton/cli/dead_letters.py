"""`baton dead-letters`: entries that were set aside, and what becomes of them."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from baton.cli.hinting import HintingGroup
from baton.cli.names import shown
from baton.cli.output_form import Form, output_option, say_object
from baton.cli.printing import console, need_redis, refuse, say
from baton.cli.queue_server import QueueServer, queue_options
from baton.model.wording import counted
from baton.queues.protocol import QueueUnreachable

if TYPE_CHECKING:
    from baton.queues.dead_letters import DeadLetters, LetterId, LetterLine, OpenDeadLetters

MOST = 1_000
"""Letters in a list."""


class _Letter(click.ParamType):  # type: ignore[type-arg] # it takes an argument only since click 8.4
    name = "letter"

    def convert(self, value: "str | LetterId", param: click.Parameter | None, ctx: click.Context | None) -> "LetterId":
        need_redis()
        from baton.queues.dead_letters import LetterId

        if isinstance(value, LetterId):
            return value
        try:
            return LetterId.read(value)
        except ValueError:
            self.fail(
                f"{shown(value)} is no dead letter such as 3/1795338000123-0: `baton dead-letters list` names them.", param, ctx
            )


_LETTER = _Letter()
_partition = click.option("--partition", type=click.IntRange(0), help="Only the dead letters of this partition.")
_all = click.option("--all", "everything", is_flag=True, help="All dead letters that there are when the command begins.")


@click.group("dead-letters", cls=HintingGroup)
def dead_letters() -> None:
    """List, show, send again or drop the dead letters of a Redis queue: entries that were set aside."""


@dead_letters.command("list")
@queue_options
@_partition
@click.option("--after", type=_LETTER, metavar="LETTER", help="Only the dead letters after this one.")
@click.option("--limit", type=click.IntRange(1, MOST), default=50, show_default=True, help="The most dead letters to list.")
@output_option()
def list_letters(server: QueueServer, partition: int | None, after: "LetterId | None", limit: int, form: Form) -> None:
    """List the dead letters of QUEUE, partition by partition, the oldest first."""
    from baton.cli.letter_view import letter_table, line_json

    with _letters(server) as letters:
        counts = _counts(letters, partition)
        found = _page(letters, counts, after, limit)
    following = str(found[limit - 1].letter) if len(found) > limit else None
    found = found[:limit]
    total = sum(counts.values())
    if form.for_programs:
        say_object({"queue": server.queue, "count": total, "letters": [line_json(one) for one in found], "next": following}, form)
        return
    of = f" of partition {partition}" if partition is not None else ""
    say(f"{server.queue} has {counted(total, 'dead letter')}{of}.")
    if found:
        console().print(letter_table(found))
    if following:
        say(f"There are more: --after {following}")


@dead_letters.command()
@queue_options
@click.argument("letter", type=_LETTER)
@click.option("--hex", "as_hex", is_flag=True, help="Show the value in hexadecimal, even if it is text.")
@click.option(
    "--save",
    "file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the value, byte for byte, into this file.",
)
@output_option()
def show(server: QueueServer, letter: "LetterId", as_hex: bool, file: Path | None, form: Form) -> None:
    """Show a dead letter, with its value."""
    from baton.cli.letter_view import letter_json, lines

    with _letters(server) as letters:
        found = letters.find(letter)
    if found is None:
        _refuse_unknown(server, letter)
    if file is not None:
        try:
            file.write_bytes(found.value)
        except OSError as error:
            refuse(f"{file}: {error.strerror}")
    if form.for_programs:
        say_object(letter_json(found), form)
        return
    for line in lines(found, as_hex=as_hex):
        say(line)


@dead_letters.command()
@queue_options
@click.argument("which", metavar="[LETTER...]", type=_LETTER, nargs=-1)
@_all
@_partition
def redrive(server: QueueServer, which: tuple["LetterId", ...], everything: bool, partition: int | None) -> None:
    """Send dead letters to the end of the queue again; each goes when the queue has it.

    They are sent as a producer sends, so that keys keep their partitions, in the order in which they died. It may be repeated
    when it was interrupted: within an hour nothing is sent twice. Ends with 1 where some could not be sent.
    """
    _one_of(which, everything, partition)
    sent = kept = missing = 0
    with _letters(server) as letters:
        try:
            for portion in _portions(letters, which, partition):
                done = letters.redrive(portion)
                sent, kept, missing = sent + done.sent, kept + done.kept, missing + done.missing
        except QueueUnreachable as problem:
            refuse(f"{counted(sent, 'dead letter')} sent again, then: {problem} Call it once more: nothing is sent twice")
    say(f"{server.queue}: {counted(sent, 'dead letter')} sent again")
    if kept:
        say(
            f"{counted(kept, 'dead letter')} stayed, which no producer of Baton sent: look (show), then drop",
            error=True,
        )
    if missing:
        say(
            f"of those that you named {counted(missing, 'dead letter is', 'dead letters are')} not there, or not any more",
            error=True,
        )
    if kept or missing:
        sys.exit(1)


@dead_letters.command()
@queue_options
@click.argument("which", metavar="[LETTER...]", type=_LETTER, nargs=-1)
@_all
@_partition
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def drop(server: QueueServer, which: tuple["LetterId", ...], everything: bool, partition: int | None, yes: bool) -> None:
    """Delete dead letters for good. Where one that is named is not there, none is deleted."""
    _one_of(which, everything, partition)
    dropped = 0
    with _letters(server) as letters:
        for letter in which:
            if letters.find(letter) is None:
                _refuse_unknown(server, letter)
        count = len(set(which)) or sum(_counts(letters, partition).values())
        if not yes and count:
            click.confirm(f"Delete {counted(count, 'dead letter')} of {server.queue} for good?", abort=True)
        for portion in _portions(letters, which, partition):
            dropped += letters.drop(portion)
    say(f"{server.queue}: {counted(dropped, 'dead letter')} deleted")


def _refuse_unknown(server: QueueServer, letter: "LetterId") -> NoReturn:
    refuse(f"{server.queue} has no dead letter {letter}, or not any more: `baton dead-letters list` names those that there are")


@contextmanager
def _letters(server: QueueServer) -> "Iterator[DeadLetters]":
    from baton.queues.kind import load

    if server.kind.dead_letters is None:
        refuse(f"{server.queue} has no dead letters: queues of type {server.kind.name} keep none")
    open_letters: OpenDeadLetters = load(server.kind.dead_letters)
    try:
        with closing(open_letters(server.url, server.queue, server.stands_in)) as letters:
            letters.counts()
            yield letters
    except QueueUnreachable as problem:
        refuse(str(problem))


def _counts(letters: "DeadLetters", partition: int | None) -> dict[int, int]:
    counts = letters.counts()
    if partition is None:
        return counts
    if partition not in counts:
        refuse(f"there is no partition {partition}: the queue has 0 to {len(counts) - 1}")
    return {partition: counts[partition]}


def _page(letters: "DeadLetters", counts: dict[int, int], after: "LetterId | None", limit: int) -> "list[LetterLine]":
    """One more than the limit, if there are."""
    found: list[LetterLine] = []
    for partition, count in counts.items():
        if not count or (after is not None and partition < after.partition):
            continue
        behind = after if after is not None and after.partition == partition else None
        while len(found) <= limit and (page := letters.page(partition, behind, limit + 1 - len(found))):
            found += page
            behind = page[-1].letter
    return found


def _one_of(which: "Iterable[LetterId]", everything: bool, partition: int | None) -> None:
    if bool(which) == everything:
        raise click.UsageError("name the letters, such as 3/1795338000123-0, or give --all")
    if which and partition is not None:
        raise click.UsageError("--partition is for --all: a letter's name has its partition")


def _portions(letters: "DeadLetters", which: "tuple[LetterId, ...]", partition: int | None) -> "Iterator[list[LetterId]]":
    """Those that are named, in the order in which they died; or all, so that those that die meanwhile are not among them."""
    if which:
        yield from ([one] for one in sorted(set(which), key=lambda one: one.died()))
        return
    now = letters.until_now()
    for number, count in _counts(letters, partition).items():
        if count:
            for page in letters.every(number, now):
                yield from letters.portions(page)
