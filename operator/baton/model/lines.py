"""The lines of a stream that comes in pieces, as a watch of the API server does."""


class Lines:
    """Of one stream. It keeps what has come of a line until its end has come, too."""

    def __init__(self) -> None:
        self.rest = bytearray()
        """Of the line that has no end yet."""

    def ended_by(self, piece: bytes) -> list[bytes]:
        """Those that end in this piece, in order, without their ends."""
        ended, end, rest = piece.rpartition(b"\n")
        lines = (self.rest + ended).split(b"\n") if end else []
        if end:
            self.rest.clear()
        self.rest += rest
        return [bytes(line) for line in lines]
