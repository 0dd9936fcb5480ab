"""The list of `make mutate` follows the code and the tests."""

from pathlib import Path

from tests.mutation.__main__ import MUTATIONS, ROOT, astray
from tests.mutation.forked_runs import verdict


def test_every_line_that_is_to_be_broken_stands_there_once() -> None:
    assert astray(ROOT, MUTATIONS) == [], "correct their texts in tests/mutation, or take out what breaks no rule any more"


def test_every_mutation_has_a_name_of_its_own_and_tests_that_exist() -> None:
    assert len({one.name for one in MUTATIONS}) == len(MUTATIONS)
    missing = [one.tests for one in MUTATIONS if not Path(ROOT / "tests" / one.tests.partition("::")[0]).exists()]
    assert missing == []


def test_what_has_noticed_is_the_test_that_failed_and_no_line_of_a_log() -> None:
    said = "ERROR    aiokafka:client.py:325 Unable to update metadata\nFAILED tests/unit/test_a.py::test_one[b] - assert 1 == 2\n"
    assert verdict(1, said) == "test_one[b]"
    assert verdict(0, said) is None
