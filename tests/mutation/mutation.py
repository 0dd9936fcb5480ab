"""One rule, broken in one place."""

from typing import NamedTuple


class Mutation(NamedTuple):
    rule: str
    name: str
    module: str
    """Below operator/baton."""
    old: str
    """Stands there exactly once."""
    new: str
    tests: str
    """Below tests/: the file (or files, or one test of one) that notices, as pytest understands it; or SEEDS."""


SEEDS = "seeds"
"""Noticed by none but random fleets."""
