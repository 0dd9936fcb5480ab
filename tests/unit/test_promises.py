"""docs/development/promises.md: each test that it names exists, each promise has one, and each rule has its rows."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
RULES = (ROOT / "docs" / "concepts" / "rules.md").read_text()
PAGE = (ROOT / "docs" / "development" / "promises.md").read_text()
TABLES = [section.partition("|---|\n")[2] for section in PAGE.split("\n## ")[1:]]
ROWS = [row for table in TABLES for row in re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", table, re.MULTILINE)]
OF_RULES = {rule for table in TABLES[:3] for rule in re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)}


@cache
def functions_of(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text())
    return frozenset(one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))


def missing(named: str) -> bool:
    path, _, test = named.partition("::")
    file = ROOT / path
    if file.suffix == ".yaml":
        return bool(test) or not file.is_file()
    return not test.startswith("test_") or not file.is_file() or test not in functions_of(file)


def test_every_test_that_the_page_names_exists() -> None:
    named = [one for _, _, tests in ROWS for one in re.findall(r"`([^`]+)`", tests)]
    assert len(named) > 300
    assert sorted(filter(missing, named)) == []


def test_every_promise_has_a_test() -> None:
    assert [promise for _, promise, tests in ROWS if not re.fullmatch(r"`[^`]+`(<br>`[^`]+`)*", tests)] == []


def test_every_rule_has_its_rows() -> None:
    ledger = re.findall(r"^- \*\*(Ledger \d+)\.\*\*", RULES, re.MULTILINE)
    numbers = re.findall(r"^(\d+)\. \*\*", RULES, re.MULTILINE)
    assert len(ledger) == 4 and len(numbers) == 10
    assert {*ledger, *numbers, "Triggers", "Approval", "Lower bound"} == OF_RULES


def test_every_line_of_a_table_is_read() -> None:
    assert len(ROWS) + 2 * len(TABLES) == len(re.findall(r"^\|", PAGE, re.MULTILINE))
