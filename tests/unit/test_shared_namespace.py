"""Tests of the operator share the namespace `shop` where one process runs them: no two files make things of the same name."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

OPERATOR_TESTS = Path(__file__).parents[1] / "integration" / "operator"
SORTS = {"queue": "queue", "redis": "queue", "external": "queue", "group": "group", "pod": "pod", "secret": "secret"}
"""What each method of a World makes, of the name that is its first argument."""
Function = ast.FunctionDef | ast.AsyncFunctionDef
Made = tuple[str, ast.expr]
"""The sort of a thing, and the expression of its name."""


def made_by_calls(node: ast.AST, world: str, helpers: dict[str, list[tuple[str, int]]]) -> Iterator[Made]:
    """What is made in the World of this variable: by its methods, or by functions that are given it first."""
    for call in (found for found in ast.walk(node) if isinstance(found, ast.Call)):
        match call.func, call.args:
            case ast.Attribute(value=ast.Name(id=made_in), attr=method), [name, *_] if made_in == world and method in SORTS:
                yield SORTS[method], name
            case ast.Name(id=helper), [ast.Name(id=made_in), *_] if made_in == world:
                for sort, place in helpers.get(helper, ()):
                    if place < len(call.args):
                        yield sort, call.args[place]


def named_by_arguments(function: Function, helpers: dict[str, list[tuple[str, int]]]) -> list[tuple[str, int]]:
    """What a function makes in the World that is its first argument, by the place of the argument that is its name."""
    arguments = [argument.arg for argument in function.args.args]
    made = made_by_calls(function, arguments[0], helpers) if arguments else ()
    return [(sort, arguments.index(name.id)) for sort, name in made if isinstance(name, ast.Name) and name.id in arguments]


def made_in_shop(sources: dict[str, str]) -> dict[tuple[str, str], set[str]]:
    """By sort and name: the files that make it. `sources`: Python source by the file's name."""
    trees = {file: ast.parse(source) for file, source in sources.items()}
    functions = [found for tree in trees.values() for found in ast.walk(tree) if isinstance(found, Function)]
    helpers: dict[str, list[tuple[str, int]]] = {}
    known = None
    while known != helpers:
        known, helpers = helpers, {function.name: named_by_arguments(function, helpers) for function in functions}
    files: dict[tuple[str, str], set[str]] = defaultdict(set)
    for file, tree in trees.items():
        for sort, name in made_by_calls(tree, "shop", helpers):
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                files[sort, name.value].add(file)
    return files


def test_no_two_files_use_one_name_in_the_shared_namespace() -> None:
    files = made_in_shop({file.name: file.read_text(encoding="utf-8") for file in OPERATOR_TESTS.glob("*.py")})
    assert len(files) > 100
    assert {made: found for made, found in files.items() if len(found) > 1} == {}
