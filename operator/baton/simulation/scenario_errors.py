"""What is wrong with a scenario."""

from collections.abc import Collection
from difflib import get_close_matches


class ScenarioError(ValueError):
    """A scenario that cannot be run. The message is one line: the file, the field and the cure."""


class TooMuchWork(ScenarioError):  # noqa: N818 -- what is wrong, for the user
    """It makes sense, and would take longer than anybody waits for."""


class FaultError(Exception):
    """The field and the cure; whoever reads the file says which file."""


def choose(name: str, among: Collection[str]) -> str:
    """The cure for a name that is none of these."""
    near = get_close_matches(name, sorted(among), n=1)
    if near:
        return f"did you mean {near[0]}?"
    some = sorted(among)[:8]
    return f"choose one of {', '.join(some)}{', …' if len(among) > len(some) else ''}" if some else "there is none yet"
