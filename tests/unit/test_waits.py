"""Tests of real processes and servers wait at least PATIENCE seconds for what must come."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

TESTS = Path(__file__).parents[1]
WAITS = {"wait", "join", "result"}
"""Methods with an argument that is how long they wait."""
PAUSE = 1.0
"""Seconds. What is shorter passes time between two looks, or shows that something has not come."""


def hasty(source: str) -> Iterator[str]:
    """Waits with a literal number."""
    for call in (found for found in ast.walk(ast.parse(source)) if isinstance(found, ast.Call)):
        if isinstance(call.func, ast.Attribute) and call.func.attr in WAITS:
            given = [*call.args, *(keyword.value for keyword in call.keywords)]
            numbers = [one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, int | float)]
            if len(given) < 3 and any(PAUSE <= number < PATIENCE for number in numbers):
                yield ast.unparse(call)


@pytest.mark.parametrize("room", ["integration", "e2e"])
def test_no_wait_is_shorter_than_patience(room: str) -> None:
    files = [*(TESTS / room).rglob("*.py")]
    assert len(files) > 20
    found = {str(file.relative_to(TESTS)): [*hasty(file.read_text(encoding="utf-8"))] for file in files}
    assert {file: waits for file, waits in found.items() if waits} == {}
