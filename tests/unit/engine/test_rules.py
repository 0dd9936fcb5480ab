"""The table of rules, and the pages that follow from the code."""

import re
from pathlib import Path

import pytest

from baton.engine.rules import RULES
from docs.generate import pages
from tests.mutation.mutations import ENGINE

# docs/concepts/rules.md, the list of a step, the mutations and what docstrings cite name the same rules.


ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "concepts" / "rules.md").read_text()
NUMBERED = {*re.findall(r"^- \*\*(Ledger \d+)\.\*\*", PAGE, re.MULTILINE), *re.findall(r"^(\d+)\. \*\*", PAGE, re.MULTILINE)}
SECTIONS = {"Triggers", "Approval", "Lower bound"}
ON_THE_PAGE = NUMBERED | SECTIONS
OF_NO_FUNCTION = {"Ledger 3", "10"}
"""Who a pod is, and that a step may be repeated, holds for every function."""


def cited() -> set[str]:
    """By the engine's docstrings and comments: "rule 5", "rules 2, 4, 8", "rules 1 and 8", "ledger 2"."""
    texts = [module.read_text() for module in (ROOT / "operator" / "baton" / "engine").glob("*.py")]
    lists = [found for text in texts for found in re.findall(r"\brules? (\d+(?:(?:, | and )\d+)*)", text, re.IGNORECASE)]
    ledger = [found for text in texts for found in re.findall(r"\((ledger \d+)\)", text)]
    return {number for found in lists for number in re.findall(r"\d+", found)} | {found.capitalize() for found in ledger}


def test_sections_that_are_rules_are_on_the_page() -> None:
    assert set(re.findall(r"^## (.+)$", PAGE, re.MULTILINE)) >= SECTIONS


def test_every_rule_that_the_engine_cites_is_on_the_page() -> None:
    assert len(cited()) > 8
    assert cited() - NUMBERED == set()


def test_every_rule_has_a_function_and_every_function_a_rule() -> None:
    assert {name for rule in RULES for name in rule.of} == ON_THE_PAGE - OF_NO_FUNCTION


def test_every_rule_has_a_mutation_and_every_mutation_a_rule() -> None:
    assert {mutation.rule for mutation in ENGINE} == ON_THE_PAGE


def test_a_rule_applied_twice_says_why() -> None:
    names = [rule.name for rule in RULES]
    again = [names.index(rule.name) < number for number, rule in enumerate(RULES)]
    assert again == [rule.why.startswith("Again: ") for rule in RULES]


# Pages about the engine are generated from its code. That it keeps to the table of states: tests/simulation/test_seeds.py.


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_a_page_is_generated_from_the_code(page: Path) -> None:
    assert page.read_text() == pages()[page], "run make generate"
