"""Assignors by name: pure functions that plan the owners of partitions. `get("solace")(Request(...))` returns an `Answer`.

An assignor of the user's own imports from here only: the modules below are not a public interface.
"""

from baton.assignors.contract import AssignorError
from baton.assignors.declaration import Traits
from baton.assignors.installed import INSTALLED_NAME
from baton.assignors.registry import BUILT_IN, DEFAULT, UnknownAssignorError, get, install, names, traits_of
from baton.assignors.request import NO_GENERATION, Answer, Assignor, Member, Request
from baton.assignors.solace.lower_bound import lower_bound
from baton.assignors.solace.solace import place_new

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
