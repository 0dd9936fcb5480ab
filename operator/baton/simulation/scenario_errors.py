"""What is wrong with a scenario."""


class ScenarioError(ValueError):
    """A scenario that cannot be run. The message is one line: the file, the field and the cure."""


class TooMuchWork(ScenarioError):  # noqa: N818 -- what is wrong, for the user
    """It makes sense, and would take longer than anybody waits for."""


class FaultError(Exception):
    """The field and the cure; whoever reads the file says which file."""
