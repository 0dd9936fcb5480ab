"""An entry's headers, as they travel in a field of its own."""

import json
from collections.abc import Mapping

from baton.queues.producer_side import Headers


def pack(headers: Headers | None = None) -> bytes:
    """Nothing for none. Raises TypeError for what is no header, ValueError for text that is none."""
    if not headers:
        return b""
    if not isinstance(headers, Mapping):
        raise TypeError(f"headers are a mapping of names to values, such as a dict, not {type(headers).__name__}")
    return json.dumps({_name(name): _text(value) for name, value in headers.items()}, separators=(",", ":")).encode()


def utf8(text: str, what: str) -> bytes:
    """Raises ValueError for characters that are none, as in the names of files whose bytes are no UTF-8."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"a {what} has characters that are no text (surrogates): give bytes, as os.fsencode does") from None


def unpack(packed: bytes | None) -> dict[str, bytes]:
    """The inverse. What a producer of Baton's did not write has no headers."""
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
            raise ValueError("a header's name has characters that are no text (surrogates)") from None
        return name
    raise TypeError(f"a header's name is str, not {type(name).__name__}")


def _text(value: object) -> str:
    """Each byte as the character with its number: JSON has no bytes."""
    if isinstance(value, str):
        value = utf8(value, "header's value")
    if isinstance(value, bytes):
        return value.decode("latin-1")
    raise TypeError(f"a header's value is bytes or str, not {type(value).__name__}")
