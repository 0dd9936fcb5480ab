"""One name for one thing, over all packages."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import baton

PRODUCT = Path(baton.__file__).parent


def public_classes(module: Path) -> Iterator[str]:
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def test_no_two_public_classes_share_a_name() -> None:
    modules = defaultdict(list)
    for module in PRODUCT.rglob("*.py"):
        for name in public_classes(module):
            modules[name].append(module.relative_to(PRODUCT).as_posix())
    assert len(modules) > 300
    assert {name: found for name, found in modules.items() if len(found) > 1} == {}, "name each by what it is"
