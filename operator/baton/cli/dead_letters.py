"""`baton dead-letters`: list, show, send again or drop dead letters."""

import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, closing, contextmanager
from functools import wraps
from pathlib import Path
from typing import NoReturn, TypeVar, cast

import click
from rich.table import Table

from baton.cli.cluster import NoAnswerError, ask, cluster, namespace_of
from baton.cli.main import HintingGroup
from baton.cli.options import QUEUE, REDIS_URL, ClusterTarget, Form, Parsed, bounded, cluster_options, output_option, say_object
from baton.cli.printing import agree, console, need_redis, refuse, say, table, waiting_for
from baton.controller.adapters import SecretForbidden, queue_address
from baton.kube.api import Api
from baton.kube.errors import NotFoundError
from baton.kube.objects import QueueView, queue_view, queues_path
from baton.model.times import to_text
from baton.model.wording import counted
from baton.queues.dead_letters import DeadLetters, Letter, LetterId, LetterLine, OpenDeadLetters
from baton.queues.kind import QueueKind, load
from baton.queues.kinds import kind
from baton.queues.opening import ServerAddress
from baton.queues.protocol import QueueUnreachable

F = TypeVar("F", bound=Callable[..., object])
Opened = AbstractContextManager[tuple[str, DeadLetters]]

VARIABLE = "BATON_REDIS_URL"


def queue_options(command: F) -> F:
    """Add QUEUE, --redis-url and the cluster's options. The command gets `opened`, a context manager with the queue's name and
    its dead letters."""

    @click.argument("queue", type=QUEUE)
    @click.option(
        "--redis-url",
        type=REDIS_URL,
        envvar=VARIABLE,
        show_envvar=True,
        help="The queue's server. Default: the one in the queue's spec.source.redis.",
    )
    @cluster_options
    @wraps(command)
    def with_letters(*args: object, queue: str, redis_url: str | None, target: ClusterTarget, **rest: object) -> object:
        need_redis()
        return command(*args, opened=_opened(queue, redis_url, target), **rest)

    return cast(F, with_letters)


@contextmanager
def _opened(queue: str, url: str | None, target: ClusterTarget) -> Iterator[tuple[str, DeadLetters]]:
    """Open the dead letters at the URL, or (None) of the resource; end the command with a line if their server fails."""
    if url is None:
        name, address, source = ask(_of_resource(*target.within(queue)))
    else:
        name, address, source = within_server(queue, target), ServerAddress(url, f"--redis-url or {VARIABLE}"), kind("Redis")
    if source.dead_letters is None:
        refuse(f"{name} has no dead letters: Baton keeps none for queues of type {source.name}")
    open_letters: OpenDeadLetters = load(source.dead_letters)
    try:
        with closing(open_letters(address.text, name, address.stands_in)) as letters:
            with waiting_for(f"the server of {name}"):
                letters.counts()
            yield name, letters
    except QueueUnreachable as problem:
        refuse(str(problem))


def within_server(queue: str, target: ClusterTarget) -> str:
    """The queue's namespace/name at a server given by its URL, without access to the cluster."""
    name, target = target.within(queue)
    try:
        return f"{namespace_of(target)}/{name}"
    except NoAnswerError:
        raise click.UsageError(f"a server has queues of many namespaces: use NAMESPACE/{name} or -n NAMESPACE") from None


async def _of_resource(name: str, target: ClusterTarget) -> tuple[str, ServerAddress, QueueKind]:
    async with resource(name, target) as (api, queue, kind):
        address = await queue_address(api, queue)
        if address is None:
            raise has_no_server(queue, kind)
        return queue.full_name, address, kind


