"""JSON of the API server, of which nothing is too deep to be read.

Whoever may write an object may give it metadata.managedFields of ten thousand levels, which the API server takes, and Python's
parser gives up at a thousand: one such object would hide all others that are listed or watched with it. What lies deeper than
anything that is looked at becomes null.
"""

import asyncio
import json
import re
from typing import Any

DEEPEST = 50
"""Levels that are kept where something is too deep."""

SURELY_READ = 500
"""A text with so few brackets is not too deep for Python's parser."""

_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+([\[\]{}])', re.DOTALL)
"""The next one that is in no string."""


async def parsed(text: bytes) -> Any:
    """Raises ValueError where it is no JSON."""
    try:
        return json.loads(text)
    except RecursionError:
        return json.loads(await asyncio.to_thread(shallow, text))  # some MiB of brackets take seconds


def readable(text: bytes) -> bytes:
    """The same, as far as somebody else's parser gets to its end."""
    return text if text.count(b"{") + text.count(b"[") <= SURELY_READ else shallow(text)


def shallow(text: bytes) -> bytes:
    """The same, with null for each object and list that lies too deep. What is no JSON does not become any."""
    kept: list[bytes] = []
    begin = depth = 0
    for bracket in _BRACKET.finditer(text):
        place = bracket.start(1)
        if text[place] in b"[{":
            depth += 1
            if depth == DEEPEST + 1:
                kept += [text[begin:place], b"null"]
        else:
            if depth == DEEPEST + 1:
                begin = place + 1
            depth -= 1
    if depth <= DEEPEST:
        kept.append(text[begin:])
    return b"".join(kept)
