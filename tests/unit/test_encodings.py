"""Texts are UTF-8, whatever the locale of the process says: an image may have another one."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import baton
from baton.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
BATON = Path(baton.__file__ or "").parent
ASCII = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
HELP = """
from baton.cli.main import COMMANDS, main

for command in COMMANDS:
    main([command, "--help"], standalone_mode=False)
"""


def test_a_consumer_starts_in_an_ascii_locale() -> None:
    command = [sys.executable, "-c", "import baton.consumer, baton.queues.redis"]
    done = subprocess.run(command, env=os.environ | ASCII, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_command_prints_in_an_ascii_locale() -> None:
    done = subprocess.run([sys.executable, "-c", HELP], env=os.environ | ASCII, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.count("Usage: ")) == (0, len(COMMANDS)), done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["--help"],
        ["nonsens\u00e9"],
        ["simulate", str(ROOT / "tests/simulation/scenarios/external.yaml")],
        ["simulate", "\u00e9.yaml"],
        ["status", "gr\u00fcn", "--kubeconfig", "/nothing/\u00e9"],
    ],
    ids=" ".join,
)
def test_non_ascii_arguments_work_in_an_ascii_locale(command: list[str]) -> None:
    arguments = [word.encode() for word in [str(Path(sys.executable).parent / "baton"), *command]]
    done = subprocess.run(arguments, env=os.environ | ASCII, capture_output=True, check=False)
    assert b"UnicodeEncodeError" not in done.stderr and b"Traceback" not in done.stderr, done.stderr.decode()


def test_a_chart_is_legible_in_an_ascii_locale() -> None:
    command = [str(Path(sys.executable).parent / "baton"), "simulate", str(ROOT / "manifests/examples/scenarios/node-drain.yaml")]
    shown = subprocess.run(command, env=os.environ | ASCII, capture_output=True, text=True, check=True).stdout
    legend = re.findall(
        r"(\S) (paused|without an owner|Holddown|Rebalancing|time at rest)", shown.partition("\nA p-1")[2].partition("\n\n")[0]
    )
    signs = {sign for sign, _ in legend if sign != "?"}
    assert len(signs) == 5, legend


def test_text_is_never_read_or_written_in_the_locales_encoding() -> None:
    found = [f"{path.relative_to(BATON)}:{line}" for path in sorted(BATON.rglob("*.py")) for line in by_the_locale(path)]
    assert found == [], "say encoding='utf-8'"


def by_the_locale(path: Path) -> Iterator[int]:
    """The lines that open a text and do not say how it is encoded."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Call(func=ast.Attribute(attr="read_text" | "write_text"), keywords=keywords):
                text = True
            case ast.Call(func=ast.Attribute(attr="open") | ast.Name(id="open"), args=[] | [ast.Constant()], keywords=keywords):
                text = not any("b" in str(mode.value) for mode in node.args if isinstance(mode, ast.Constant))
            case ast.Call(func=ast.Attribute(attr="fdopen"), args=[_, *modes], keywords=keywords):
                text = not any("b" in str(mode.value) for mode in modes if isinstance(mode, ast.Constant))
            case _:
                continue
        if text and not any(keyword.arg == "encoding" for keyword in keywords):
            yield node.lineno