@asynccontextmanager
async def resource(name: str, target: ClusterTarget) -> AsyncIterator[tuple[Api, QueueView, QueueKind]]:
    """Read a PartitionedQueue whose spec is valid. Raises NoAnswerError, also for errors of its server in the block."""
    async with cluster(target) as (api, where):
        try:
            queue = queue_view(await api.get(queues_path(where, name)))
        except NotFoundError:
            raise NoAnswerError(
                f"there is no PartitionedQueue {where}/{name}: kubectl get partitionedqueues -A lists them; "
                "without a cluster use --redis-url"
            ) from None
        if queue.spec is None:
            raise NoAnswerError(f"PartitionedQueue {queue.full_name}: {queue.problem}")
        source = queue.spec.source.kind
        try:
            yield api, queue, source
        except SecretForbidden:
            raise NoAnswerError(
                f"you may not read the Secret that spec.source.{source.field} of {queue.full_name} names: put the URL into "
                f"{source.variable}, or ask for the verb get on that Secret"
            ) from None
        except QueueUnreachable as problem:
            raise NoAnswerError(str(problem)) from None


def has_no_server(queue: QueueView, kind: QueueKind) -> NoAnswerError:
    """The error for a queue without a server that Baton can reach."""
    return NoAnswerError(f"PartitionedQueue {queue.full_name} has no server to ask: its spec.source.type is {kind.name}")


MOST_SHOWN = 4_096
"""The most bytes of a value shown for people."""
KEY, WHY = 32, 80
"""The most characters of a key and of a reason in a list."""
LINE = 1_000
"""The most characters of a line about one letter or entry."""
_ROW = 16


def letter_table(lines: Sequence[LetterLine]) -> Table:
    """A table for people with a row for each dead letter."""
    rows = (
        (
            one.letter,
            one.offset,
            cut(shown(one.key), KEY),
            "?" if one.deliveries is None else f"{one.deliveries:,}",
            f"{one.size:,}",
            _died(one),
            cut(one.why, WHY),
        )
        for one in lines
    )
    return table(("LETTER", "OFFSET", "KEY", "TRIES", "BYTES", "DIED", "WHY"), rows, right=("TRIES", "BYTES"))


def line_json(one: LetterLine) -> dict[str, object]:
    """A dead letter without its value, for programs."""
    return {
        "letter": str(one.letter),
        "partition": one.letter.partition,
        "offset": one.offset,
        "key": one.key.decode(errors="replace"),
        "keySize": one.key_size,
        "size": one.size,
        "timestamp": one.timestamp,
        "deliveries": one.deliveries,
        "why": one.why,
    }


def lines(one: Letter, *, as_hex: bool) -> Iterator[str]:
    """A dead letter for people, with the beginning of its value."""
    yield f"letter      {one.letter}"
    yield f"offset      {one.offset}"
    yield f"key         {cut(shown(one.key), LINE)}"
    sent = "not by a producer of Baton, so it cannot be sent again" if one.timestamp is None else moment(one.timestamp)
    yield f"sent        {sent}"
    yield f"died        {_died(one)}"
    yield f"deliveries  {'?' if one.deliveries is None else one.deliveries}"
    yield f"why         {cut(one.why, LINE)}"
    for name, value in one.headers.items():
        yield f"header      {cut(f'{name}: {shown(value)}', LINE)}"
    text = None if as_hex else readable(one.value)
    yield f"value       {counted(len(one.value), 'byte')}, {'in hexadecimal' if text is None else 'text'}"
    yield from _dump(one.value[:MOST_SHOWN]) if text is None else text[:MOST_SHOWN].split("\n")
    if len(one.value if text is None else text) > MOST_SHOWN:
        yield "… truncated; --save FILE writes the whole value"


def letter_json(one: Letter) -> dict[str, object]:
    """A dead letter for programs: texts where the bytes are UTF-8, and always the bytes in base64."""
    return {
        "letter": str(one.letter),
        "partition": one.letter.partition,
        "offset": one.offset,
        "key": text_of(one.key),
        "keyBase64": b64encode(one.key).decode(),
        "value": text_of(one.value),
        "valueBase64": b64encode(one.value).decode(),
        "headers": {name: text_of(value) for name, value in one.headers.items()},
        "headersBase64": {name: b64encode(value).decode() for name, value in one.headers.items()},
        "timestamp": one.timestamp,
        "deliveries": one.deliveries,
        "why": one.why,
    }


