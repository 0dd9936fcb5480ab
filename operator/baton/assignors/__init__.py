"""Assignors by name: pure functions that plan the owners of partitions. `get("solace")(Request(...))` returns an `Answer`.

Users' own assignors import only from here: the modules below are private.
"""

from baton.assignors.building_blocks import Traits
from baton.assignors.registry import BUILT_IN, DEFAULT, INSTALLED_NAME, UnknownAssignorError, get, install, names, traits_of
from baton.assignors.request import NO_GENERATION, Answer, Assignor, AssignorError, Member, Request
from baton.assignors.solace import lower_bound, place_new

__all__ = [
    "BUILT_IN",
    "DEFAULT",
    "INSTALLED_NAME",
    "NO_GENERATION",
    "Answer",
    "Assignor",
    "AssignorError",
    "Member",
    "Request",
    "Traits",
    "UnknownAssignorError",
    "get",
    "install",
    "lower_bound",
    "names",
    "place_new",
    "traits_of",
]
