"""The page of the rules, the list of a step and the mutations name the same rules."""

import re
from pathlib import Path

from tests.mutation.rules import ENGINE

from baton.engine.rules import RULES

PAGE = (Path(__file__).parents[3] / "docs" / "concepts" / "rules.md").read_text()
SECTIONS = {"Triggers", "Approval", "Lower bound"}
NAMED = {*re.findall(r"^- \*\*(Ledger \d+)\.\*\*", PAGE, re.M), *re.findall(r"^(\d+)\. \*\*", PAGE, re.M), *SECTIONS}
OF_NO_FUNCTION = {"Ledger 3", "10"}
"""Who a pod is, and that a step may be repeated, holds for every function."""


def test_sections_that_are_rules_are_on_the_page() -> None:
    assert set(re.findall(r"^## (.+)$", PAGE, re.M)) >= SECTIONS


def test_each_rule_is_kept_by_some_function_of_a_step_and_each_function_keeps_rules_of_the_page() -> None:
    assert {name for rule in RULES for name in rule.of} == NAMED - OF_NO_FUNCTION


def test_each_rule_is_broken_by_some_mutation_and_each_mutation_breaks_a_rule_of_the_page() -> None:
    assert {mutation.rule for mutation in ENGINE} == NAMED


def test_what_is_applied_a_second_time_says_so() -> None:
    names = [rule.name for rule in RULES]
    again = [names.index(rule.name) < number for number, rule in enumerate(RULES)]
    assert again == [rule.why.startswith("Again: ") for rule in RULES]
