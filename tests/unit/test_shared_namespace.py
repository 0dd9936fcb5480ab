"""Tests of the operator share the namespace `shop` where one process runs them: no two files make things of the same name."""

import re
from collections import defaultdict
from pathlib import Path

OPERATOR_TESTS = Path(__file__).parents[1] / "integration" / "operator"
_MADE = re.compile(r"\bshop\.(queue|redis|external|group|pod|secret)\(\s*\"([^\"]+)\"")
_SORTS = {"redis": "queue", "external": "queue"}


def test_no_two_files_make_things_of_one_name_in_the_shared_namespace() -> None:
    files = defaultdict(set)
    for file in OPERATOR_TESTS.glob("*.py"):
        for sort, name in _MADE.findall(file.read_text(encoding="utf-8")):
            files[_SORTS.get(sort, sort), name].add(file.name)
    assert len(files) > 100
    assert {made: found for made, found in files.items() if len(found) > 1} == {}
