"""The assignor in use: the first of spec.assignors that every member supports. So a fleet changes over by restarts (Kafka)."""

from baton.assignors import Traits, UnknownAssignorError, get, names, traits_of
from baton.engine.draft import Draft
from baton.engine.state import PlanProblem


def assignor_in_use(draft: Draft) -> str | None:
    """The first of spec.assignors that exists and that every member supports. None: there is none, and the draft gets a
    problem."""
    missing: UnknownAssignorError | None = None
    for name in draft.spec.assignors:
        try:
            get(name)
        except UnknownAssignorError as error:
            missing = missing or error
            continue
        if all(member.assignors is None or name in member.assignors for member in draft.eligible.values()):
            return name
    if missing is not None:
        draft.problem = PlanProblem("UnknownAssignor", str(missing))
    else:
        wanted = set(draft.spec.assignors)
        choosy = {name: member.assignors for name, member in draft.eligible.items() if member.assignors is not None}
        stubborn = sorted(name for name, supported in choosy.items() if not wanted & set(supported))
        who = (stubborn or sorted(choosy))[0]
        nowhere = [name for name in choosy[who] if not _exists(name)]
        common = sorted(name for name in set.intersection(*map(set, choosy.values())) if _exists(name))
        draft.problem = PlanProblem(
            "UnknownAssignor",
            f"no assignor of {', '.join(draft.spec.assignors)} is supported by every member: {who} announces "
            f"{', '.join(choosy[who])} in its annotation baton.dev/assignors"
            + (f" (there is no assignor {nowhere[0]} here: correct it, or install it beside the operator)" if nowhere else "")
            + (f"; add {common[0]}, which all support, to spec.assignors, or" if common else ";")
            + " let the pods announce one of these",
        )
    return None


def traits(draft: Draft) -> Traits:
    """The traits that the assignor in use declares; the defaults if none is in use."""
    name = draft.facts.assignor if draft.facts is not None else None
    return Traits() if name is None else traits_of(name)


def _exists(name: str) -> bool:
    """Without loading it: it is a pod that names it."""
    return name in names()
