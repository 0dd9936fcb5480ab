"""`baton send`, `baton peek` and `baton tail`: send entries by hand, and show entries without taking them."""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial, wraps
from itertools import islice
from os import fsencode
from typing import IO, Any, TypeVar, cast

import click

from baton.cli.cluster import ask
from baton.cli.dead_letters import KEY, LINE, WHY, cut, has_no_server, moment, resource, shown, text_of, within_server
from baton.cli.options import KAFKA_URL, OFFSET, QUEUE, REDIS_URL, TOPIC, ClusterTarget, Parsed, bounded, cluster_options
from baton.cli.printing import refuse, say, say_json, waiting_for
from baton.controller.adapters import open_onlooker
from baton.kube.objects import group_view, groups_path
from baton.model.extras import MissingExtraError
from baton.model.wording import choose, counted, quoted
from baton.queues.entry import Entry
from baton.queues.kind import load
from baton.queues.kinds import kind
from baton.queues.onlooker import Onlooker, OpenOnlooker
from baton.queues.opening import ServerAddress
from baton.queues.producer_side import Delivery, Producer, Sent
from baton.queues.protocol import QueueUnreachable

F = TypeVar("F", bound=Callable[..., object])
Opening = Callable[[], Coroutine[Any, Any, tuple[str, Onlooker]]]


def onlooker_options(command: F) -> F:
    """Add QUEUE and the options of its server and of the cluster. The command gets `opened`, a context manager with the name of
    the queue or topic and its Onlooker."""

    def url(name: str, what: Parsed) -> Callable[[Callable[..., object]], Callable[..., object]]:
        variable, said = f"BATON_{name.upper()}_URL", f"The {name} server. Default: the one in the queue's spec."
        return click.option(f"--{name.lower()}-url", type=what, envvar=variable, show_envvar=True, help=said)

    @click.argument("queue", type=QUEUE)
    @url("Redis", REDIS_URL)
    @url("Kafka", KAFKA_URL)
    @click.option("--topic", type=TOPIC, help="The topic, with --kafka-url. Default: the queue's name.")
    @cluster_options
    @wraps(command)
    def with_onlooker(
        *args: object,
        queue: str,
        redis_url: str | None,
        kafka_url: str | None,
        topic: str | None,
        target: ClusterTarget,
        **rest: object,
    ) -> object:
        if redis_url is not None and kafka_url is not None:
            raise click.UsageError("use one server: --redis-url (BATON_REDIS_URL) or --kafka-url (BATON_KAFKA_URL)")
        if topic is not None and kafka_url is None:
            raise click.UsageError("--topic needs --kafka-url")
        opened: Opening
        if redis_url is not None:
            opened = partial(_at, "Redis", redis_url, within_server(queue, target))
        elif kafka_url is not None:
            opened = partial(_at, "Kafka", kafka_url, topic or queue.rpartition("/")[2])
        else:
            opened = partial(_of_resource, *target.within(queue))
        return command(*args, opened=_opened(opened), **rest)

    return cast(F, with_onlooker)


async def _at(name: str, url: str, queue: str) -> tuple[str, Onlooker]:
    """Open a queue at a server given by its URL."""
    of = kind(name)
    assert of.onlooker is not None
    open_queue: OpenOnlooker = load(of.onlooker)
    return queue, await open_queue(ServerAddress(url, f"--{name.lower()}-url or {of.variable}"), queue)


async def _of_resource(name: str, target: ClusterTarget) -> tuple[str, Onlooker]:
    async with resource(name, target) as (api, queue, source):
        group = None
        if source.keeps_finished:  # then only the group knows which entries are finished
            groups = map(group_view, (await api.get(groups_path(queue.namespace)))["items"])
            readers = (one for one in groups if one.spec is not None and name in [each.name for each in one.spec.queues])
            group = next((one.full_name for one in readers), None)
        found = await open_onlooker(api, queue, group)
        if found is None:
            raise has_no_server(queue, source)
        return queue.full_name, found


@contextmanager
def _opened(opening: Opening) -> Iterator[tuple[str, Onlooker]]:
    """Open the queue; end the command with a line if its server fails or a library is missing."""
    try:
        queue, onlooker = ask(opening())
        with closing(onlooker):
            yield queue, onlooker
    except (QueueUnreachable, ValueError, MissingExtraError) as problem:
        refuse(str(problem))


# -- Showing entries


