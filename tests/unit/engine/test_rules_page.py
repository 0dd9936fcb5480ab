"""docs/concepts/rules.md has every rule that is cited by its number, and each can be broken on purpose."""

import re
from pathlib import Path

from tests.mutation.rules import ENGINE

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "concepts" / "rules.md").read_text()
RULES = {*re.findall(r"^(\d+)\. \*\*", PAGE, re.MULTILINE), *(word.lower() for word in re.findall(r"\*\*(Ledger \d+)\.", PAGE))}


def cited() -> set[str]:
    """By the engine's docstrings and comments: "rule 5", "rules 2, 4, 8", "rules 1 and 8", "ledger 2"."""
    texts = [module.read_text() for module in (ROOT / "operator" / "baton" / "engine").glob("*.py")]
    lists = [found for text in texts for found in re.findall(r"\brules? (\d+(?:(?:, | and )\d+)*)", text, re.IGNORECASE)]
    ledger = [found for text in texts for found in re.findall(r"\(ledger \d+\)", text)]
    return {number for found in lists for number in re.findall(r"\d+", found)} | {found.strip("()") for found in ledger}


def test_every_rule_that_the_engine_cites_is_on_the_page() -> None:
    assert len(cited()) > 8
    assert cited() - RULES == set()


def test_every_rule_on_the_page_is_broken_on_purpose_somewhere() -> None:
    assert RULES - {mutation.rule for mutation in ENGINE} == set()
