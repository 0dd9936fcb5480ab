"""One rule, broken in one place."""

from typing import NamedTuple


class Mutation(NamedTuple):
    rule: str
    name: str
    """What is broken."""
    module: str
    """Below operator/baton; behind a `#` one script of a file in Lua."""
    tests: str
    """Those that notice, below tests/ and as pytest names them."""
    old: str
    """Stands there exactly once."""
    new: str