def readable(value: bytes) -> str | None:
    """The value as a text, if a terminal can show it unchanged; else None."""
    text = text_of(value)
    return text if text is not None and all(char.isprintable() or char in "\n\t" for char in text) else None


def text_of(value: bytes) -> str | None:
    """The value as a text if it is UTF-8, else None."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def shown(value: bytes) -> str:
    """The value on one line."""
    text = readable(value)
    return repr(value)[1:] if text is None or "\n" in text else text


def _dump(value: bytes) -> Iterator[str]:
    for begin in range(0, len(value), _ROW):
        row = value[begin : begin + _ROW]
        seen = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        yield f"{begin:08x}  {row.hex(' '):<{3 * _ROW}} {seen}"


def _died(one: LetterLine | Letter) -> str:
    """When the letter was set aside: its id begins with the time."""
    return moment(one.letter.died()[0])


def moment(milliseconds: int) -> str:
    """A queue's timestamp in ISO format."""
    try:
        return to_text(milliseconds / 1000)
    except (ValueError, OverflowError, OSError):
        return "?"


def cut(text: str, most: int) -> str:
    """The text, cut to `most` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


MOST = 1_000
"""The most letters in a list."""


def _letter(value: str) -> LetterId:
    try:
        return LetterId.read(value)
    except ValueError:
        raise ValueError("not a dead letter such as 3/1795338000123-0: `baton dead-letters list` lists them") from None


_LETTER = Parsed("letter", _letter)
_partition = click.option("--partition", type=bounded(0), help="Only the dead letters of this partition.")
_all = click.option("--all", "everything", is_flag=True, help="All dead letters present when the command starts.")


@click.group("dead-letters", cls=HintingGroup)
def dead_letters() -> None:
    """List, show, send again or drop dead letters: entries of a Redis queue that were set aside."""


@dead_letters.command("list")
@queue_options
@_partition
@click.option("--after", type=_LETTER, metavar="LETTER", help="Only dead letters after this one.")
@click.option("--limit", type=bounded(1, MOST), default=50, show_default=True, help="List at most this many dead letters.")
@output_option()
def list_letters(opened: Opened, partition: int | None, after: LetterId | None, limit: int, form: Form) -> None:
    """List the dead letters of QUEUE by partition, the oldest first."""
    with opened as (queue, letters):
        counts = _counts(letters, partition)
        found = _page(letters, counts, after, limit)
    following = str(found[limit - 1].letter) if len(found) > limit else None
    found = found[:limit]
    total = sum(counts.values())
    if form.for_programs:
        say_object({"queue": queue, "count": total, "letters": [line_json(one) for one in found], "next": following}, form)
        return
    of = f" of partition {partition}" if partition is not None else ""
    say(f"{queue} has {counted(total, 'dead letter')}{of}.")
    if found:
        console().print(letter_table(found))
    if following:
        say(f"More with --after {following}")


@dead_letters.command()
@queue_options
@click.argument("letter", type=_LETTER)
@click.option("--hex", "as_hex", is_flag=True, help="Show the value in hexadecimal, even if it is text.")
@click.option(
    "--save",
    "file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the unchanged value to this file.",
)
@output_option()
def show(opened: Opened, letter: LetterId, as_hex: bool, file: Path | None, form: Form) -> None:
    """Show a dead letter, with its value."""
    with opened as (queue, letters):
        found = letters.find(letter)
    if found is None:
        _refuse_unknown(queue, letter)
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
def redrive(opened: Opened, which: tuple[LetterId, ...], everything: bool, partition: int | None) -> None:
    """Send dead letters to the end of the queue again. Each is deleted once the queue has the entry.

    Entries are sent like a producer's, so keys keep their partitions, in the order in which they became dead letters. Safe to
    repeat after an interruption: within an hour nothing is sent twice. Exits with 1 if some could not be sent.
    """
    _one_of(which, everything, partition)
    sent = kept = missing = 0
    with opened as (queue, letters):
        try:
            for portion in _portions(letters, which, partition):
                done = letters.redrive(portion)
                sent, kept, missing = sent + done.sent, kept + done.kept, missing + done.missing
        except QueueUnreachable as problem:
            refuse(f"{counted(sent, 'dead letter')} sent again, then: {problem} Run the command again: nothing is sent twice")
    say(f"{queue}: {counted(sent, 'dead letter')} sent again")
    if kept:
        say(
            f"{counted(kept, 'dead letter')} not sent again, because no producer of Baton sent them: inspect (show), then drop",
            error=True,
        )
    if missing:
        say(
            f"{counted(missing, 'dead letter')} not found: sent again or dropped already, or never there",
            error=True,
        )
    if kept or missing:
        sys.exit(1)


@dead_letters.command()
@queue_options
@click.argument("which", metavar="[LETTER...]", type=_LETTER, nargs=-1)
@_all
@_partition
@click.option("--yes", "-y", is_flag=True, help="Skip the confirmation.")
def drop(opened: Opened, which: tuple[LetterId, ...], everything: bool, partition: int | None, yes: bool) -> None:
    """Delete dead letters permanently. If a named one does not exist, none is deleted."""
    _one_of(which, everything, partition)
    dropped = 0
    with opened as (queue, letters):
        for letter in which:
            if letters.find(letter) is None:
                _refuse_unknown(queue, letter)
        count = len(set(which)) or sum(_counts(letters, partition).values())
        if not yes and count:
            agree(f"Permanently delete {counted(count, 'dead letter')} of {queue}?")
        for portion in _portions(letters, which, partition):
            dropped += letters.drop(portion)
    say(f"{queue}: {counted(dropped, 'dead letter')} deleted")


def _refuse_unknown(queue: str, letter: LetterId) -> NoReturn:
    refuse(f"{queue} has no dead letter {letter}: `baton dead-letters list` lists them")


def _counts(letters: DeadLetters, partition: int | None) -> dict[int, int]:
    counts = letters.counts()
    if partition is None:
        return counts
    if partition not in counts:
        refuse(f"there is no partition {partition}: the queue has 0 to {len(counts) - 1}")
    return {partition: counts[partition]}


def _page(letters: DeadLetters, counts: dict[int, int], after: LetterId | None, limit: int) -> list[LetterLine]:
    """The dead letters after `after`: up to one more than the limit."""
    found: list[LetterLine] = []
    for partition, count in counts.items():
        if not count or (after is not None and partition < after.partition):
            continue
        behind = after if after is not None and after.partition == partition else None
        while len(found) <= limit and (page := letters.page(partition, behind, limit + 1 - len(found))):
            found += page
            behind = page[-1].letter
    return found


def _one_of(which: Iterable[LetterId], everything: bool, partition: int | None) -> None:
    if bool(which) == everything:
        raise click.UsageError("name the letters, such as 3/1795338000123-0, or use --all")
    if which and partition is not None:
        raise click.UsageError("--partition is for --all: the name of a letter contains its partition")


def _portions(letters: DeadLetters, which: tuple[LetterId, ...], partition: int | None) -> Iterator[list[LetterId]]:
    """The named letters in the order in which they died; or all letters, except those that die after the start."""
    if which:
        yield from ([one] for one in sorted(set(which), key=lambda one: one.died()))
        return
    now = letters.until_now()
    for number, count in _counts(letters, partition).items():
        if count:
            for page in letters.every(number, now):
                yield from letters.portions(page)
