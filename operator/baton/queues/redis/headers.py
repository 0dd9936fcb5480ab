"""Encodes an entry's headers into a field of its stream entry."""

import json
from collections.abc import Mapping

from baton.queues.producer_side import Headers


def pack(headers: Headers | None = None) -> bytes:
    """Encode headers; empty without any. Raises TypeError for invalid types, and ValueError for text with surrogates."""
    if not headers:
        return b""
    if not isinstance(headers, Mapping):
        raise TypeError(f"headers are a mapping of names to values, such as a dict, not {type(headers).__name__}")
    return json.dumps({_name(name): _text(value) for name, value in headers.items()}, separators=(",", ":")).encode()


def utf8(text: str, what: str) -> bytes:
    """Encode a text. Raises ValueError for surrogates, as in names of files that are not valid UTF-8."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"a {what} has characters that cannot be encoded (surrogates): pass bytes (os.fsencode)") from None


def unpack(packed: bytes | None) -> dict[str, bytes]:
    """Decode headers; empty if a Baton producer did not write them."""
    if not packed:
        return {}
    try:
        return {name: value.encode("latin-1") for name, value in json.loads(packed).items()}
    except (ValueError, AttributeError, RecursionError):
        return {}


def _name(name: object) -> str:
    if isinstance(name, str):
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ValueError("a header's name has characters that cannot be encoded (surrogates)") from None
        return name
    raise TypeError(f"a header's name is str, not {type(name).__name__}")


def _text(value: object) -> str:
    """Map each byte to the character with its number (latin-1), as JSON has no bytes."""
    if isinstance(value, str):
        value = utf8(value, "header's value")
    if isinstance(value, bytes):
        return value.decode("latin-1")
    raise TypeError(f"a header's value is bytes or str, not {type(value).__name__}")
