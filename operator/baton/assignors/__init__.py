"""Who should own what: pure functions of a request, by name.

`get("solace")(Request(...))` answers with an `Answer`. No assignor does I/O, asks for the time or rolls dice.
"""

from baton.assignors.bound import lower_bound
from baton.assignors.registry import UnknownAssignor, get, names
from baton.assignors.request import NO_GENERATION, Answer, Assignor, Member, Request

__all__ = [
    "NO_GENERATION",
    "Answer",
    "Assignor",
    "Member",
    "Request",
    "UnknownAssignor",
    "get",
    "lower_bound",
    "names",
]
