"""The registry of kinds of queues: what stands outside a kind's folder names none."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import baton
from baton.queues.kinds import KINDS

ROOMS = ("consumer", "controller", "engine", "kube", "spark")


def said(module: Path) -> Iterator[str]:
    """The texts of a module that are no docstrings."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    about = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in about:
            yield node.value


@pytest.mark.parametrize("room", ROOMS)
def test_no_message_of_a_room_that_knows_kinds_by_the_registry_names_one(room: str) -> None:
    named = re.compile(rf"\b({'|'.join(kind.name for kind in KINDS)})\b")
    modules = sorted((Path(baton.__file__).parent / room).glob("*.py"))
    texts = [(module.name, text) for module in modules for text in said(module)]
    assert texts
    assert [(module, text) for module, text in texts if named.search(text)] == []
