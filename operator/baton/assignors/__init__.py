"""Who should own what: pure functions of a request, by name.

`get("solace")(Request(...))` answers with an `Answer`. No assignor does I/O, asks for the time or rolls dice.
"""

from baton.assignors.bound import lower_bound
from baton.assignors.registry import UnknownAssignorError, get, names
from baton.assignors.request import NO_GENERATION, Answer, Assignor, Member, Request
from baton.assignors.solace import place_new

__all__ = [
    "NO_GENERATION",
    "Answer",
    "Assignor",
    "Member",
    "Request",
    "UnknownAssignorError",
    "get",
    "lower_bound",
    "names",
    "place_new",
]