def entry_line(entry: Entry) -> str:
    """An entry for people: the beginnings of its parts, without missing parts."""
    parts = [f"{entry.partition}/{entry.offset}", moment(entry.timestamp)]
    parts += [cut(shown(entry.key), KEY) if entry.key else "-"]
    parts += [cut(f"{name}={shown(value or b'')}", WHY) for name, value in entry.headers.items()]
    return "  ".join([*parts, cut(shown(entry.value), LINE) if entry.value is not None else "(deleted)"])


def entry_json(entry: Entry) -> dict[str, object]:
    """A whole entry for programs and for `baton send --file`, in base64 where it is not text."""
    parts, encoded = _texts({"key": entry.key, "value": entry.value})
    headers, encoded_headers = _texts(entry.headers)
    return {
        "partition": entry.partition,
        "offset": entry.offset,
        "timestamp": entry.timestamp,
        **parts,
        **{f"{name}Base64": value for name, value in encoded.items()},
        "headers": headers,
        **({"headersBase64": encoded_headers} if encoded_headers else {}),
    }


def _texts(given: Mapping[str, bytes | None]) -> tuple[dict[str, str | None], dict[str, str]]:
    """The values that are texts or None, and the others in base64."""
    texts = {name: None if value is None else text_of(value) for name, value in given.items()}
    encoded = {name: b64encode(value).decode() for name, value in given.items() if value is not None and texts[name] is None}
    return {name: text for name, text in texts.items() if name not in encoded}, encoded


def _show(entry: Entry, form: str | None) -> None:
    if form is None:
        say(entry_line(entry))
    else:
        say_json(entry_json(entry))


# -- Reading entries

Given = tuple[bytes | str | None, bytes | str, Mapping[str, bytes | str]]
_AT_ONCE = 500
_FIELDS = ("key", "value", "headers", "keyBase64", "valueBase64", "headersBase64", "partition", "offset", "timestamp")
"""The fields of a line. The last three are written by `baton peek` and ignored."""


