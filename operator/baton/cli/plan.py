"""`baton plan`: who would own what, from requests in JSON Lines."""

import json
import sys
from collections.abc import Iterable
from typing import BinaryIO

import click

from baton.assignors.refusal import RequestError
from baton.assignors.wire import answer_line
from baton.cli.own_assignors import use_own_assignors


@click.command()
@click.option(
    "--request",
    "file",
    type=click.File("rb"),
    metavar="FILE",
    help="Read the requests from FILE ('-': standard input): one per line, or a single one over several lines.",
)
def plan(file: BinaryIO | None) -> None:
    """Answer assignment requests: one line of JSON in, one line of JSON out.

    Nothing is changed anywhere. A request names an assignor, the queues with their numbers of partitions, and the members with
    what they read and own now. The answer says who should own what, how many partitions move, and how many would have to at
    least. A request that cannot be answered gets {"error": "<field>: <what is wrong>"}, and the command then ends with status 1.
    """
    use_own_assignors()
    refused = False
    for line in _requests(file):
        try:
            answer = answer_line(line)
        except RequestError as error:
            answer = {"error": str(error)}
            refused = True
        click.echo(json.dumps(answer, separators=(",", ":")))
    sys.exit(refused)


def _requests(file: BinaryIO | None) -> Iterable[bytes]:
    if file is None:
        return filter(bytes.strip, sys.stdin.buffer)
    content = file.read()
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return filter(bytes.strip, content.splitlines())
    return [content]
