"""`baton plan`: who would own what, for programs in JSON Lines, and for people with the reasons."""

import json
import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, BinaryIO

import click

from baton.assignors.fields import RequestError
from baton.cli.cluster_target import ClusterTarget, cluster_options
from baton.cli.names import GROUP, OBJECT, WORD, shown
from baton.cli.own_assignors import use_own_assignors
from baton.cli.plan_answer import answer_line, planned
from baton.cli.plan_request import MOST_PARTITIONS
from baton.cli.printing import console, say, say_json

if TYPE_CHECKING:
    from baton.cli.comparison import Comparison
    from baton.cli.rehearsal import WhatIf

MOST_ADDED = 10_000


def _counts(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for value in values:
        queue, _, count = value.rpartition("=")
        if not queue or not (count.isascii() and count.isdigit()) or len(count) > 7 or int(count) > MOST_PARTITIONS:
            raise click.BadParameter(
                f"{shown(value)} is not QUEUE=COUNT, such as orders=16, with a count up to {MOST_PARTITIONS}"
            )
        counts[OBJECT.convert(queue, parameter, context)] = int(count)
    return counts


@click.command()
@click.option(
    "--request",
    "file",
    type=click.File("rb"),
    metavar="FILE",
    help="Read the requests from FILE ('-': standard input): one per line, or a single request over several lines.",
)
@click.option("--explain", is_flag=True, help="Explain to people who gains and loses what, and whether the moves are worth it.")
@click.option(
    "--group",
    type=GROUP,
    metavar="GROUP",
    help="With --explain: read this live ConsumerGroup (NAME or NAMESPACE/NAME), and change nothing.",
)
@click.option("--assignor", type=WORD, metavar="NAME", help="With --group: plan with this assignor.")
@click.option("--add", type=click.IntRange(0, MOST_ADDED), default=0, metavar="N", help="With --group: plan for N more pods.")
@click.option("--remove", type=WORD, multiple=True, metavar="POD", help="With --group: plan without this pod; may be repeated.")
@click.option(
    "--partitions",
    multiple=True,
    metavar="QUEUE=COUNT",
    callback=_counts,
    help="With --group: plan with COUNT partitions of QUEUE; may be repeated.",
)
@cluster_options
def plan(
    file: BinaryIO | None,
    explain: bool,
    group: str | None,
    assignor: str | None,
    add: int,
    remove: tuple[str, ...],
    partitions: dict[str, int],
    target: ClusterTarget,
) -> None:
    """Answer assignment requests: one line of JSON in, one line of JSON out.

    Nothing is changed anywhere. A request names an assignor, the queues with their numbers of partitions, and the members with
    what they read and own now. The answer says who should own what, how many partitions move, and how many would have to at
    least. A request that cannot be answered gets {"error": "<field>: <what is wrong>"}, and the command then ends with status 1.

    With --explain the answer is for people; with --explain --group it is about a live ConsumerGroup, as it is or as it would be
    with other pods, partitions, or another assignor.
    """
    use_own_assignors()
    if group is None:
        if assignor or add or remove or partitions or target != ClusterTarget():
            raise click.UsageError(
                "--assignor, --add, --remove, --partitions, -n, --context and --kubeconfig go with --explain --group GROUP"
            )
        sys.exit(_answer(_requests(file), _explained if explain else _as_json))
    if not explain:
        raise click.UsageError("--group is for people: add --explain")
    if file is not None:
        raise click.UsageError("give --request or --group, not both")
    from baton.cli.rehearsal import WhatIf

    _live(group, target, WhatIf(assignor, add, remove, partitions))


def _answer(lines: Iterable[bytes], show: Callable[[int, bytes], bool]) -> bool:
    """Whether any line was refused."""
    refused = False
    for number, line in enumerate(lines):
        refused |= not show(number, line)
    return refused


def _as_json(_: int, line: bytes) -> bool:
    try:
        say_json(answer_line(line), separators=(",", ":"))
    except RequestError as error:
        say_json({"error": str(error)}, separators=(",", ":"))
        return False
    return True


def _explained(number: int, line: bytes) -> bool:
    from baton.cli.comparison import Comparison

    try:
        made = planned(line)
    except RequestError as error:
        say(f"baton plan: {error}", error=True)
        return False
    if number:
        say()
    withheld = frozenset(partition for hand in made.answer.withheld.values() for partition in hand)
    after = made.answer.owners()
    _print(Comparison(made.assignor, made.request, made.held, after, made.moves, made.lower_bound, withheld))
    return True


def _live(group: str, target: ClusterTarget, what_if: "WhatIf") -> None:
    from baton.assignors import UnknownAssignorError, get
    from baton.cli.cluster import ask, cluster
    from baton.cli.live_group import UnreadableError, observe
    from baton.cli.rehearsal import WhatIfError, compare

    name, target = target.within(group)

    async def work() -> None:
        async with cluster(target) as (api, where):
            state, seen = await observe(api, where, name)
        _print(await compare(f"{where}/{name}", state, seen, what_if, time.time()))

    try:
        if what_if.assignor is not None:
            get(what_if.assignor)
        ask(work())
    except (UnreadableError, WhatIfError, UnknownAssignorError) as error:
        say(f"baton plan: {error}", error=True)
        sys.exit(1)


def _print(comparison: "Comparison") -> None:
    """Colours only on a terminal, and not where NO_COLOR is set."""
    from baton.cli.explanation import WIDTH, explanation

    on = console(width=WIDTH, soft_wrap=True)
    for part in explanation(comparison):
        on.print(part)


def _requests(file: BinaryIO | None) -> Iterable[bytes]:
    if file is None:
        if sys.stdin.isatty():
            say("baton plan: type requests, one per line; Ctrl-D ends, and --help says more", error=True)
        return filter(bytes.strip, sys.stdin.buffer)
    content = file.read()
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return filter(bytes.strip, content.splitlines())
    return [content]