def given(line: str) -> Given:
    """Read an entry from a line of JSON. Raises ValueError."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError('not JSON: write an object such as {"key": "a", "value": "b"}') from None
    if not isinstance(found, dict):
        raise ValueError('not an object such as {"key": "a", "value": "b"}')
    for name in found:
        if name not in _FIELDS:
            raise ValueError(f"an entry has no field {quoted(name)}; {choose(name, _FIELDS)}")
    headers, encoded = found.get("headers") or {}, found.get("headersBase64") or {}
    if not isinstance(headers, dict) or not isinstance(encoded, dict):
        raise ValueError("the headers are not an object")
    key, value = (_bytes(found.get(name), found.get(f"{name}Base64"), name) for name in ("key", "value"))
    if value is None:
        raise ValueError("the value is missing: add value or valueBase64")
    named = {name: _bytes(headers.get(name), encoded.get(name), f"the header {quoted(name)}") for name in headers | encoded}
    return key, value, {name: each for name, each in named.items() if each is not None}


def _bytes(text: object, encoded: object, name: str) -> bytes | None:
    """The bytes of a text, or of base64; None: there is neither."""
    given = text if encoded is None else encoded
    if given is None:
        return None
    if not isinstance(given, str) or (text is not None and encoded is not None):
        raise ValueError(f"{name} is not text, or is given twice")
    try:
        return given.encode() if encoded is None else b64decode(given, validate=True)
    except ValueError:
        raise ValueError(f"{name} is not {'text in UTF-8' if encoded is None else 'base64'}") from None


def _portions(lines: Iterable[str]) -> Iterator[list[Given]]:
    """Entries of the lines, in portions. Raises ValueError for an unreadable line, after the portion before it."""
    portion: list[Given] = []
    for number, line in enumerate(lines, 1):
        try:
            portion += [given(line)] if line.strip() else []
        except ValueError as problem:
            yield portion
            raise ValueError(f"line {number}: {problem}") from None
        if len(portion) == _AT_ONCE:
            yield portion
            portion = []
    yield portion


def _header(value: str) -> tuple[str, str]:
    name, equals, text = value.partition("=")
    if not name or not equals:
        raise ValueError("not a header such as trace=abc")
    return name, text


def _as_typed(key: str | None, value: str, headers: Sequence[tuple[str, str]]) -> Given:
    """An entry in the bytes of the command line, which need not be text."""
    return key if key is None else fsencode(key), fsencode(value), {name: fsencode(text) for name, text in headers}


def _sent(producer: Producer, portion: Iterable[Given], partition: int | None) -> Iterator[Sent]:
    """Send entries up to the first one that the producer refuses. Yields those that were sent, then raises the first failure."""
    deliveries, refusal = list[Delivery](), None
    try:
        for each in portion:
            deliveries.append(producer.produce(*each, partition=partition))
    except (QueueUnreachable, ValueError) as problem:
        refusal = problem
    failures = [one.exception() for one in deliveries]
    yield from (one.result() for one, failure in zip(deliveries, failures, strict=True) if failure is None)
    for failure in (*failures, refusal):
        if failure is not None:
            raise failure


# -- Commands

_HEADER = Parsed("header", _header)
_LINES = click.File(encoding="utf-8", errors="surrogateescape")
"""Read lines that are not UTF-8, too: each is refused with its number."""
_output = click.option(
    "--output", "-o", "form", type=click.Choice(["json"]), help="For programs: json, an object for each entry."
)


@click.command()
@onlooker_options
@click.argument("value", required=False)
@click.option("--file", type=_LINES, help="Send the lines of JSON in this file; -: standard input.")
@click.option("--key", help="The entry's key. Default: none.")
@click.option("--header", "headers", type=_HEADER, metavar="NAME=VALUE", multiple=True, help="A header; repeatable.")
@click.option("--partition", type=bounded(0), help="Send to this partition, whatever the key.")
def send(
    opened: Any,
    value: str | None,
    file: IO[str] | None,
    key: str | None,
    headers: Sequence[tuple[str, str]],
    partition: int | None,
) -> None:
    """Send VALUE to QUEUE, or the entries of a file, one per line: {"key": "a", "value": "b", "headers": {"c": "d"}}.

    Bytes that are not text go into keyBase64, valueBase64 and headersBase64, as in the output of `baton peek -o json`. Exits with
    1 at the first unreadable line, after sending those before it.
    """
    if (value is None) == (file is None):
        raise click.UsageError("use VALUE or --file")
    if file is not None and (key is not None or headers):
        raise click.UsageError("--key and --header are for VALUE: the lines of --file have their own")
    portions = _portions(file) if file is not None else [[_as_typed(key, value or "", headers)]]
    count = 0
    with opened as (queue, onlooker), onlooker.producer() as producer:
        try:
            for portion in portions:
                with waiting_for(f"the server of {queue}"):
                    for one in _sent(producer, portion, partition):
                        sent, count = one, count + 1
        except (QueueUnreachable, ValueError) as problem:
            refuse(f"{counted(count, 'entry', 'entries')} sent, then: {problem}")
        if file is not None:
            say(f"{queue}: {counted(count, 'entry', 'entries')} sent")
        else:
            say(f"{queue}: sent to partition {sent.partition}" + ("" if sent.offset is None else f" at offset {sent.offset}"))


@click.command()
@onlooker_options
@click.option("--partition", type=bounded(0), required=True, help="The partition.")
@click.option("--offset", type=OFFSET, help="Start at this offset. Default: the oldest unfinished entry.")
@click.option("--limit", type=bounded(1), default=10, show_default=True, help="Show at most this many entries.")
@_output
def peek(opened: Any, partition: int, offset: str | None, limit: int, form: str | None) -> None:
    """Show the oldest unfinished entries of a partition of QUEUE without taking them, including entries in work.

    One line for each entry: partition/offset, time, key, headers, and the beginning of the value.
    """
    with opened as (queue, onlooker):
        if partition >= (count := _partitions(queue, onlooker)):
            refuse(f"there is no partition {partition}: {queue} has 0 to {count - 1}")
        for entry in islice(onlooker.peek(partition, offset), limit):
            _show(entry, form)


@click.command()
@onlooker_options
@_output
def tail(opened: Any, form: str | None) -> None:
    """Show new entries in all partitions of QUEUE, until Ctrl-C, without taking them.

    One line for each entry, like `baton peek`. A Redis queue deletes finished entries, so an entry finished within 0.2 s may be
    missed.
    """
    begun = False
    with suppress(KeyboardInterrupt), opened as (queue, onlooker):
        count = _partitions(queue, onlooker)
        for entry in onlooker.tail():
            if entry is not None:
                _show(entry, form)
            elif not begun:
                begun = True
                say(f"{queue}: showing new entries of {counted(count, 'partition')}; Ctrl-C ends", error=True)


def _partitions(queue: str, onlooker: Onlooker) -> int:
    with waiting_for(f"the server of {queue}"):
        return onlooker.partitions()
