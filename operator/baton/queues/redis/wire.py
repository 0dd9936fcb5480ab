"""Requests as they go over the wire: https://redis.io/docs/latest/develop/reference/protocol-spec/"""

from typing import NamedTuple


class Ask(NamedTuple):
    """Bytes to write at once, and how many answers to read. An answer that is a ResponseError stands for itself."""

    written: bytes
    answers: int


def packed(*words: str | int) -> bytes:
    """A command."""
    return b"*%d\r\n%b" % (len(words), arguments(*words))


def arguments(*words: str | int) -> bytes:
    """Words of a command."""
    texts = [str(word) for word in words]
    together = "".join([f"${len(text)}\r\n{text}\r\n" for text in texts])
    if together.isascii():
        return together.encode()
    return b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in map(str.encode, texts)])
