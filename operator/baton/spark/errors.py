"""What the source answers Spark instead of what it was asked for."""


class SourceError(Exception):
    """Ends the query. Its text is what the user reads: what is wrong, and the cure."""


class AskAgain(Exception):  # noqa: N818 - nothing is wrong
    """Something is waited for: Spark's thread asks again after so many milliseconds, unless its query is stopped."""

    def __init__(self, milliseconds: int) -> None:
        super().__init__(milliseconds)
        self.milliseconds = milliseconds
