"""Cases of a test of which `make test` has only some: each takes its time."""

from collections.abc import Container, Iterable

import pytest
from _pytest.mark import ParameterSet


def mostly_long(cases: Iterable[object], *, always: Container[object]) -> list[ParameterSet]:
    """For `parametrize`: all of these, in their order; those that are not `always` run are in `make test-long`. A case of several
    arguments is a tuple."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=() if case in always else pytest.mark.long)
        for case in cases
    ]
