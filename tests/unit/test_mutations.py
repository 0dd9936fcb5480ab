"""The list of `make mutate` follows the code and the tests."""

from pathlib import Path

from tests.mutation.__main__ import MUTATIONS, ROOT, astray


def test_every_line_that_is_to_be_broken_stands_there_once() -> None:
    assert astray(ROOT, MUTATIONS) == [], "correct their texts in tests/mutation, or take out what breaks no rule any more"


def test_every_mutation_has_a_name_of_its_own_and_tests_that_exist() -> None:
    assert len({one.name for one in MUTATIONS}) == len(MUTATIONS)
    missing = [one.tests for one in MUTATIONS if not Path(ROOT / "tests" / one.tests.partition("::")[0]).exists()]
    assert missing == []
