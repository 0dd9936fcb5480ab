"""The list of `make mutate` follows the code and the tests."""

from tests.mutation.__main__ import ROOT, astray
from tests.mutation.mutations import MUTATIONS


def test_every_mutated_function_exists() -> None:
    assert astray(MUTATIONS) == [], "name its successor in tests/mutation/mutations.py, or take the row out"


def test_every_mutation_is_listed_once_and_has_tests_that_exist() -> None:
    assert len({one.name for one in MUTATIONS}) == len(MUTATIONS) <= 200
    missing = {test for one in MUTATIONS for test in one.tests if not (ROOT / "tests" / test.partition("::")[0]).exists()}
    assert missing == set()
