"""Label selectors: existence, equality and sets, as `labelSelector` spells them."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from tests.simulation.api_server.refusals import bad_request

Selects = Callable[[Mapping[str, Any]], bool]
"""Of a manifest."""

_SET = re.compile(r"(?P<key>[^\s=!,()]+)\s+(?P<how>in|notin)\s+\((?P<values>[^()]*)\)")
_EQUAL = re.compile(r"(?P<key>[^\s=!,()]+)\s*(?P<how>==|=|!=)\s*(?P<value>[^\s=!,()]*)")
_THERE = re.compile(r"(?P<not>!?)\s*(?P<key>[^\s=!,()]+)")


@lru_cache(maxsize=1000)
def selector(text: str) -> Selects | None:
    """None: selects everything. Raises Refused (400) for what is no selector."""
    tests = [_requirement(text, part.strip()) for part in re.split(r",(?![^(]*\))", text)] if text.strip() else []
    if not tests:
        return None

    def selects(manifest: Mapping[str, Any]) -> bool:
        labels = manifest["metadata"].get("labels") or {}
        return all(test(labels) for test in tests)

    return selects


def _requirement(whole: str, part: str) -> Callable[[Mapping[str, str]], bool]:
    if found := _SET.fullmatch(part):
        key, values = found["key"], {value.strip() for value in found["values"].split(",")}
        if found["how"] == "in":
            return lambda labels: key in labels and labels[key] in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUAL.fullmatch(part):
        key, value = found["key"], found["value"]
        if found["how"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _THERE.fullmatch(part):
        key, there = found["key"], not found["not"]
        return lambda labels: (key in labels) is there
    raise bad_request(f'unable to parse requirement: found "{part}" in "{whole}"')
