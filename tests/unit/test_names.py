"""What docstrings name is there."""

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path

import baton

PRODUCT = Path(baton.__file__).parent


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Also those of fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def test_exceptions_named_in_docstrings_exist() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in PRODUCT.rglob("*.py")}
    known = {*dir(builtins)}
    for node in (node for tree in trees.values() for node in ast.walk(tree)):
        if isinstance(node, ast.Name):
            known.add(node.id)
        elif isinstance(node, ast.Attribute):
            known.add(node.attr)
        elif isinstance(node, ast.ClassDef):
            known.add(node.name)
    said = [
        (path.relative_to(PRODUCT).as_posix(), name)
        for path, tree in trees.items()
        for text in docstrings(tree)
        for names in re.findall(r"\b[Rr]aises? ((?:[A-Z]\w+(?:,? and |,? or |,\s)?)+)", text)
        for name in re.findall(r"[A-Z]\w+", names)
    ]
    assert len(said) > 100
    assert [one for one in said if one[1] not in known] == []
