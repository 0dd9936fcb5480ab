"""What is raised when something happened that must never happen."""


class InvariantError(AssertionError):
    """The message says what."""
