"""Splits a stream that arrives in pieces into lines, such as a watch of the API server."""


class Lines:
    """The lines of one stream. Keeps an incomplete line until its end arrives."""

    def __init__(self) -> None:
        self.rest = bytearray()
        """The incomplete last line."""

    def ended_by(self, piece: bytes) -> list[bytes]:
        """Return the lines that end in this piece, in order, without line feeds."""
        ended, end, rest = piece.rpartition(b"\n")
        lines = (self.rest + ended).split(b"\n") if end else []
        if end:
            self.rest.clear()
        self.rest += rest
        return [bytes(line) for line in lines]
